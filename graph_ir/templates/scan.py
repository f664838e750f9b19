"""Loop nests of cumulative sums and their like along one axis of [outer, n, inner].

last axis    chains of neighboring blocks are interleaved, so that no addition waits for the one before it:
             for i in a block: for every chain: sum[chain] += x[chain, i]; partial[chain, i] = sum[chain]
             then y = partial + what came before the block
other axes   for i: for columns, in vectors: sum[column] += x[i, column]; y[i, column] = sum[column]

The order of the additions follows from the sizes alone; a dynamic number of steps on the last axis is one
after another.
"""

from __future__ import annotations

import math
from typing import Any

from ...base.dims import Dim, Size, ceil_quotient
from ...base.dtypes import DType
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Function, Load, LoopKind, Var
from ..ir.group_values import narrow
from ..ir.schedule import Schedule


@dataclass(frozen=True)
class Scan:
    """Sizes in elements, which may be dynamic, the operation and its identity, whether it leaves out element i, and
    whether it runs from the back."""

    outer: Size
    n: Size
    inner: Size
    combine: str
    start: float
    exclusive: bool
    reverse: bool

    def joined(self, before: Expr, value: Expr) -> Expr:
        """Combine a value with those before it."""
        if self.combine != "log_add_exp":
            return t.binary(self.combine, before, value)
        low, high = t.minimum(before, value), t.maximum(before, value)
        more = t.call("log1p", t.call("exp", low - high))
        return high + t.select(t.equal(low, high), math.log(2), more)  # inf - inf is NaN


def scan_function(
    name: str, x: Buffer, y: Buffer, scan: Scan, schedule: Schedule, note: str
) -> Function:
    """The function (x, y) -> None of flat buffers, as a schedule of `RowScanSpace` or `ColumnScanSpace` says."""
    b = t.LoopBuilder((x.name, y.name))
    kind: LoopKind = "parallel" if schedule.number("tasks") > 1 else "serial"
    if scan.inner not in (0, 1):
        _columns(b, x, y, scan, schedule.number("columns"), kind)
    elif scan.inner == 1:
        with b.loop("row", 0, scan.outer, kind) as row:
            _Row(b, x, y, scan, row).run(schedule.number("chains"), schedule.number("block"))
    return b.function(name, (x, y), note)


class _Row:
    """One row, in groups of a block for each chain, then in smaller blocks, then the remaining elements one at
    a time."""

    def __init__(self, b: t.LoopBuilder, x: Buffer, y: Buffer, scan: Scan, row: Var) -> None:
        self.b, self.x, self.y, self.scan = b, x, y, scan
        self.dtype = x.dtype.accumulator
        self.first = b.let("first", row * scan.n)

    def run(self, chains: int, block: int) -> None:
        """Emit all of the row, in blocks of `block` elements."""
        b, n = self.b, self.scan.n
        if isinstance(n, Dim):
            self._one_by_one(n)
            return
        total = b.allocate("total", self.dtype, (1,))
        b.store(total, (0,), self.scan.start)
        groups, rest = divmod(n, chains * block)
        if groups:
            with b.loop("group", 0, groups) as group:
                self._group(total, group * (chains * block), chains, block)
        small, last = divmod(rest, chains)
        if small:
            with b.block():
                self._group(total, t.as_expr(n - rest), chains, small)
        if last:
            with b.block():
                self._group(total, t.as_expr(n - last), 1, last)

    def _one_by_one(self, n: Size) -> None:
        """A dynamic number of steps, one after the other."""
        b = self.b
        total = b.allocate("total", self.dtype, (1,))
        b.store(total, (0,), self.scan.start)
        with b.loop("i", 0, n) as i:
            at = b.let("at", self.first + (n - 1 - i if self.scan.reverse else i))
            old = b.let("old", total[0])
            value = t.cast(self.x[at], self.dtype)
            new = b.let("new", self.scan.joined(old, value))
            b.store(self.y, (at,), narrow(old if self.scan.exclusive else new, self.y.dtype))
            b.store(total, (0,), new)

    def _group(self, total: Buffer, begin: Expr, chains: int, block: int) -> None:
        """`chains` blocks from step `begin` on; partial values wait in the order of memory."""
        b, size = self.b, chains * block
        sums = b.allocate("sums", self.dtype, (chains,))
        partial = b.allocate("partial", self.dtype, (size,))
        memory = self.scan.n - size - begin if self.scan.reverse else begin
        start = b.let("start", self.first + memory)
        for chain in range(chains):
            b.store(sums, (chain,), self.scan.start)
        with b.loop("i", 0, block) as i:
            for chain in range(chains):
                self._step(sums, partial, start, chain, self._position(i, chain, size, block))
        for chain in range(chains):
            low = (chains - 1 - chain if self.scan.reverse else chain) * block
            before = b.let("before", total[0])
            with b.loop("j", low, low + block, "vector") as j:
                value = self.scan.joined(partial[j], before)
                b.store(self.y, (start + j,), narrow(value, self.y.dtype))
            after = self.scan.joined(before, sums[chain])
            b.store(total, (0,), after)

    def _position(self, i: Var, chain: int, size: int, block: int) -> Expr:
        """Return the offset of step i of a chain in the group's memory."""
        if self.scan.reverse:
            return size - 1 - chain * block - i
        return i + chain * block

    def _step(self, sums: Buffer, partial: Buffer, start: Expr, chain: int, at: Expr) -> None:
        b = self.b
        value = t.cast(self.x[start + at], self.dtype)
        old: Load = sums[chain]
        new = b.let("new", self.scan.joined(old, value))
        b.store(partial, (at,), old if self.scan.exclusive else new)
        b.store(sums, (chain,), new)


def _columns(
    b: t.LoopBuilder, x: Buffer, y: Buffer, scan: Scan, width: int, kind: LoopKind
) -> None:
    """Tiles of `width` columns, each from the first step to the last."""
    tiles = ceil_quotient(scan.inner, width)
    with b.loop("tile", 0, scan.outer * tiles, kind) as tile:
        low = b.let("low", tile % tiles * width)
        first = b.let("first", tile // tiles * (scan.n * scan.inner))
        if not isinstance(scan.inner, int):
            _tile(b, x, y, scan, first + low, t.minimum(scan.inner - low, width), width)
            return
        if scan.inner % width == 0:
            _tile(b, x, y, scan, first + low, width)
            return
        is_whole = low + width <= scan.inner
        with b.when(is_whole):
            _tile(b, x, y, scan, first + low, width)
        with b.otherwise():
            _tile(b, x, y, scan, first + low, scan.inner % width)


def _tile(
    b: t.LoopBuilder, x: Buffer, y: Buffer, scan: Scan, first: Expr, width: Any, room: int = 0
) -> None:
    """`width` neighboring columns from the element `first` on; a dynamic number has `room` for its sums."""
    dtype: DType = x.dtype.accumulator
    sums = b.allocate("sums", dtype, (room or width,))
    width = b.let("width", width) if room else width
    with b.loop("j", 0, width, "vector") as j:
        b.store(sums, (j,), scan.start)
    with b.loop("i", 0, scan.n) as i:
        step = scan.n - 1 - i if scan.reverse else i
        row = b.let("row", first + step * scan.inner)
        with b.loop("j", 0, width, "vector") as j:
            value = t.cast(x[row + j], dtype)
            old = b.let("old", sums[j])
            new = b.let("new", scan.joined(old, value))
            result = old if scan.exclusive else new
            b.store(y, (row + j,), narrow(result, y.dtype))
            b.store(sums, (j,), new)
