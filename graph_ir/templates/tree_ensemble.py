"""Loop nest of an ensemble of trees: 16 trees are walked at once, one in each lane, without branches.

for block of rows (parallel):
  for group of trees: for each four rows: for step: feature, pair = ways[node]
                                                    node += pair + (x[row, feature] <= threshold[node])
                      sums[row] += values[node]
The nodes of a group stay in the first cache while a block of rows passes them; several rows at a time hide the latency
of the loads, each of which depends on the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ...base.dtypes import S32, S64
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Function, Var

_TOGETHER = 4  # walks that are interleaved: of rows, or of groups where few rows are left
_Walk = tuple[Expr, Expr]  # a group of trees, and a row
_SHARED = 64  # rows of a block that threads take, of an open number
_MOST_SUMS = 1 << 13  # partial sums of a block of rows: 32 KB of f32, next to the nodes of a group


@dataclass(frozen=True)
class _Run:
    """Groups from `begin` to `end`, as many at a time as there are `depths`: the steps of each; for result `target`."""

    begin: int
    end: int
    depths: tuple[int, ...]
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
        """Whether nodes can look at negated features."""
        return self.planes > int(self.x.shape[1])

    @property
    def dense(self) -> bool:
        """Whether each tree has a value for every result."""
        return self.targets[0] < 0


def forest_function(
    name: str, params: Sequence[Buffer], forest: Forest, threads: int, note: str
) -> Function:
    """The function with these parameters."""
    rows, count = forest.out.shape
    b = t.LoopBuilder(buffer.name for buffer in params)
    block = _rows_of_block(rows, max(_TOGETHER, _MOST_SUMS // (count * forest.lanes)), threads)
    whole, rest = (step(t.as_expr(rows), t.as_expr(block)) for step in (t.floordiv, t.mod))
    is_parallel = threads > 1 and not (isinstance(rows, int) and rows < 2 * block)
    with b.loop("block", 0, whole, "parallel" if is_parallel else "serial") as number:
        _Block(b, forest, t.mul(number, block), t.as_expr(block), block).emit()
    if not isinstance(rows, int) or rows % block:
        _Block(b, forest, t.mul(whole, block), rest, block).emit()
    return b.function(name, params, note)


def walk_rows(b: t.LoopBuilder, forest: Forest, first: Expr, size: Expr, most: int) -> None:
    """The loops for `size` rows from `first` on, at most `most`."""
    _Block(b, forest, first, size, most).emit()


def _rows_of_block(rows: int | Expr, most: int, threads: int) -> int:
    """How many rows pass a group of trees before the next: all that fit the cache, or fewer, so that threads share."""
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
                    value = b.load(sums, (r, c, lane))
                    b.store(total, (0,), t.binary(forest.reduction, b.load(total, (0,)), value))
                b.store(forest.out, (t.add(self.first, r), c), b.load(total, (0,)))

    def _runs(self, together: int) -> list[_Run]:
        """All groups, as many walked together as may be; runs of the same kind are one loop."""
        kinds = list(zip(self.forest.depths, self.forest.targets, strict=True))
        found: list[_Run] = []
        begin = 0
        while begin < len(kinds):
            end, target = begin + 1, kinds[begin][1]
            while end < min(begin + together, len(kinds)) and kinds[end][1] == target:
                end += 1
            run = _Run(begin, end, tuple(depth for depth, _ in kinds[begin:end]), target)
            if found and (found[-1].depths, found[-1].target) == (run.depths, run.target):
                run = replace(run, begin=found.pop().begin)
            found.append(run)
            begin = end
        return found

    def _walk_all(self, sums: Buffer) -> None:
        """Several rows through one group at a time, then each row left through several groups."""
        whole = t.sub(self.size, t.mod(self.size, _TOGETHER))
        for run in self._runs(1):
            with (
                self.b.loop("group", run.begin, run.end) as group,
                self.b.loop("r", 0, whole, step=_TOGETHER) as r,
            ):
                walks: list[_Walk] = [(group, t.add(r, i)) for i in range(_TOGETHER)]
                self._walk(sums, walks, run.depths * _TOGETHER, run.target)
        for run in self._runs(_TOGETHER):
            count = len(run.depths)
            with (
                self.b.loop("group", run.begin, run.end, step=count) as group,
                self.b.loop("r", whole, self.size) as r,
            ):
                walks = [(t.add(group, i), r) for i in range(count)]
                self._walk(sums, walks, run.depths, run.target)

    def _walk(
        self, sums: Buffer, walks: Sequence[_Walk], depths: Sequence[int], target: int
    ) -> None:
        """Groups of trees and a row for each, side by side until they end."""
        b, forest = self.b, self.forest
        with b.block():
            nodes = [b.allocate("node", S32, (forest.lanes,)) for _ in walks]
            with b.loop("lane", 0, forest.lanes, "vector") as lane:
                for node, (group, _) in zip(nodes, walks, strict=True):
                    at = t.add(t.mul(group, forest.lanes), lane)
                    b.store(node, (lane,), b.load(forest.roots, (at,)))
            for first, end in pairwise(sorted({0, *depths})):
                with b.loop("step", first, end), b.loop("lane", 0, forest.lanes, "vector") as lane:
                    for node, (_, row), depth in zip(nodes, walks, depths, strict=True):
                        if depth >= end:
                            b.store(node, (lane,), self._next(b.load(node, (lane,)), row))
            with b.loop("lane", 0, forest.lanes, "vector") as lane:
                for node, (_, row) in zip(nodes, walks, strict=True):
                    self._collect(sums, b.load(node, (lane,)), row, lane, target)

    def _next(self, node: Expr, row: Expr) -> Expr:
        """The node after this one."""
        b, forest = self.b, self.forest
        number = b.let("number", inside(node, forest.ways.shape[0]))
        at = b.let("at", t.cast(number, S64))
        way = b.let("way", b.load(forest.ways, (at,)))
        mask, bits = (1 << forest.feature_bits) - 1, t.const(forest.feature_bits, S32)
        row_of_x, columns = t.add(self.first, row), forest.x.shape[1]
        feature = inside(t.binary("and", way, t.const(mask, S32)), forest.planes)
        if forest.has_negated:
            feature = b.let("feature", feature)
            is_negated = t.compare("ge", feature, columns)
            feature = t.select(is_negated, t.sub(feature, columns), feature)
        value: Expr = b.load(forest.x, (row_of_x, t.cast(inside(feature, columns), S64)))
        if forest.has_negated:
            value = b.let("value", value)
            value = t.select(is_negated, t.unary("neg", value), value)
        right = t.compare("le", value, b.load(forest.threshold, (at,)))
        pair = t.binary("add", number, t.binary("shr", way, bits))
        return t.binary("add", pair, t.cast(right, S32))

    def _collect(self, sums: Buffer, node: Expr, row: Expr, lane: Var, target: int) -> None:
        b, forest = self.b, self.forest
        at = b.let("leaf", t.cast(inside(node, forest.ways.shape[0]), S64))
        count = forest.out.shape[1]
        for result in range(count) if target < 0 else (target,):
            index = t.add(t.mul(at, count), result) if target < 0 else at
            old = b.load(sums, (row, result, lane))
            value = b.load(forest.values, (index,))
            b.store(sums, (row, result, lane), t.binary(forest.reduction, old, value))


def inside(index: Expr, size: int) -> Expr:
    """An s32 index as one that lies in a list, whatever the list of nodes says."""
    last = t.const(size - 1, S32)
    return t.maximum(t.minimum(index, last), t.const(0, S32))
