"""A convolution as an instance of the nest: its views, and the schedule that a band and a blocking stand for.

    C[b0, b1, y, m, n] = epilogue(sum over ky, kx, k of A[b0, b1, y, m, ky, kx, k] * B[b1, n, ky, kx, k])

b0 are images, b1 groups, y rows and m pixels of a row of the result, n outputs of a group, ky and kx taps of the
window, k channels of a group. A is a view of the image in which windows overlap; B are weights in panels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...base.records import dataclass
from ...targets.isa import Microkernel
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Stmt
from .convolution_geometry import ConvolutionGeometry
from .epilogue import EpilogueValue, storing
from .problem import Contraction, View, Window

REDUCED = {"planes": ("ky", "k", "kx")}
"""The order of the axes that are summed, where it is not that of a window in an image with channels last."""


@dataclass(frozen=True)
class ImageOperand:
    """An image in a flat buffer: element (n, c, y, x) is at n * image + c * channel + y * row + x * column.

    With channels in blocks of `block`, c is the first of one, and the others follow it.
    """

    buffer: Buffer
    image: Any
    row: Any
    column: int
    channel: int
    block: int = 0


@dataclass(frozen=True)
class ConvolutionOperands:
    """Image, weights and result. `w` holds panels of `columns` outputs, group by group; panels hold the axes that are
    summed in the order of `REDUCED`, groups of `k_group` channels innermost."""

    x: ImageOperand
    w: Buffer
    y: ImageOperand
    columns: int


def convolution(
    g: ConvolutionGeometry,
    operands: ConvolutionOperands,
    band: str,
    kernel: Microkernel,
    epilogue: EpilogueValue | None,
    lets: tuple[Stmt, ...] = (),
) -> Contraction:
    """Return the problem of a convolution; the epilogue gets the index (image, group, y, m, n)."""
    free = {"b0": g.batch, "b1": g.groups, "y": g.result[0], "m": g.result[1], "n": g.outputs}
    sizes = {"ky": g.kernel[0], "kx": g.kernel[1], "k": g.channels}
    reduced = {axis: sizes[axis] for axis in REDUCED.get(band, tuple(sizes))}
    y = operands.y
    blocks = {"n": (y.block, y.block * y.channel)} if y.block else {}
    of_result = {"b0": y.image, "b1": g.outputs * y.channel, "y": y.row, "m": y.column, "n": 1}
    c = View(y.buffer, of_result, blocks)
    a = image_view(g, operands.x)
    if band == "image":  # without padding
        a = replace(a, windows={})
    views = a, weights_view(operands, g, reduced, kernel.k_group), c
    epilogue = storing(epilogue, kernel.accumulator, y.buffer.dtype)
    return Contraction(free, reduced, *views, kernel, epilogue, lets)


def image_view(g: ConvolutionGeometry, x: ImageOperand) -> View:
    """Return the view of an image in which windows overlap."""
    windows = {
        name: Window({a: g.strides[i], tap: g.dilations[i]}, g.before[i], g.image[i], stride)
        for i, (name, a, tap, stride) in enumerate(
            (("iy", "y", "ky", x.row), ("ix", "m", "kx", x.column))
        )
    }
    strides: dict[str, Any] = {"b0": x.image, "b1": g.channels * x.channel}
    for window in windows.values():
        strides |= {axis: step * window.stride for axis, step in window.steps.items()}
    strides["k"] = 1 if x.block else x.channel
    blocks = {"k": (x.block, x.block * x.channel)} if x.block else {}
    base = t.as_expr(0)
    for window in windows.values():
        base = base - window.stride * window.before
    return View(x.buffer, strides, blocks, base, windows)


def weights_view(
    operands: ConvolutionOperands, g: ConvolutionGeometry, reduced: Mapping[str, int], group: int
) -> View:
    """Return the view of weights in panels."""
    columns, block = operands.columns, operands.x.block
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
    return View(operands.w, {**strides, "n": 1, "b1": panels * size}, blocks)
