"""The best boxes of each class that do not overlap better ones, for boxes that only a run knows."""

from __future__ import annotations

from ....base.dims import Size
from ....base.dtypes import S64
from ....base.records import dataclass
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder, like
from .counted import nonzero, stacked
from .indexing import row_major


@dataclass(frozen=True)
class Suppression:
    """Limits of non-maximum suppression: how many boxes per image and class are kept, possibly known only at run time.

    `room`: a size that is at least `most`. Boxes whose overlap with a better one exceeds `overlap` are left out, and
    those that score no more than `least`, if given.
    """

    most: Tensor
    room: Size
    overlap: Tensor
    least: Tensor | None


def corners(node: OpBuilder, boxes: Tensor, centered: bool) -> Tensor:
    """[..., 4] as y1, x1, y2, x2 in order: of two opposite corners, or of x, y, width and height around a center."""
    low, high = (node.sliced(boxes, boxes.details.rank - 1, at, 2) for at in (0, 2))
    if not centered:
        ends = (node.helper(kind, low, high) for kind in ("min", "max"))
    else:
        half = node.helper("mul", high, like(node, 0.5, high))
        ends = (node.helper(kind, low, half) for kind in ("sub", "add"))
    swapped = [_swapped(node, one) if centered else one for one in ends]
    return node.helper("concat", *swapped, axis=-1)


def _swapped(node: OpBuilder, x: Tensor) -> Tensor:
    last = x.details.rank - 1
    return node.helper("concat", *(node.sliced(x, last, at, 1) for at in (1, 0)), axis=last)


def kept_boxes(
    node: OpBuilder, ends: Tensor, scores: Tensor, how: Suppression, name: str = ""
) -> Tensor:
    """Rows of image, class and box, s64[K,3], of corners [images, boxes, 4] and scores [images, classes, boxes]."""
    limits = [how.most, how.overlap, *([] if how.least is None else [how.least])]
    return _rows(node, node.helper("suppress_boxes", ends, scores, *limits, room=(how.room,)), name)


def _rows(node: OpBuilder, taken: Tensor, name: str) -> Tensor:
    """Image, class and box of what was taken: numbers of boxes from 1 on, [images, classes, room]."""
    image, kind, row = nonzero(node, taken, name)
    images, classes, room = taken.details.plain_dims
    at = row_major(node, stacked(node, [image, kind, row], 1), (images, classes, room))
    flat = node.reshaped(taken, (images * classes * room,))
    box = node.helper("sub", node.helper("gather", flat, at, axis=0), node.constant(1, S64))
    return stacked(node, [image, kind, box], 1)
