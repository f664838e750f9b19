"""align_regions: parts of images resampled to cells of a fixed number."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...base.dims import Size
from ...base.dtypes import F32, F64, S64
from ..ir.attributes import BoolAttr, FloatAttr, IntAttr
from ..ir.axis_attributes import SizesAttr
from ..ir.graph import Array, Op
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand, OptionalOperand
from ..ir.registry import register


@register("align_regions")
class AlignRegions(Op):
    """Cells [regions,rows,columns,channels] of regions of images, as RoIAlign of Mask R-CNN resamples them.

    A cell is the mean, or the largest weighted pixel, of samples at equal distances. Samples more than a pixel outside
    of the image are 0, and so is a cell without samples.
    """

    kind: ClassVar[str] = "loop"
    images = Operand("[images,height,width,channels]")
    boxes = Operand("x1, y1, x2, y2 of each region, [regions,4], in the type of the images")
    owners = Operand("image of each region, s64[regions]")
    cells = SizesAttr("rows and columns of cells", count=lambda op: 2)
    samples = IntAttr(
        "samples per cell along each axis; 0: the number of pixels that a cell spans, rounded up",
        default=0,
    )
    scale = FloatAttr("scale of the coordinates", default=1.0)
    half_pixel = BoolAttr(
        "put the center of the first pixel at 0.5; otherwise at 0, with regions of at least one pixel"
    )
    largest = BoolAttr("take the largest weighted pixel of a cell instead of the mean")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """Raise UserError if shapes or dtypes do not fit."""
        images, boxes, owners = inputs
        if images.rank != 4 or boxes.plain_dims[1:] != (4,) or boxes.rank != 2:
            rule = "images must be [images, height, width, channels], boxes [regions, 4]"
            raise self.rule(rule, f"{images} and {boxes}")
        if owners.plain_dims != boxes.plain_dims[:1] or owners.dtype != S64:
            raise self.rule(f"owners must be s64[{boxes.plain_dims[0]}]", f"{owners}")
        if images.dtype not in (F32, F64) or boxes.dtype != images.dtype:
            rule = "images and boxes must both be f32 or f64"
            raise self.rule(rule, f"{images.dtype} and {boxes.dtype}")
        if self.samples < 0:
            raise self.rule("samples must be 0 or more", str(self.samples))
        return [
            LogicalTensor(images.dtype, (boxes.plain_dims[0], *self.cells, images.plain_dims[3]))
        ]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """Each region by itself."""
        images, boxes, owners = inputs
        dtype, sizes = images.dtype.type, images.shape[1:3]
        result = np.zeros((len(boxes), *self.cells, images.shape[3]), dtype)
        corners = boxes * dtype(self.scale) - dtype(0.5 if self.half_pixel else 0)
        for region, (corner, owner) in enumerate(zip(corners, owners, strict=True)):
            axes = [self._taps(corner[1 - i :: 2], int(self.cells[i]), sizes[i]) for i in (0, 1)]
            (rows, row_shares), (columns, column_shares) = axes
            if not rows.size or not columns.size:
                continue
            image = images[min(max(int(owner), 0), len(images) - 1)]
            weighted = [
                image[rows[..., i]][:, :, columns[..., j]]
                * (row_shares[..., i, None, None] * column_shares[..., j])[..., None]
                for i in (0, 1)
                for j in (0, 1)
            ]
            if self.largest:
                result[region] = np.max(weighted, axis=0).max(axis=(1, 3))
            else:
                result[region] = sum(weighted[1:], weighted[0]).mean(axis=(1, 3))
        return [result]

    def _taps(self, ends: Array, cells: int, size: int) -> tuple[Array, Array]:
        """Return indices and weights of the two pixels around each sample of an axis, both [cells, samples, 2]."""
        dtype = ends.dtype.type
        length = ends[1] - ends[0]
        cell = (length if self.half_pixel else max(length, dtype(1))) / dtype(cells)
        count = self.samples or max(int(np.ceil(cell)), 0)
        begin = ends[0] + np.arange(cells, dtype=dtype)[:, None] * cell
        middles = np.arange(count, dtype=dtype) + dtype(0.5)
        at = begin + middles * cell / dtype(count or 1)
        outside = (at < -1) | (at > size)
        at = np.clip(at, 0, size - 1)
        low = np.floor(at)
        shares = np.stack([1 - (at - low), at - low], axis=-1) * ~outside[..., None]
        pixels = np.stack([low, np.minimum(low + 1, size - 1)], axis=-1).astype(np.int64)
        return pixels, shares.astype(dtype)

    def get_gflop(self) -> float:
        """Four multiply-adds for each sample, of which an adaptive count is taken for four."""
        samples = self.samples**2 or 4
        return 8 * self.outputs[0].details.typical.elements * samples / 1e9


def kept_boxes(
    ends: Array, scores: Array, most: int, overlap: float, least: float | None
) -> list[int]:
    """Return the indices of the boxes that are kept, the best first.

    Args:
        ends: [boxes, 4], the low and high corner of each box.
        scores: [boxes]; of equal ones, the lowest index comes first. NaN is never kept.
        most: largest number of boxes kept.
        overlap: largest share of the area of two boxes that both may cover.
        least: scores must be larger; None keeps any.
    """
    passes = ~np.isnan(scores) if least is None else scores > least
    order = np.argsort(-scores, kind="stable")
    left = order[passes[order]]
    kept: list[int] = []
    while left.size and len(kept) < most:
        kept.append(int(left[0]))
        left = left[1:][_shares(ends[left[0]], ends[left[1:]]) <= overlap]
    return kept


def _shares(box: Array, others: Array) -> Array:
    """Return the area that a box shares with each other, as a share of what both cover."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=-1)
    area = np.prod(others[:, 2:] - others[:, :2], axis=-1) + np.prod(box[2:] - box[:2]) - shared
    return np.divide(shared, area, out=np.zeros_like(shared), where=area > 0)


