"""suppress_boxes: the best boxes of each class that do not overlap better ones."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...base.dims import Size
from ...base.dtypes import F32, S64
from ..ir.axis_attributes import SizesAttr
from ..ir.graph import Array, Op
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand, OptionalOperand
from ..ir.registry import register


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
