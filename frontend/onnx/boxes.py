"""NonMaxSuppression: the best boxes of each class that do not overlap better ones."""

from __future__ import annotations

import numpy as np

from ...graph_ir.ir.graph import Array
from ..op_builder import Value
from .scope import Handler, NodeContext


def _corners(boxes: Array, centered: bool) -> Array:
    """[..., 4] as y1, x1, y2, x2 in order."""
    if centered:
        x, y, width, height = np.moveaxis(boxes, -1, 0)
        ends = (y - height / 2, x - width / 2, y + height / 2, x + width / 2)
    else:
        first, second = boxes[..., :2], boxes[..., 2:]
        low, high = np.minimum(first, second), np.maximum(first, second)
        ends = (low[..., 0], low[..., 1], high[..., 0], high[..., 1])
    return np.stack(ends, axis=-1)


def _overlaps(box: Array, others: Array) -> Array:
    """The area that a box shares with others, as a share of what both cover."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=-1)
    area = np.prod(others[:, 2:] - others[:, :2], axis=-1) + np.prod(box[2:] - box[:2]) - shared
    return np.divide(shared, area, out=np.zeros_like(shared), where=area > 0)


def kept_boxes(
    boxes: Array, scores: Array, most: int, overlap: float, least: float | None
) -> list[int]:
    """Indices of the boxes [count, 4] that are kept, the best first."""
    order = np.argsort(-scores, kind="stable")
    left = [int(i) for i in order if least is None or scores[i] > least]
    kept: list[int] = []
    while left and len(kept) < most:
        best, *rest = left
        kept.append(best)
        shares = _overlaps(boxes[best], boxes[rest]) if rest else ()
        left = [i for i, share in zip(rest, shares, strict=True) if share <= overlap]
    return kept


def _suppressed(node: NodeContext) -> Value:
    """Rows of image, class and box. How many there are depends on the values, which must be known."""
    boxes, scores = node.array(0, "boxes"), node.array(1, "scores")
    if (
        boxes.ndim != 3
        or scores.ndim != 3
        or boxes.shape[2] != 4
        or ((scores.shape[0], scores.shape[2]) != boxes.shape[:2])
    ):
        given = f"{list(boxes.shape)} and {list(scores.shape)}"
        raise node.rule("boxes must be [images, boxes, 4], scores [images, classes, boxes]", given)
    most = node.integer(2, "the most boxes") if node.has(2) else 0
    overlap = float(node.array(3, "the overlap").reshape(())) if node.has(3) else 0.0
    least = float(node.array(4, "the least score").reshape(())) if node.has(4) else None
    ends = _corners(boxes, node.attr_int("center_point_box") != 0)
    rows = [
        (image, kind, box)
        for image, per_class in enumerate(scores)
        for kind, each in enumerate(per_class)
        for box in kept_boxes(ends[image], each, most, overlap, least)
    ]
    return np.array(rows, np.int64).reshape(-1, 3)


HANDLERS: dict[str, Handler] = {"NonMaxSuppression": _suppressed}
