"""Loop nest of non-maximum suppression.

for each image and class:
    collect the boxes whose score is large enough, and sort them by it
    until enough boxes are kept, for each box: keep it unless it overlaps one that was kept

Kept boxes lie in the workspace of the task, one row for each coordinate and one for areas, so that a box is compared
with them in vectors.
"""

from __future__ import annotations

from ...base.dtypes import F32, S32, S64
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Function, Var
from .radix_sort import Entries, collect, sort
from .sort_keys import key_kind, key_of

COMPARED = 256
"""Kept boxes that are compared with a box before it is looked whether one overlaps it."""

SIDES = ((0, 2), (1, 3))
"""The coordinates of corners that are ends of one side."""


@dataclass(frozen=True)
class Suppression:
    """Numbers of images, classes, boxes of an image and results of a class, and how many tasks share the classes."""

    images: int | Expr
    classes: int | Expr
    boxes: int | Expr
    room: int | Expr
    tasks: int


@dataclass(frozen=True)
class SuppressionBuffers:
    """The parameters: operands and result, all flat, then words for entries and coordinates of kept boxes."""

    ends: Buffer
    scores: Buffer
    most: Buffer
    overlap: Buffer
    least: Buffer | None
    taken: Buffer
    words: Buffer
    kept: Buffer

    @property
    def params(self) -> tuple[Buffer, ...]:
        """Each once, in order: operands may be the same tensor."""
        given = (self.ends, self.scores, self.most, self.overlap, self.least)
        inputs = dict.fromkeys(x for x in given if x is not None)
        return (*inputs, self.taken, self.words, self.kept)


def suppress_function(
    name: str, buffers: SuppressionBuffers, shape: Suppression, note: str
) -> Function:
    """Return the function of `buffers.params`."""
    b = t.LoopBuilder(buffer.name for buffer in buffers.params)
    pairs = b.let("pairs", shape.images * shape.classes)
    each = b.let("each", (pairs + (shape.tasks - 1)) // shape.tasks)
    with b.loop("task", 0, shape.tasks, "parallel" if shape.tasks > 1 else "serial") as task:
        begin = b.let("begin", task * each)
        with b.loop("pair", begin, t.minimum(begin + each, pairs)) as pair:
            _Pair(b, buffers, shape, task, pair).run()
    return b.function(name, buffers.params, note)


class _Pair:
    """One image and class."""

    def __init__(
        self,
        b: t.LoopBuilder,
        buffers: SuppressionBuffers,
        shape: Suppression,
        task: Var,
        pair: Var,
    ) -> None:
        self.b, self.buffers, self.shape = b, buffers, shape
        image = b.let("image", pair // shape.classes)
        self.ends = b.let("ends", image * (shape.boxes * 4))
        self.scores = b.let("scores", pair * shape.boxes)
        self.taken = b.let("taken", pair * shape.room)
        self.kept = b.let("kept", task * (shape.room * 5))
        self.kind = key_kind(F32)
        self.overlap = b.let("overlap", buffers.overlap[0])
        least = buffers.least
        self.least = None if least is None else b.let("least", least[0])
        near = b.let("near", task * (shape.boxes * 2))
        far = b.let("far", near + shape.boxes)
        self.pair = (Entries(buffers.words, None, near), Entries(buffers.words, None, far))

    def run(self) -> None:
        """Emit all of the pair."""
        b, room = self.b, self.shape.room
        with b.loop("i", 0, room, "vector") as i:
            b.store(self.buffers.taken, (self.taken + i,), 0)
        limit = b.let("limit", t.minimum(self.buffers.most[0], room))
        with b.when(limit > 0):
            found = collect(b, self.shape.boxes, self._fails, self._put)
            start = b.allocate("start", S64, (1,))
            b.store(start, (0,), self.pair[0].start)
            with b.when(found > 1):
                sort(b, self.kind, self.pair, found, 0, lambda x: b.store(start, (0,), x.start))
            self._keep(Entries(self.buffers.words, None, b.let("first", start[0])), found, limit)

    def _score(self, i: Expr) -> Expr:
        return self.buffers.scores[self.scores + i]

    def _fails(self, i: Expr) -> Expr:
        score = self._score(i)
        if self.least is None:
            return t.unequal(score, score)
        return ~(score > self.least)

    def _put(self, at: Expr, i: Expr) -> None:
        key = key_of(self.b, self._score(i), self.kind, largest=True)
        self.pair[0].put(self.b, at, key, i)

    def _keep(self, entries: Entries, found: Expr, limit: Expr) -> None:
        """Go through the boxes until there are no more, or enough of them are kept."""
        b = self.b
        number, kept = b.allocate("number", S64, (1,)), b.allocate("kept", S64, (1,))
        b.store(number, (0,), 0)
        b.store(kept, (0,), 0)
        has_more = number[0] < found
        has_room = kept[0] < limit
        with b.repeat(has_more & has_room):
            at = b.let("at", number[0])
            count = b.let("count", kept[0])
            box = b.let("box", entries.index(b, at))
            corner = b.let("corner", self.ends + box * 4)
            ends = [b.let("end", self.buffers.ends[corner + c]) for c in range(4)]
            lengths = [ends[high] - ends[low] for low, high in SIDES]
            ends.append(b.let("area", lengths[0] * lengths[1]))
            hit = self._overlaps(ends, count)
            with b.when(t.equal(hit[0], 0)):
                for row, value in enumerate(ends):
                    b.store(self.buffers.kept, (self._kept(row, count),), value)
                b.store(self.buffers.taken, (self.taken + count,), box + 1)
                b.store(kept, (0,), count + 1)
            b.store(number, (0,), at + 1)

    def _kept(self, row: int, number: Expr) -> Expr:
        """The index of a coordinate of a kept box, or of its area (row 4)."""
        return self.kept + self.shape.room * row + number

    def _overlaps(self, ends: list[Var], count: Expr) -> Buffer:
        """Return whether one of the kept boxes shares too much with a box: a local that is not 0 then."""
        b = self.b
        hit, begin = b.allocate("hit", S32, (1,)), b.allocate("begin", S64, (1,))
        b.store(hit, (0,), 0)
        b.store(begin, (0,), 0)
        left = begin[0] < count
        clear = t.equal(hit[0], 0)
        with b.repeat(left & clear):
            first = b.let("first", begin[0])
            last = b.let("last", t.minimum(first + COMPARED, count))
            with b.loop("i", first, last, "vector") as i:
                share = self._share(ends, i)
                gone = share > self.overlap
                one = t.select(gone, t.const(1, S32), t.const(0, S32))
                b.store(hit, (0,), hit[0] | one)
            b.store(begin, (0,), last)
        return hit

    def _share(self, ends: list[Var], number: Expr) -> Expr:
        """The area that a box and a kept one share, as a share of what both cover; 0 if that is nothing."""
        b = self.b
        other = [self.buffers.kept[self._kept(row, number)] for row in range(5)]
        sides = []
        for low, high in SIDES:
            begin = t.maximum(other[low], ends[low])
            end = t.minimum(other[high], ends[high])
            sides.append(t.maximum(end - begin, t.const(0.0, F32)))
        shared = b.let("shared", sides[0] * sides[1])
        area = b.let("both", other[4] + ends[4] - shared)
        covers = area > 0.0
        return t.select(covers, shared / area, t.const(0.0, F32))
