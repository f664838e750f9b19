"""Convolutions as nests: every step keeps the result, for every layout of what is copied of an image."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.base.errors import UserError
from graphc.graph_ir.nest.convolution import (
    REDUCED,
    ConvolutionOperands,
    ImageOperand,
    convolution,
)
from graphc.graph_ir.nest.convolution_geometry import ConvolutionGeometry
from graphc.graph_ir.nest.lower import lower
from graphc.graph_ir.nest.nest import Nest, contraction
from graphc.graph_ir.nest.problem import Contraction
from graphc.graph_ir.nest.scalar import lower_scalar
from graphc.graph_ir.nest.schedule_text import apply, steps_of
from graphc.graph_ir.schedule.convolution_steps import convolution_steps
from graphc.graph_ir.schedule.matmul_tile import MatmulBlocking
from graphc.targets.isa import GemmTile, Target
from graphc.targets.microkernels import microkernels
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import Block, Buffer, Function, Module
from graphc.tensor_ir.verifier import verify

TARGET = Target("avx2", features="+avx2,+fma")
COLUMNS = 8
PADDED = ConvolutionGeometry(2, 1, 4, 11, (5, 6), (5, 6), (3, 3), before=(1, 1))
STRIDED = ConvolutionGeometry(1, 1, 3, 8, (9, 7), (4, 3), (3, 2), (2, 2), (1, 2))
GROUPS = ConvolutionGeometry(1, 3, 2, 9, (4, 5), (4, 5), (3, 3), before=(1, 1))
INSIDE = ConvolutionGeometry(1, 1, 4, 9, (6, 5), (4, 3), (3, 3))
BANDS = [
    *[(band, g) for band in ("rows", "planes", "im2col") for g in (PADDED, STRIDED, GROUPS)],
    ("image", INSIDE),
    ("blocks", PADDED),
]


def problem(g: ConvolutionGeometry, band: str) -> Contraction:
    """A convolution of f32 whose image suits a band."""
    (height, width), channels = g.image, g.groups * g.channels
    image = Buffer("image", F32, (g.batch * height * width * channels,))
    operand = ImageOperand(image, height * width * channels, width * channels, channels, 1)
    if band == "planes":
        operand = replace(operand, row=width, column=1, channel=height * width)
    if band == "blocks":
        operand = replace(operand, row=width * 2, column=2, channel=height * width, block=2)
    (rows, columns), outputs = g.result, g.groups * g.outputs
    result = Buffer("result", F32, (g.batch * rows * columns * outputs,))
    y = ImageOperand(result, rows * columns * outputs, columns * outputs, outputs, 1)
    panels = g.groups * -(-g.outputs // COLUMNS)
    w = Buffer("weights", F32, (panels * g.terms * COLUMNS,))
    (kernel,) = microkernels(F32, F32, TARGET)
    return convolution(g, ConvolutionOperands(operand, w, y, COLUMNS), band, kernel, None)


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
    letters = {"ky": 4, "kx": 5, "k": 3}
    order = [letters[axis] for axis in REDUCED.get(band, tuple(letters))]
    packed = panels.transpose(0, 1, *order, 2)
    if band == "blocks":
        packed = panels.reshape(g.groups, -1, COLUMNS, g.channels // 2, 2, *g.kernel).transpose(
            0, 1, 3, 5, 6, 4, 2
        )
    flat = [
        np.ascontiguousarray(one, np.float32).ravel()
        for one in (x if band == "planes" else last, packed)
    ]
    return [*flat, np.full(out.size, np.nan, np.float32)], out.ravel()


def check(nest: Nest, g: ConvolutionGeometry, band: str) -> None:
    """Interpret a nest, tensorized or not, and compare with NumPy exactly."""
    body = lower(nest, TARGET) if nest.tile else lower_scalar(nest)
    p = nest.problem
    function = Function(
        "f",
        (p.a.buffer, p.b.buffer, p.c.buffer),
        body if isinstance(body, Block) else Block((body,)),
    )
    given, expected = arrays(g, band)
    interpreter.run(verify(Module((function,))), "f", given)
    np.testing.assert_array_equal(given[-1], expected)


@pytest.mark.parametrize(("band", "g"), BANDS, ids=str)
@pytest.mark.parametrize(("rows", "k_block"), [(2, 1000), (3, 4)])
def test_every_step_keeps_the_result(
    band: str, g: ConvolutionGeometry, rows: int, k_block: int
) -> None:
    p = problem(g, band)
    blocking = MatmulBlocking(GemmTile(2, 1), rows, k_block, 2)
    nest = contraction(p)
    check(nest, g, band)
    for _, after in steps_of(nest, convolution_steps(p, band, blocking, TARGET)):
        check(after, g, band)


@pytest.mark.parametrize("order", ["m n1 ky kx k", "m n1 ky k kx", "m n1 kx ky k"])
def test_register_tiles_sum_in_any_order(order: str) -> None:
    """Loops that no tile has room for become several tiles."""
    steps = BEFORE.replace("m n1 ky kx k", order) + "stage A at y0 as band[iy,ix,k]; "
    steps += f"tensorize 2x1 over {order}"
    check(apply(contraction(problem(PADDED, "rows")), steps), PADDED, "rows")


def test_a_band_and_a_blocking_are_a_schedule_one_can_read() -> None:
    blocking = MatmulBlocking(GemmTile(4, 1), 2, 1000, 1)
    assert convolution_steps(problem(PADDED, "rows"), "rows", blocking, TARGET) == (
        "split n 8; split y 2; reorder b0 b1 y0 n0 y1 m n1 ky kx k; stage A at y0 as band[iy,ix,k]; "
        "tensorize 4x1 over m n1 ky kx k"
    )


BEFORE = "split n 8; split y 2; reorder b0 b1 y0 n0 y1 m n1 ky kx k; "
REFUSED = {
    "tensorize 2x1 over m n1 ky kx k": "an image with padding must be staged first",
    "stage A at y0 as band": "an image needs a layout such as band[iy,ix,k]",
    "stage B at y0 as panel[n1,k]": "an image needs a layout such as band[iy,ix,k], other operands none",
    "stage C at y0 as sums": "y1 must be outside",
}


@pytest.mark.parametrize("step", REFUSED)
def test_steps_that_do_not_fit_an_image_say_why(step: str) -> None:
    with pytest.raises(UserError) as caught:
        apply(contraction(problem(PADDED, "rows")), BEFORE + step)
    assert REFUSED[step] in str(caught.value)


@pytest.mark.parametrize(
    ("layout", "rule"),
    [
        ("iy,ix", "the dimensions must be iy, ix and k"),
        ("y,m,k", "the dimensions must be y, m, ky, kx, k, k last"),
    ],
)
def test_layouts_that_lack_a_dimension_are_refused(layout: str, rule: str) -> None:
    steps = f"{BEFORE}stage A at y0 as band[{layout}]; tensorize 2x1 over m n1 ky kx k"
    nest = apply(contraction(problem(PADDED, "rows")), steps)
    with pytest.raises(UserError, match=rule):
        lower(nest, TARGET)
