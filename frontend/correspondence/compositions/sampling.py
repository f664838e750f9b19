"""Images sampled at computed points, the points themselves, and columns of windows summed back into images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....base.dtypes import S64
from ....graph_ir.ir.graph import Array
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...grid_sample import Sampling, grid_sample
from ...op_builder import OpBuilder
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
    node: OpBuilder, theta: Tensor, size: tuple[int, ...], align_corners: bool = False
) -> Tensor:
    """theta [N, 2, 3] or [N, 3, 4] as the mapped points [N, sizes..., 2 or 3] of a regular grid."""
    sizes, dtype = size[2:], theta.details.dtype
    rank = len(sizes)
    if rank not in (2, 3) or theta.details.plain_dims[1:] != (rank, rank + 1):
        raise node.rule(f"theta must have shape [N,{rank},{rank + 1}]", str(theta.details))
    node.check_array(sizes)
    axes = np.meshgrid(*(_regular(n, align_corners) for n in sizes), indexing="ij")
    points = np.stack([*reversed(axes), np.ones_like(axes[0])], -1).reshape(-1, rank + 1)
    mapped = node.make("matmul_core", node.constant(points, dtype), theta, transpose_b=True)
    return node.reshaped(mapped, (theta.details.plain_dims[0], *sizes, rank))


def _regular(size: int, aligned: bool) -> Any:
    """`size` positions from -1 to 1: the borders of the image, or the centers of its pixels."""
    if aligned:
        return np.linspace(-1, 1, size) if size > 1 else np.zeros(size)
    return (2 * np.arange(size) + 1) / max(size, 1) - 1


def columns_to_image(
    node: OpBuilder,
    x: Tensor,
    image: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: Padding,
) -> Tensor:
    """[N, C, image...] of [N, C * kernel, windows]: each pixel is the sum of the column elements that lie on it."""
    count, block = len(image), math.prod(kernel)
    lengths = {len(kernel), len(strides), len(dilations), *map(len, padding)}
    if lengths != {count} or x.details.rank != 3 or min((*image, *kernel, *strides), default=0) < 1:
        raise node.rule(
            "the input must be [N, C * kernel, windows], and image, kernel, strides and dilations of one length",
            f"{x.details}, {list(image)}, {list(kernel)}, {list(strides)}, {list(dilations)}",
        )
    before, after = padding
    per_axis = [
        _sources(image[i], kernel[i], strides[i], dilations[i], (before[i], after[i]))
        for i in range(count)
    ]
    columns = math.prod(steps for _, steps in per_axis)
    n, width, given = x.details.plain_dims
    if width % block or given != columns:
        raise node.rule(f"the input must be [N, C * {block}, {columns}]", str(x.details))
    node.check_array((block, *image))
    seen = _joined([table for table, _ in per_axis], [steps for _, steps in per_axis])
    apart = node.reshaped(x, (n, width // block, block * columns))
    apart = node.helper("pad", apart, before=(0, 0, 0), after=(0, 0, 1))  # a zero to gather
    pixels = node.helper("gather", apart, node.constant(seen, S64), axis=2)
    return node.make("reduce_sum", pixels, axes=(2,), keep_dims=False)


def _sources(
    size: int, block: int, stride: int, dilation: int, pads: tuple[int, int]
) -> tuple[Array, int]:
    """Return the step that covers each block element and position along an axis (or -1), and the number of steps."""
    steps = (size + sum(pads) - dilation * (block - 1) - 1) // stride + 1
    offset = np.arange(size) + pads[0] - dilation * np.arange(block)[:, None]
    step = offset // stride
    covers = (offset % stride == 0) & (step >= 0) & (step < steps)
    return np.where(covers, step, -1), max(steps, 0)


def _joined(tables: Sequence[Array], steps: Sequence[int]) -> Array:
    """[block elements, *image]: the flat index in [block elements, steps], or the one after the last."""
    count = len(tables)
    flat_index, covered = np.zeros((1,) * (2 * count), np.int64), np.array(True)
    for axis, (table, many) in enumerate(zip(tables, steps, strict=True)):
        shape = [1] * (2 * count)
        shape[axis], shape[count + axis] = table.shape
        along = table.reshape(shape)
        flat_index, covered = flat_index * many + along, covered & (along >= 0)
    kernel, columns = math.prod(t.shape[0] for t in tables), math.prod(steps)
    image = [t.shape[1] for t in tables]
    first = (np.arange(kernel) * columns).reshape(kernel, *(1,) * count)
    flat = first + flat_index.reshape(kernel, *image)
    return np.where(covered.reshape(kernel, *image), flat, kernel * columns)
