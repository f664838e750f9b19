"""NonMaxSuppression: the best boxes of each class that do not overlap better ones."""

from __future__ import annotations

import numpy as np

from ...base.dims import Size, maximum, minimum
from ...base.dtypes import F32, S64
from ...graph_ir.ir.graph import Array
from ...graph_ir.ops.regions import kept_boxes
from ..correspondence.compositions.boxes import Suppression, corners
from ..correspondence.compositions.boxes import kept_boxes as kept_boxes_in_runs
from ..correspondence.compositions.indexing import dynamic_size
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


def _suppressed(node: NodeContext) -> Value:
    """Rows of image, class and box."""
    dims, others = (node.details(i).plain_dims for i in (0, 1))
    if len(dims) != 3 or dims[2] != 4 or len(others) != 3 or (others[0], others[2]) != dims[:2]:
        given = f"{node.details(0)} and {node.details(1)}"
        raise node.rule("boxes must be [images, boxes, 4], scores [images, classes, boxes]", given)
    if any(node.has(i) and node.known(i) is None for i in range(5)):
        return _suppressed_in_runs(node, dims[1])
    boxes, scores = node.array(0, "boxes"), node.array(1, "scores")
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


def _suppressed_in_runs(node: NodeContext, boxes: Size) -> Value:
    """The same of values that only a run knows: a number of rows that it counts."""
    least = node.reshaped(node.tensor(4), ()) if node.has(4) else None
    overlap = node.reshaped(node.tensor(3), ()) if node.has(3) else node.constant(0, F32)
    known = node.known(2) if node.has(2) else np.array(0)
    room = boxes if known is None else node.integer(2, "the most boxes") if node.has(2) else 0
    room = minimum(maximum(room, 0), boxes)
    most = node.reshaped(node.tensor(2), ()) if known is None else dynamic_size(node, room)
    most = node.helper("min", node.converted(most, S64), dynamic_size(node, room))
    ends = corners(node, node.tensor(0), node.attr_int("center_point_box") != 0)
    how = Suppression(most, room, overlap, least)
    return kept_boxes_in_runs(node, ends, node.tensor(1), how, node.counted_name(0, 0))


HANDLERS: dict[str, Handler] = {"NonMaxSuppression": _suppressed}
