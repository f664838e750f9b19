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

import numpy as np

from ...base.dtypes import BOOL, S32, S64
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Function, Var

_TOGETHER = 4  # rows whose walks are interleaved
_SHARED = 64  # rows of a block that threads take, of an open number
_MOST_SUMS = 1 << 13  # partial sums of a block of rows: 32 KB of f32, next to the nodes of a group


@dataclass(frozen=True)
class Forest:
    """The operands, flat but x [rows, features] and `out` [rows, count]; `lanes` trees form a group."""

    x: Buffer
    ways: Buffer
    threshold: Buffer
    values: Buffer
    roots: Buffer
    missing: Buffer
    out: Buffer
    depths: Sequence[int]
    targets: Sequence[int]
    lanes: int
    feature_bits: int
    reduction: str

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


def _rows_of_block(rows: int | Expr, most: int, threads: int) -> int:
    """How many rows pass a group of trees before the next: all that fit the cache, or fewer, so that threads share."""
    if not isinstance(rows, int):
        return min(most, _SHARED) if threads > 1 else most
    share = -(-rows // (2 * threads)) if threads > 1 else rows
    return min(rows, most, max(_TOGETHER, share))


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
            self._runs(sums)
            with b.loop("r", 0, self.size) as r, b.loop("c", 0, count) as c:
                total = b.allocate("total", dtype, (1,))
                b.store(total, (0,), start)
                with b.loop("lane", 0, forest.lanes, "vector") as lane:
                    value = b.load(sums, (r, c, lane))
                    b.store(total, (0,), t.binary(forest.reduction, b.load(total, (0,)), value))
                b.store(forest.out, (t.add(self.first, r), c), b.load(total, (0,)))

    def _runs(self, sums: Buffer) -> None:
        """Groups that follow each other with one depth and one target are a loop."""
        begin, kinds = 0, list(zip(self.forest.depths, self.forest.targets, strict=True))
        while begin < len(kinds):
            end = begin
            while end < len(kinds) and kinds[end] == kinds[begin]:
                end += 1
            with self.b.loop("group", begin, end) as group:
                self._rows(sums, group, *kinds[begin])
            begin = end

    def _rows(self, sums: Buffer, group: Var, depth: int, target: int) -> None:
        whole = t.sub(self.size, t.mod(self.size, _TOGETHER))
        with self.b.loop("r", 0, whole, step=_TOGETHER) as r:
            self._walk(sums, group, depth, target, [t.add(r, i) for i in range(_TOGETHER)])
        with self.b.loop("r", whole, self.size) as r:
            self._walk(sums, group, depth, target, [r])

    def _walk(
        self, sums: Buffer, group: Var, depth: int, target: int, rows: Sequence[Expr]
    ) -> None:
        """These rows through the trees of a group."""
        b, forest = self.b, self.forest
        with b.block():
            nodes = [b.allocate("node", S32, (forest.lanes,)) for _ in rows]
            with b.loop("lane", 0, forest.lanes, "vector") as lane:
                root = b.load(forest.roots, (t.add(t.mul(group, forest.lanes), lane),))
                for node in nodes:
                    b.store(node, (lane,), root)
            with b.loop("step", 0, depth), b.loop("lane", 0, forest.lanes, "vector") as lane:
                for node, row in zip(nodes, rows, strict=True):
                    b.store(node, (lane,), self._next(b.load(node, (lane,)), row))
            with b.loop("lane", 0, forest.lanes, "vector") as lane:
                for node, row in zip(nodes, rows, strict=True):
                    self._collect(sums, b.load(node, (lane,)), row, lane, target)

    def _next(self, node: Expr, row: Expr) -> Expr:
        """The node after this one."""
        b, forest = self.b, self.forest
        number = b.let("number", _inside(node, forest.ways.shape[0]))
        at = b.let("at", t.cast(number, S64))
        way = b.let("way", b.load(forest.ways, (at,)))
        mask, bits = (1 << forest.feature_bits) - 1, t.const(forest.feature_bits, S32)
        feature = _inside(t.binary("and", way, t.const(mask, S32)), forest.x.shape[1])
        row_of_x = t.add(self.first, row)
        value = b.let("value", b.load(forest.x, (row_of_x, t.cast(feature, S64))))
        right = t.compare("le", value, b.load(forest.threshold, (at,)))
        if forest.missing.shape[0]:
            is_missing = t.compare("ne", value, value)
            goes = t.cast(b.load(forest.missing, (at,)), BOOL)
            right = t.binary("or", right, t.binary("and", is_missing, goes))
        pair = t.binary("add", number, t.binary("shr", way, bits))
        return t.binary("add", pair, t.cast(right, S32))

    def _collect(self, sums: Buffer, node: Expr, row: Expr, lane: Var, target: int) -> None:
        b, forest = self.b, self.forest
        at = b.let("leaf", t.cast(_inside(node, forest.ways.shape[0]), S64))
        count = forest.out.shape[1]
        for result in range(count) if target < 0 else (target,):
            index = t.add(t.mul(at, count), result) if target < 0 else at
            old = b.load(sums, (row, result, lane))
            value = b.load(forest.values, (index,))
            b.store(sums, (row, result, lane), t.binary(forest.reduction, old, value))


def _inside(index: Expr, size: int) -> Expr:
    """An s32 index as one that lies in a list, whatever the list of nodes says."""
    last = t.const(size - 1, S32)
    return t.maximum(t.minimum(index, last), t.const(0, S32))