@register("suppress_boxes")
class SuppressBoxes(Op):
    """Numbers s64[images,classes,room] of the boxes kept of each class, from 1 on, the best first; then zeros."""

    kind: ClassVar[str] = "loop"
    ends = Operand("low and high corner of each box, f32[images,boxes,4]")
    scores = Operand("f32[images,classes,boxes]")
    most = Operand("how many boxes of a class are kept at most, s64[]")
    overlap = Operand("the largest share of the area of two boxes that both may cover, f32[]")
    least = OptionalOperand("scores must be larger, f32[]")
    room = SizesAttr(
        "how many boxes of a class there is room for, as a list of one", count=lambda op: 1
    )

    @property
    def limit(self) -> Size:
        """The room itself."""
        room: Size = self.room[0]
        return room

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """Raise UserError if shapes or dtypes do not fit."""
        ends, scores, most, *shares = inputs
        dims, others = ends.plain_dims, scores.plain_dims
        if len(dims) != 3 or dims[2] != 4 or (others[:1], others[2:]) != (dims[:1], dims[1:2]):
            rule = "boxes must be [images, boxes, 4], scores [images, classes, boxes]"
            raise self.rule(rule, f"{ends} and {scores}")
        if {ends.dtype, scores.dtype, *(x.dtype for x in shares)} != {F32} or most.dtype != S64:
            rule = "boxes, scores and shares must be f32, and the limit s64"
            raise self.rule(rule, ", ".join(str(x.dtype) for x in inputs))
        if any(x.rank for x in inputs[2:]):
            raise self.rule("limits must be scalars", ", ".join(map(str, inputs[2:])))
        return [LogicalTensor(S64, (*others[:2], self.limit))]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """`kept_boxes` of each image and class."""
        ends, scores, most, overlap, *least = inputs
        taken = np.zeros((*scores.shape[:2], int(self.limit)), np.int64)
        limit = min(int(most), taken.shape[2])
        bound = float(least[0]) if least else None
        for image, kind in np.ndindex(*scores.shape[:2]):
            kept = kept_boxes(ends[image], scores[image, kind], limit, float(overlap), bound)
            taken[image, kind, : len(kept)] = np.array(kept, np.int64) + 1
        return [taken]

    def get_gflop(self) -> float:
        """Two operations per score: most fail the test and cost no more."""
        return 2 * self.inputs[1].details.typical.elements / 1e9
