"""A convolution as an instance of the nest: its views, and the schedule that a band and a blocking stand for.

    C[b0, b1, y, m, n] = epilogue(sum over ky, kx, k of A[b0, b1, y, m, ky, kx, k] * B[b1, n, ky, kx, k])

b0 are images, b1 groups, y rows and m pixels of a row of the result, n outputs of a group, ky and kx taps of the
window, k channels of a group. A is a view of the image in which windows overlap; B are weights in panels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...targets.isa import Microkernel
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Stmt
from .convolution_geometry import ConvolutionGeometry
from .epilogue import EpilogueValue, storing
from .problem import Contraction, View, Window

Weights = tuple[Buffer, int]
"""Weights in panels of that many outputs, group by group; panels hold the taps of the window, groups of `k_group`
channels innermost."""


def convolution(
    g: ConvolutionGeometry,
    operands: tuple[View, Weights, View],
    band: str,
    kernel: Microkernel,
    epilogue: EpilogueValue | None,
    lets: tuple[Stmt, ...] = (),
) -> Contraction:
    """Return the problem of a convolution; the epilogue gets the index (image, group, y, m, n).

    `operands`: views of image and result with the axes b0, c, iy and ix (channels may lie in blocks), and the weights
    between them.
    """
    x, w, y = operands
    free = {"b0": g.batch, "b1": g.groups, "y": g.result[0], "m": g.result[1], "n": g.outputs}
    reduced = {"ky": g.kernel[0], "kx": g.kernel[1], "k": g.channels}
    names = {"b0": "b0", "y": "iy", "m": "ix"}
    of_result = {axis: y.step(name) for axis, name in names.items()}
    of_result |= {"b1": y.step("c", g.outputs), "n": 1}
    c = View(y.buffer, of_result, {"n": y.blocks["c"]} if y.blocks else {})
    a = image_view(g, x)
    if band == "image":  # without padding
        a = replace(a, windows={})
    views = a, weights_view(w, x.blocks.get("c", (0, 0))[0], g, reduced, kernel.k_group), c
    epilogue = storing(epilogue, kernel.accumulator, y.buffer.dtype)
    return Contraction(free, reduced, *views, kernel, epilogue, lets)


def image_view(g: ConvolutionGeometry, x: View) -> View:
    """Return the view of an image in which windows overlap."""
    windows = {
        name: Window({a: g.strides[i], tap: g.dilations[i]}, g.before[i], g.image[i], stride)
        for i, (name, a, tap, stride) in enumerate(
            (("iy", "y", "ky", x.step("iy")), ("ix", "m", "kx", x.step("ix")))
        )
    }
    strides: dict[str, Any] = {"b0": x.step("b0"), "b1": x.step("c", g.channels)}
    for window in windows.values():
        strides |= {axis: step * window.stride for axis, step in window.steps.items()}
    strides["k"] = x.step("c")
    blocks = {"k": x.blocks["c"]} if x.blocks else {}
    base = t.as_expr(0)
    for window in windows.values():
        base = base - window.stride * window.before
    return View(x.buffer, strides, blocks, base, windows)


def weights_view(
    w: Weights, block: int, g: ConvolutionGeometry, reduced: Mapping[str, int], group: int
) -> View:
    """Return the view of weights; `block`: the channels of a block, if the image has them."""
    buffer, columns = w
    strides: dict[str, Any] = {}
    size = columns
    for axis in reversed(tuple(reduced)):
        count = block if axis == "k" and block else reduced[axis]
        if axis == "k":
            count = -(-count // group) * group
        strides[axis], size = size, size * count
    blocks = {"n": (columns, size)}
    if block:
        blocks, size = {"k": (block, size)}, size * (g.channels // block)
        blocks["n"] = (columns, size)
    panels = -(-g.outputs // columns)
    return View(buffer, {**strides, "n": 1, "b1": panels * size}, blocks)
