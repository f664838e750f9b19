"""Images sampled at computed points, the points themselves, and columns of windows summed back into images."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ....base.dims import Size, floor_quotient
from ....base.dtypes import BOOL, F64, S64
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...grid_sample import Sampling, grid_sample
from ...op_builder import OpBuilder
from .indexing import dynamic_size, positions
from .windows import Padding

_MODES = {"bilinear": "linear", "bicubic": "cubic"}  # PyTorch's names, and those of old ONNX
_PADDINGS = ("zeros", "border", "reflection")


def sample_grid(
    node: OpBuilder,
    x: Tensor,
    grid: Tensor,
    mode: str = "linear",
    padding: str = "zeros",
    align_corners: bool = False,
    by_tap: bool = False,
) -> Tensor:
    """[N, C, out...] of an image [N, C, sizes...] and points [N, out..., axes] in [-1, 1], the last axis first.

    `by_tap`: cubic as PyTorch has it, which brings pixels into the image one at a time, and not the points.
    """
    mode = _MODES.get(mode, mode)
    if mode not in ("nearest", "linear", "cubic") or padding not in _PADDINGS:
        raise node.rule(
            f"mode must be nearest, linear or cubic and padding_mode one of {', '.join(_PADDINGS)}",
            f"'{mode}' and '{padding}'",
        )
    rank, points = x.details.rank, grid.details.plain_dims
    fits = len(points) == rank and points[-1:] == (rank - 2,)
    if rank < 3 or not fits or points[0] != x.details.plain_dims[0] or not x.details.elements:
        rule = "the image must be [N, C, sizes] and the grid [N, out, axes]"
        raise node.rule(rule, f"{x.details} and {grid.details}")
    return grid_sample(node, x, grid, Sampling(mode, padding, align_corners, by_tap))


def affine_grid(
    node: OpBuilder,
    theta: Tensor,
    size: tuple[Size, ...],
    align_corners: bool = False,
    single: int = 0,
) -> Tensor:
    """theta [N, 2, 3] or [N, 3, 4] as the mapped points [N, sizes..., 2 or 3] of a regular grid.

    `single`: the position of the only pixel of an axis with aligned corners, 0 or 1.
    """
    sizes, dtype = size[2:], theta.details.dtype
    rank = len(sizes)
    if rank not in (2, 3) or theta.details.plain_dims[1:] != (rank, rank + 1):
        raise node.rule(f"theta must have shape [N,{rank},{rank + 1}]", str(theta.details))
    axes = [_regular(node, n, align_corners, i, rank, single) for i, n in enumerate(sizes)]
    parts = (*reversed(axes), node.constant(1, F64))
    wide = [node.helper("broadcast", part, shape=(*sizes, 1)) for part in parts]
    points = node.reshaped(node.helper("concat", *wide, axis=rank), (math.prod(sizes), rank + 1))
    mapped = node.make("matmul_core", node.converted(points, dtype), theta, transpose_b=True)
    return node.reshaped(mapped, (theta.details.plain_dims[0], *sizes, rank))


def _regular(
    node: OpBuilder, size: Size, aligned: bool, axis: int, rank: int, single: int
) -> Tensor:
    """`size` positions from -1 to 1 along an axis: the borders of the image, or the centers of its pixels."""
    steps = size - 1 if aligned else size
    count = dynamic_size(node, steps)
    divisor = node.helper("max", count, node.constant(1, S64))
    doubled = positions(node, 2 * size, axis, rank + 1, -2 * steps)
    odd_or_even = node.sliced(doubled, axis, 0 if aligned else 1, size, 2)
    offset = node.helper("add", odd_or_even, divisor if single else count)
    return node.helper("div", *(node.converted(x, F64) for x in (offset, divisor)))


def columns_to_image(
    node: OpBuilder,
    x: Tensor,
    image: Sequence[Size],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: Padding,
) -> Tensor:
    """[N, C, image...] of [N, C * kernel, windows]: each pixel is the sum of the column elements that lie on it."""
    count, block = len(image), math.prod(kernel)
    lengths = {len(kernel), len(strides), len(dilations), *map(len, padding)}
    if lengths != {count} or x.details.rank != 3 or any(n < 1 for n in (*image, *kernel, *strides)):
        raise node.rule(
            "the input must be [N, C * kernel, windows], and image, kernel, strides and dilations of one length",
            f"{x.details}, {list(image)}, {list(kernel)}, {list(strides)}, {list(dilations)}",
        )
    each = [
        floor_quotient(size + lower + upper - d * (k - 1) - 1, s) + 1
        for size, k, s, d, lower, upper in zip(
            image, kernel, strides, dilations, *padding, strict=True
        )
    ]
    columns = math.prod(each)
    n, width, given = x.details.plain_dims
    if width % block or given != columns:
        raise node.rule(f"the input must be [N, C * {block}, {columns}]", str(x.details))
    first = np.arange(block).reshape(*kernel, *(1,) * count)
    at, covered = node.constant(first, S64), node.constant(True, BOOL)
    for axis in range(count):
        window = (strides[axis], dilations[axis], padding[0][axis])
        step, covers = _step_on(node, axis, image[axis], kernel[axis], window, (each[axis], count))
        at = node.helper("add", node.helper("mul", at, dynamic_size(node, each[axis])), step)
        covered = node.helper("and", covered, covers)
    seen = node.helper("select", covered, at, dynamic_size(node, block * columns))
    apart = node.reshaped(x, (n, width // block, block * columns))
    apart = node.helper("pad", apart, before=(0, 0, 0), after=(0, 0, 1))  # a zero to gather
    pixels = node.helper("gather", apart, node.reshaped(seen, (block, *image)), axis=2)
    return node.make("reduce_sum", pixels, axes=(2,), keep_dims=False)


def _step_on(
    node: OpBuilder,
    axis: int,
    size: Size,
    block: int,
    window: tuple[int, int, int],
    room: tuple[Size, int],
) -> tuple[Tensor, Tensor]:
    """Return the step that covers each block element and position along an axis, and whether one does.

    `window`: stride, dilation and padding; `room`: the number of steps, and of axes.
    """
    (stride, dilation, pad), (steps, count) = window, room
    shape = [block if i == axis else 1 for i in range(2 * count)]
    taps = node.constant((pad - dilation * np.arange(block)).reshape(shape), S64)
    offset = node.helper("add", positions(node, size, count + axis, 2 * count), taps)
    zero, one = node.constant(0, S64), node.constant(stride, S64)
    step = node.helper("div", node.helper("max", offset, zero), one)
    exact = node.helper("eq", node.helper("mul", step, one), offset)
    return step, node.helper("and", exact, node.helper("lt", step, dynamic_size(node, steps)))
