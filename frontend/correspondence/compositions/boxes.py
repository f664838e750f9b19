"""The best boxes of each class that do not overlap better ones, for boxes that only a run knows."""

from __future__ import annotations

import math

from ....base.dims import Size
from ....base.dtypes import BOOL, S64
from ....base.records import dataclass
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder, like
from .control import CountedLoop, Round
from .counted import nonzero, stacked
from .indexing import batched_gather, positions, row_major
from .movement import select_index

PAIRS = ((0, 2), (1, 3))
"""The coordinates of corners that are ends of one side."""


@dataclass(frozen=True)
class Suppression:
    """How many boxes of an image and class are kept at most, and among which: numbers that may be a run's.

    `room`: a size that is at least `most`. Boxes that share more than `overlap` of what they cover with a better one
    are left out, and those that score no more than `least`, where it is given.
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
    nowhere = like(node, -math.inf, scores)
    if how.least is not None:
        enough = node.helper("gt", scores, how.least)
        scores = node.helper("select", enough, scores, nowhere)
    images, classes, _ = scores.details.plain_dims
    taken = node.helper("broadcast", node.constant(0, S64), shape=(images, classes, how.room))

    def step(build: OpBuilder, trip: Tensor, state: list[Tensor], fixed: list[Tensor]) -> Round:
        left, taken = state
        box = build.helper("arg_max", left, axis=2, keep_dims=False)
        value = build.helper("reduce_max", left, axes=(2,), keep_dims=False)
        is_box = build.helper("gt", value, like(build, -math.inf, value))
        number = build.helper("add", box, build.constant(1, S64))  # 0 is none
        number = build.helper("select", is_box, number, build.constant(0, S64))
        wide = build.reshaped(number, (images, classes, 1))
        taken = build.helper("update_slice", taken, wide, trip, axes=(2,))
        gone = build.helper("gt", _overlaps(build, fixed[0], box), fixed[1])
        here = build.helper("reshape", box, shape=(images, classes, 1))
        gone = build.helper("or", gone, build.helper("eq", fixed[2], here))
        left = build.helper("select", gone, like(build, -math.inf, left), left)
        going = build.helper("gt", left, like(build, -math.inf, left))
        axes = (0, 1, 2)
        return Round(
            [left, taken], going=build.helper("reduce_any", going, axes=axes, keep_dims=False)
        )

    every = positions(node, ends.details.plain_dims[1], 2, 3)
    loop = CountedLoop(node, how.most, node.constant(True, BOOL))
    _, taken = loop.make([scores, taken], [ends, how.overlap, every], step)
    return _rows(node, taken, name)


def _rows(node: OpBuilder, taken: Tensor, name: str) -> Tensor:
    """Image, class and box of what was taken: numbers of boxes from 1 on, [images, classes, room]."""
    image, kind, place = nonzero(node, taken, name)
    images, classes, room = taken.details.plain_dims
    at = row_major(node, stacked(node, [image, kind, place], 1), (images, classes, room))
    flat = node.reshaped(taken, (images * classes * room,))
    box = node.helper("sub", node.helper("gather", flat, at, axis=0), node.constant(1, S64))
    return stacked(node, [image, kind, box], 1)


def _overlaps(node: OpBuilder, ends: Tensor, box: Tensor) -> Tensor:
    """The area that a box of each class shares with each other, as a share of what both cover: [images, classes,
    boxes]."""
    chosen = batched_gather(node, ends, box, 1, 1)  # [images, classes, 4]
    images, boxes, _ = ends.details.plain_dims
    classes = box.details.plain_dims[1]

    def end(at: int) -> tuple[Tensor, Tensor]:
        other = node.reshaped(select_index(node, ends, 2, at), (images, 1, boxes))
        return node.reshaped(select_index(node, chosen, 2, at), (images, classes, 1)), other

    sides = []
    for low, high in PAIRS:
        first, last = node.helper("max", *end(low)), node.helper("min", *end(high))
        sides.append(node.helper("max", node.helper("sub", last, first), like(node, 0, ends)))
    shared = node.helper("mul", *sides)
    areas = []
    for which in (0, 1):
        lengths = [node.helper("sub", end(high)[which], end(low)[which]) for low, high in PAIRS]
        areas.append(node.helper("mul", *lengths))
    area = node.helper("sub", node.helper("add", *areas), shared)
    zero = like(node, 0, area)
    return node.helper(
        "select", node.helper("gt", area, zero), node.helper("div", shared, area), zero
    )
