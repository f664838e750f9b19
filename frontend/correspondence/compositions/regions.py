"""Parts of images at coordinates that only a run knows, resampled to a fixed size."""

from __future__ import annotations

from itertools import product

import numpy as np

from ....base.dtypes import S64
from ....base.records import dataclass
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder, like


@dataclass(frozen=True)
class RegionGrid:
    """How regions are sampled: `height` x `width` cells of `samples` x `samples` points each.

    Coordinates are multiplied by `scale`; `half`: they are of corners, so that the centre of the first pixel is at 0.5,
    and regions may be smaller than a pixel. `largest`: a cell is its largest weighted pixel, else its points' mean.
    """

    height: int
    width: int
    samples: int
    scale: float
    half: bool
    largest: bool


def align_regions(
    node: OpBuilder, x: Tensor, boxes: Tensor, images: Tensor, grid: RegionGrid
) -> Tensor:
    """x [n, c, h, w] at boxes [r, 4] (x1 y1 x2 y2) of images [r], as RoIAlign of Mask R-CNN: [r, c, height, width]."""
    count, channels, *sizes = x.details.plain_dims
    regions, dtype = boxes.details.plain_dims[0], x.details.dtype
    shift = like(node, 0.5 if grid.half else 0.0, x)
    scaled = node.helper("sub", node.helper("mul", boxes, like(node, grid.scale, x)), shift)
    cells = (grid.height, grid.width)
    axes = [_along(node, scaled, i, cells[i], sizes[i], grid) for i in (0, 1)]
    rows = node.transposed(x, (0, 2, 3, 1))
    flat = node.reshaped(rows, (count * sizes[0] * sizes[1], channels))
    first = node.helper("mul", node.converted(images, S64), node.constant(sizes[0] * sizes[1], S64))
    first = node.reshaped(first, (regions, 1, 1))
    points = [cells[i] * grid.samples for i in (0, 1)]
    parts = []
    for row, column in product(*axes):
        shapes = (regions, points[0], 1), (regions, 1, points[1])
        (y, left), (y_share, x_share) = (
            [node.reshaped(taps[part], s) for taps, s in zip((row, column), shapes, strict=True)]
            for part in (0, 1)
        )
        at = node.helper("add", node.helper("mul", y, node.constant(sizes[1], S64)), left)
        values = node.helper("gather", flat, node.helper("add", at, first), axis=0)
        weight = node.reshaped(node.helper("mul", y_share, x_share), (regions, *points, 1))
        parts.append(node.helper("mul", values, weight))
    total = parts[0]
    for part in parts[1:]:
        total = node.helper("max" if grid.largest else "add", total, part)
    split = (regions, grid.height, grid.samples, grid.width, grid.samples, channels)
    how = "reduce_max" if grid.largest else "reduce_mean"
    cell = node.helper(how, node.reshaped(total, split), axes=(2, 4), keep_dims=False)
    result = node.transposed(cell, (0, 3, 1, 2))
    return node.converted(result, dtype)


Taps = tuple[Tensor, Tensor]
"""Indices, s64, and their weights, both [regions, points]."""


def _along(
    node: OpBuilder, boxes: Tensor, axis: int, cells: int, size: int, grid: RegionGrid
) -> tuple[Taps, Taps]:
    """The two pixels around each sample of an axis (0: y); points more than a pixel outside weigh nothing."""
    begin, end = (node.sliced(boxes, 1, at, 1) for at in (1 - axis, 3 - axis))
    length = node.helper("sub", end, begin)
    if not grid.half:
        length = node.helper("max", length, like(node, 1.0, boxes))
    steps = (np.arange(cells * grid.samples) + 0.5) / (cells * grid.samples)
    place = node.helper("mul", length, like(node, steps[None], boxes))
    place = node.helper("add", place, begin)
    outside = node.helper(
        "or",
        node.helper("lt", place, like(node, -1.0, boxes)),
        node.helper("gt", place, like(node, float(size), boxes)),
    )
    last = like(node, float(size - 1), boxes)
    place = node.helper("min", node.helper("max", place, like(node, 0.0, boxes)), last)
    low = node.helper("floor", place)
    high = node.helper("min", node.helper("add", low, like(node, 1.0, boxes)), last)
    share = node.helper("sub", place, low)
    zero, one = like(node, 0.0, boxes), like(node, 1.0, boxes)
    rest = node.helper("sub", one, share)
    weights = [node.helper("select", outside, zero, weight) for weight in (rest, share)]
    return (
        (node.converted(low, S64), weights[0]),
        (node.converted(high, S64), weights[1]),
    )
