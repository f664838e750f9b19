"""Convolutions as nests, for tests: a problem, and a nest of it run by the interpreter and compared with NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from graphc.base.dtypes import F32
from graphc.graph_ir.nest.convolution import convolution
from graphc.graph_ir.nest.convolution_geometry import ConvolutionGeometry
from graphc.graph_ir.nest.lower import lower
from graphc.graph_ir.nest.nest import Nest
from graphc.graph_ir.nest.problem import Contraction, View
from graphc.targets.isa import Target
from graphc.targets.microkernels import microkernels
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import Block, Buffer, Function, Module
from graphc.tensor_ir.verifier import verify

TARGET = Target("avx2", features="+avx2,+fma")
COLUMNS = 8
PADDED = ConvolutionGeometry(2, 1, 4, 11, (5, 6), (5, 6), (3, 3), before=(1, 1))


def problem(g: ConvolutionGeometry, band: str) -> Contraction:
    """A convolution of f32 whose image suits a band."""
    (height, width), channels = g.image, g.groups * g.channels
    image = Buffer("image", F32, (g.batch * height * width * channels,))
    x = channels_last(image, (height, width), channels)
    if band == "blocks":
        strides = {**x.strides, "iy": width * 2, "ix": 2}
        x = replace(x, strides=strides, blocks={"c": (2, 2 * height * width)})
    (rows, columns), outputs = g.result, g.groups * g.outputs
    result = Buffer("result", F32, (g.batch * rows * columns * outputs,))
    y = channels_last(result, (rows, columns), outputs)
    panels = g.groups * -(-g.outputs // COLUMNS)
    w = Buffer("weights", F32, (panels * g.terms * COLUMNS,))
    (kernel,) = microkernels(F32, F32, TARGET)
    return convolution(g, (x, (w, COLUMNS), y), band, kernel, None)


def channels_last(buffer: Buffer, pixels: tuple[int, int], channels: int) -> View:
    """An image whose channels are last."""
    row = pixels[1] * channels
    return View(buffer, {"b0": pixels[0] * row, "c": 1, "iy": row, "ix": channels})


def arrays(g: ConvolutionGeometry, band: str) -> tuple[list[np.ndarray], np.ndarray]:
    """(image and weights as a band reads them and room for the result, the result by NumPy)."""
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, (g.batch, g.groups * g.channels, *g.image)).astype(np.float32)
    w = rng.integers(-4, 5, (g.groups, g.outputs, g.channels, *g.kernel)).astype(np.float32)
    out = np.zeros((g.batch, *g.result, g.groups, g.outputs), np.float32)
    size = [g.span(axis, g.result[axis]) for axis in (0, 1)]
    whole = np.zeros(
        (
            g.batch,
            x.shape[1],
            *(max(s, b + n) for s, b, n in zip(size, g.before, g.image, strict=True)),
        )
    )
    whole[:, :, g.before[0] :, g.before[1] :][:, :, : g.image[0], : g.image[1]] = x
    for i, j, group in np.ndindex(*g.kernel, g.groups):
        own = whole[:, group * g.channels : (group + 1) * g.channels]
        y, x0 = i * g.dilations[0], j * g.dilations[1]
        seen = own[:, :, y :: g.strides[0], x0 :: g.strides[1]][:, :, : g.result[0], : g.result[1]]
        out[:, :, :, group] += np.einsum("bcyx,oc->byxo", seen, w[group, :, :, i, j])
    last = x.transpose(0, 2, 3, 1)
    if band == "blocks":
        last = x.reshape(g.batch, -1, 2, *g.image).transpose(0, 1, 3, 4, 2)
    panels = np.pad(w, ((0, 0), (0, -g.outputs % COLUMNS), (0, 0), (0, 0), (0, 0)))
    panels = panels.reshape(g.groups, -1, COLUMNS, g.channels, *g.kernel)
    packed = panels.transpose(0, 1, 4, 5, 3, 2)
    if band == "blocks":
        packed = panels.reshape(g.groups, -1, COLUMNS, g.channels // 2, 2, *g.kernel).transpose(
            0, 1, 3, 5, 6, 4, 2
        )
    flat = [np.ascontiguousarray(one, np.float32).ravel() for one in (last, packed)]
    return [*flat, np.full(out.size, np.nan, np.float32)], out.ravel()


def check(nest: Nest, g: ConvolutionGeometry, band: str) -> None:
    """Interpret a nest, tensorized or not, and compare with NumPy exactly."""
    body = lower(nest, TARGET)
    p = nest.problem
    function = Function(
        "f",
        (p.a.buffer, p.b.buffer, p.c.buffer),
        body if isinstance(body, Block) else Block((body,)),
    )
    given, expected = arrays(g, band)
    interpreter.run(verify(Module((function,))), "f", given)
    np.testing.assert_array_equal(given[-1], expected)
