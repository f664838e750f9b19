"""Images sampled at computed points, and columns summed back into images: GridSample, Col2Im."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...base.dtypes import S64
from ...graph_ir.ir.graph import Array
from ..grid_sample import Sampling, grid_sample
from ..op_builder import Value
from .scope import Handler, NodeContext

_MODES = {"bilinear": "linear", "bicubic": "cubic"}  # before opset 20
_PADDINGS = ("zeros", "border", "reflection")


def _grid_sample(node: NodeContext) -> Value:
    x, grid = node.tensor(0), node.tensor(1)
    rank, points = x.details.rank, grid.details.plain_dims
    mode = node.attr_text("mode")
    mode, padding = _MODES.get(mode, mode), node.attr_text("padding_mode")
    if mode not in ("nearest", "linear", "cubic") or padding not in _PADDINGS:
        raise node.rule(
            f"mode must be nearest, linear or cubic and padding_mode one of {', '.join(_PADDINGS)}",
            f"'{mode}' and '{padding}'",
        )
    fits = grid.details.rank == rank and points[-1:] == (rank - 2,)
    if rank < 3 or not fits or points[0] != x.details.plain_dims[0] or not x.details.elements:
        raise node.rule(
            "X must be [N, C, sizes] and grid [N, out, axes]", f"{x.details} and {grid.details}"
        )
    how = Sampling(mode, padding, node.attr_bool("align_corners"))
    return grid_sample(node, x, grid, how)


def _col2im(node: NodeContext) -> Value:
    """Each pixel is the sum of the column elements that correspond to it, which are gathered."""
    x = node.tensor(0)
    image, block = node.ints(1, "an image shape"), node.ints(2, "a block shape")
    count = len(image)
    strides, dilations = (
        node.attr_ints(name, None) or (1,) * count for name in ("strides", "dilations")
    )
    pads = node.attr_ints("pads", None) or (0,) * (2 * count)
    kernel = math.prod(block)
    lengths = {len(block), len(strides), len(dilations), len(pads) // 2}
    if lengths != {count} or x.details.rank != 3 or min((*image, *block, *strides), default=0) < 1:
        raise node.rule(
            "X must be [N, C * block, columns], and image, block, strides and dilations of one length",
            f"{x.details}, {list(image)}, {list(block)}, {list(strides)}, {list(dilations)}",
        )
    per_axis = [
        _sources(image[i], block[i], strides[i], dilations[i], (pads[i], pads[i + count]))
        for i in range(count)
    ]
    columns = math.prod(steps for _, steps in per_axis)
    n, width, given = x.details.plain_dims
    if width % kernel or given != columns:
        raise node.rule(f"X must be [N, C * {kernel}, {columns}]", str(x.details))
    node.check_array((kernel, *image))
    places = _joined([table for table, _ in per_axis], [steps for _, steps in per_axis])
    apart = node.reshaped(x, (n, width // kernel, kernel * columns))
    apart = node.helper("pad", apart, before=(0, 0, 0), after=(0, 0, 1))  # a zero to gather
    pixels = node.helper("gather", apart, node.constant(places, S64), axis=2)
    return node.make("reduce_sum", pixels, axes=(2,), keep_dims=False)


def _sources(
    size: int, block: int, stride: int, dilation: int, pads: tuple[int, int]
) -> tuple[Array, int]:
    """For each block element and position along an axis, the step that covers it (or -1); the number of steps."""
    steps = (size + sum(pads) - dilation * (block - 1) - 1) // stride + 1
    offset = np.arange(size) + pads[0] - dilation * np.arange(block)[:, None]
    step = offset // stride
    covers = (offset % stride == 0) & (step >= 0) & (step < steps)
    return np.where(covers, step, -1), max(steps, 0)


def _joined(tables: Sequence[Array], steps: Sequence[int]) -> Array:
    """[block elements, *image]: the flat index in [block elements, steps], or the one after the last."""
    count = len(tables)
    place, covered = np.zeros((1,) * (2 * count), np.int64), np.array(True)
    for axis, (table, many) in enumerate(zip(tables, steps, strict=True)):
        shape = [1] * (2 * count)
        shape[axis], shape[count + axis] = table.shape
        along = table.reshape(shape)
        place, covered = place * many + along, covered & (along >= 0)
    kernel, columns = math.prod(t.shape[0] for t in tables), math.prod(steps)
    image = [t.shape[1] for t in tables]
    first = (np.arange(kernel) * columns).reshape(kernel, *(1,) * count)
    flat = first + place.reshape(kernel, *image)
    return np.where(covered.reshape(kernel, *image), flat, kernel * columns)


HANDLERS: dict[str, Handler] = {"GridSample": _grid_sample, "Col2Im": _col2im}
