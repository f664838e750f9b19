"""Loop nest of an ensemble of trees: 16 trees are walked at once without branches.

for block of rows (parallel):
  for group of trees: for each four rows: for step: feature, pair = ways[node]
                                                    node += pair + (x[row, feature] <= threshold[node])
                      sums[row] += values[node]
There each lane of a vector is a tree. The nodes of a group stay in the first cache while a block of rows passes them;
several rows at a time hide the latency of the loads, each of which depends on the last one. A row that is left walks
the 16 trees of a group interleaved as scalars, because single loads cost less than gathers whose latency nothing hides.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...base.dtypes import S32, S64, U32
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Function

_TOGETHER = 4  # interleaved rows of a group
_MAX_COPIED = 1 << 12  # features of a row that is copied: 16 KB, half of the first cache
_SHARED = 64  # rows of a block that threads take, of a dynamic number
_MAX_SUMS = 1 << 13  # partial sums of a block of rows: 32 KB of f32, next to the nodes of a group


@dataclass(frozen=True)
class _Run:
    """Groups from `begin` to `end`, which all take `depth` steps and are for result `target`."""

    begin: int
    end: int
    depth: int
    target: int


@dataclass(frozen=True)
class Forest:
    """The operands, flat but x [rows, features] and `out` [rows, count]; `lanes` trees form a group."""

    x: Buffer
    ways: Buffer
    threshold: Buffer
    values: Buffer
    roots: Buffer
    out: Buffer
    depths: Sequence[int]
    targets: Sequence[int]
    lanes: int
    feature_bits: int
    planes: int
    reduction: str

    @property
    def has_negated(self) -> bool:
        """Return whether nodes can look at negated features."""
        return self.planes > int(self.x.shape[1])

    @property
    def dense(self) -> bool:
        """Return whether each tree has a value for every result."""
        return self.targets[0] < 0


def forest_function(
    name: str, params: Sequence[Buffer], forest: Forest, threads: int, note: str
) -> Function:
    """The function with these parameters."""
    rows, count = forest.out.shape
    b = t.LoopBuilder(buffer.name for buffer in params)
    block = _rows_of_block(rows, max(_TOGETHER, _MAX_SUMS // (count * forest.lanes)), threads)
    number_of_rows = t.as_expr(rows)
    whole, rest = number_of_rows // block, number_of_rows % block
    is_parallel = threads > 1 and not (isinstance(rows, int) and rows < 2 * block)
    with b.loop("block", 0, whole, "parallel" if is_parallel else "serial") as number:
        _Block(b, forest, number * block, t.as_expr(block), block).emit()
    if not isinstance(rows, int) or rows % block:
        _Block(b, forest, whole * block, rest, block).emit()
    return b.function(name, params, note)


def walk_rows(b: t.LoopBuilder, forest: Forest, first: Expr, size: Expr, most: int) -> None:
    """The loops for `size` rows from `first` on, at most `most`."""
    _Block(b, forest, first, size, most).emit()


def _rows_of_block(rows: int | Expr, most: int, threads: int) -> int:
    """Return the number of rows that pass a group of trees before the next: all that fit the cache, or fewer, so that
    threads share."""
    if not isinstance(rows, int):
        return min(most, _SHARED) if threads > 1 else most
    share = -(-rows // (2 * threads)) if threads > 1 else rows
    return max(1, min(rows, most, max(_TOGETHER, share)))


class _Block:
    """The loops for `size` rows from `first` on, at most `most`."""

    def __init__(
        self, b: t.LoopBuilder, forest: Forest, first: Expr, size: Expr, most: int
    ) -> None:
        self.b, self.forest, self.first, self.size, self.most = b, forest, first, size, most

    def emit(self) -> None:
        """Start sums, walk all groups, combine the lanes."""
        b, forest = self.b, self.forest
        count = forest.out.shape[1]
        with b.block():
            dtype = forest.out.dtype
            sums = b.allocate("sums", dtype, (self.most, count, forest.lanes))
            start = {"add": 0.0, "min": np.inf, "max": -np.inf}[forest.reduction]
            with (
                b.loop("r", 0, self.size) as r,
                b.loop("c", 0, count) as c,
                b.loop("lane", 0, forest.lanes, "vector") as lane,
            ):
                b.store(sums, (r, c, lane), start)
            self._walk_all(sums)
            with b.loop("r", 0, self.size) as r, b.loop("c", 0, count) as c:
                total = b.allocate("total", dtype, (1,))
                b.store(total, (0,), start)
                with b.loop("lane", 0, forest.lanes, "vector") as lane:
                    value = sums[r, c, lane]
                    b.store(total, (0,), t.binary(forest.reduction, total[0], value))
                b.store(forest.out, (self.first + r, c), total[0])

    def _runs(self) -> list[_Run]:
        """All groups; neighbors of the same kind are one loop."""
        found: list[_Run] = []
        for number, kind in enumerate(zip(self.forest.depths, self.forest.targets, strict=True)):
            is_same = found and (found[-1].depth, found[-1].target) == kind
            begin = found.pop().begin if is_same else number
            found.append(_Run(begin, number + 1, *kind))
        return found

    def _walk_all(self, sums: Buffer) -> None:
        """Several rows through one group at a time, then each row left."""
        b, whole = self.b, self.size - self.size % _TOGETHER
        for run in self._runs():
            with (
                b.loop("group", run.begin, run.end) as group,
                b.loop("r", 0, whole, step=_TOGETHER) as r,
            ):
                self._walk(sums, group, [r + i for i in range(_TOGETHER)], run)
        features = self._features(whole)
        for run in self._runs():
            with b.loop("group", run.begin, run.end) as group, b.loop("r", whole, self.size) as r:
                self._walk_alone(sums, group, r, run, (features, r - whole))

    def _features(self, first: Expr) -> Buffer | None:
        """The features of the rows left, which are few: negated ones behind, and as many as a node can name."""
        b, forest = self.b, self.forest
        columns, width = int(forest.x.shape[1]), 1 << forest.feature_bits
        if width > _MAX_COPIED:
            return None
        found = b.allocate("features", forest.x.dtype, (_TOGETHER - 1, width))
        with b.loop("r", 0, self.size - first) as r:
            at = self.first + (first + r)
            with b.loop("feature", 0, columns, "vector") as feature:
                value = b.let("value", forest.x[at, feature])
                b.store(found, (r, feature), value)
                if forest.has_negated:
                    b.store(found, (r, feature + columns), -value)
            if width > forest.planes:
                last = b.let("last", found[r, forest.planes - 1])
                with b.loop("feature", forest.planes, width) as feature:
                    b.store(found, (r, feature), last)
        return found

    def _walk(self, sums: Buffer, group: Expr, rows: Sequence[Expr], run: _Run) -> None:
        """A group of trees and some rows, each tree in a lane."""
        b, forest = self.b, self.forest
        with b.block():
            nodes = [b.allocate("node", S32, (forest.lanes,)) for _ in rows]
            with b.loop("lane", 0, forest.lanes, "vector") as lane:
                for node in nodes:
                    at = group * forest.lanes + lane
                    b.store(node, (lane,), forest.roots[at])
            with b.loop("step", 0, run.depth), b.loop("lane", 0, forest.lanes, "vector") as lane:
                for node, row in zip(nodes, rows, strict=True):
                    b.store(node, (lane,), self._next(node[lane], row))
            with b.loop("lane", 0, forest.lanes, "vector") as lane:
                for node, row in zip(nodes, rows, strict=True):
                    self._collect(sums, node[lane], row, lane, run.target)

    def _walk_alone(
        self, sums: Buffer, group: Expr, row: Expr, run: _Run, own: tuple[Buffer | None, Expr]
    ) -> None:
        """A group of trees and one row, whose features may be a row of a buffer: each tree in a register."""
        b, forest = self.b, self.forest
        features, number = own
        mask = t.const((1 << forest.feature_bits) - 1, S32)
        with b.block():
            nodes = [b.allocate("node", S32, (1,)) for _ in range(forest.lanes)]
            for lane, node in enumerate(nodes):
                root = forest.roots[group * forest.lanes + lane]
                b.store(node, (0,), root)
            with b.loop("step", 0, run.depth):
                for node in nodes:
                    if features is None:
                        b.store(node, (0,), self._next(node[0], row))
                        continue
                    at, way = self._at(node[0])
                    feature = t.cast(way & mask, S64)
                    value = features[number, feature]
                    b.store(node, (0,), self._after(at, way, value))
            for lane, node in enumerate(nodes):
                self._collect(sums, node[0], row, t.const(lane, S64), run.target)

    def _at(self, node: Expr) -> tuple[Expr, Expr]:
        """The number of a node, inside the list of nodes, and its feature and way."""
        number = self.b.let("number", inside(node, self.forest.ways.shape[0]))
        return number, self.b.let("way", self.forest.ways[t.cast(number, S64)])

    def _after(self, number: Expr, way: Expr, value: Expr) -> Expr:
        """The node after this one, where its feature has this value."""
        bound = self.forest.threshold[t.cast(number, S64)]
        pair = number + (way >> t.const(self.forest.feature_bits, S32))
        return pair + t.cast(value <= bound, S32)

    def _next(self, node: Expr, row: Expr) -> Expr:
        """The node after this one."""
        b, forest = self.b, self.forest
        number, way = self._at(node)
        mask = (1 << forest.feature_bits) - 1
        row_of_x, columns = self.first + row, forest.x.shape[1]
        feature = inside(way & t.const(mask, S32), forest.planes)
        if forest.has_negated:
            feature = b.let("feature", feature)
            is_negated = feature >= columns
            feature = t.select(is_negated, feature - columns, feature)
        value: Expr = forest.x[row_of_x, t.cast(inside(feature, columns), S64)]
        if forest.has_negated:
            value = b.let("value", value)
            value = t.select(is_negated, -value, value)
        return self._after(number, way, value)

    def _collect(self, sums: Buffer, node: Expr, row: Expr, lane: Expr, target: int) -> None:
        b, forest = self.b, self.forest
        at = b.let("leaf", t.cast(inside(node, forest.ways.shape[0]), S64))
        count = forest.out.shape[1]
        for result in range(count) if target < 0 else (target,):
            index = at * count + result if target < 0 else at
            old = sums[row, result, lane]
            value = forest.values[index]
            b.store(sums, (row, result, lane), t.binary(forest.reduction, old, value))


def inside(index: Expr, size: int) -> Expr:
    """An s32 index as one that lies in a list, whatever the list of nodes says: the last one for all others."""
    unsigned = t.minimum(t.cast(index, U32), t.const(size - 1, U32))  # negative ones are large
    return t.cast(unsigned, S32)
