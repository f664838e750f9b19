"""Loop nest of row sorts: the first elements of each row in order, and their indices.

for each row:
    few of many: the largest of each of some groups of elements; the k-th of these is a bound that at least k elements
                 reach; keys of the elements that do
    else:        keys of all elements
    sort the keys with their indices: by insertion if they are few, else digit by digit
    values and indices of the first k

Keys are unsigned integers in the order wanted; both sorts keep the order of equal keys, so that the lowest index comes
first. The work is linear in the row for any values.
"""

from __future__ import annotations

from collections.abc import Callable

from ...base.dtypes import BOOL, S32, S64, U8
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Function, Var
from .sort_keys import KeyKind, Keys, key_kind, key_of, sort

BLOCK = 32
"""Elements that are compared with the bound in vectors before any of them is looked at."""


@dataclass(frozen=True)
class RowSort:
    """Sizes in elements, and whether the largest elements come first; `groups` for the selection, 1 for none."""

    rows: int
    n: int
    k: int
    largest: bool
    groups: int


def sort_rows_function(
    name: str, buffers: tuple[Buffer, Buffer, Buffer], shape: RowSort, is_parallel: bool, note: str
) -> Function:
    """The function (x, values, indices) of flat buffers."""
    b = t.LoopBuilder(buffer.name for buffer in buffers)
    if shape.rows and shape.k:
        with b.loop("row", 0, shape.rows, "parallel" if is_parallel else "serial") as row:
            _Row(b, buffers, shape, row).run()
    return b.function(name, buffers, note)


class _Row:
    """One row."""

    def __init__(
        self, b: t.LoopBuilder, buffers: tuple[Buffer, Buffer, Buffer], shape: RowSort, row: Var
    ) -> None:
        self.b, self.shape, self.row = b, shape, row
        self.x, self.values, self.indices = buffers
        dtype = self.x.dtype
        self.wide = U8 if dtype == BOOL else dtype.accumulator
        self.kind: KeyKind = key_kind(dtype)
        self.first = b.let("first", t.mul(row, shape.n))
        self.keys, self.spare = self._pair("a"), self._pair("b")

    def _pair(self, name: str) -> Keys:
        b, n = self.b, self.shape.n
        return Keys(
            b.allocate(f"keys_{name}", self.kind.dtype, (n,)),
            b.allocate(f"indices_{name}", S32, (n,)),
        )

    def run(self) -> None:
        """Emit all of the row."""
        b, shape = self.b, self.shape
        if shape.groups == 1:
            with b.loop("i", 0, shape.n, "vector") as i:
                self._put(i, self._element(i), i)
            self._sort(t.as_expr(shape.n), shape.n, self._write)
            return
        bound = b.allocate("bound", self.wide, (1,))
        self._bound(bound)
        count = b.allocate("count", S64, (1,))
        b.store(count, (0,), 0)
        self._collect(b.let("least", b.load(bound, (0,))), count)
        self._sort(b.let("found", b.load(count, (0,))), 0, self._write)

    def _sort(self, count: Expr, known: int, write: Callable[[Keys], None]) -> None:
        sort(self.b, self.kind, (self.keys, self.spare), count, known, write)

    def _element(self, i: Expr) -> Expr:
        return t.cast(self.b.load(self.x, (t.add(self.first, i),)), self.wide)

    def _put(self, at: Expr, value: Expr, index: Expr) -> None:
        key = key_of(self.b, value, self.kind, self.shape.largest)
        self.b.store(self.keys.keys, (at,), key)
        self.b.store(self.keys.indices, (at,), t.cast(index, S32))

    def _bound(self, bound: Buffer) -> None:
        """The k-th of the groups' best elements. Element i is of group i % groups, so that vectors are neighbours."""
        b, shape, groups = self.b, self.shape, self.shape.groups
        best = b.allocate("best", self.wide, (groups,))
        better = "max" if shape.largest else "min"
        with b.loop("g", 0, groups, "vector") as g:
            b.store(best, (g,), self._element(g))
        whole, rest = divmod(shape.n, groups)
        with b.loop("round", 1, whole) as number:
            base = b.let("base", t.mul(number, groups))
            self._improve(best, better, base, groups)
        if rest:
            self._improve(best, better, t.as_expr(whole * groups), rest)
        with b.loop("g", 0, groups, "vector") as g:
            self._put(g, b.load(best, (g,)), g)

        def keep(found: Keys) -> None:
            which = t.cast(b.load(found.indices, (shape.k - 1,)), S64)
            b.store(bound, (0,), b.load(best, (which,)))

        self._sort(t.as_expr(groups), groups, keep)

    def _improve(self, best: Buffer, better: str, base: Expr, count: int) -> None:
        b = self.b
        with b.loop("g", 0, count, "vector") as g:
            value = t.binary(better, b.load(best, (g,)), self._element(t.add(base, g)))
            b.store(best, (g,), value)

    def _reaches(self, value: Expr, least: Expr) -> Expr:
        """Whether an element may be among the first k; NaN always."""
        return t.compare("lt" if self.shape.largest else "gt", value, least)

    def _collect(self, least: Expr, count: Buffer) -> None:
        """Keys and indices of all elements that reach the bound, in order."""
        b, (whole, rest) = self.b, divmod(self.shape.n, BLOCK)
        with b.loop("block", 0, whole) as block:
            base = b.let("base", t.mul(block, BLOCK))
            hit = b.allocate("hit", S32, (1,))
            b.store(hit, (0,), 0)
            with b.loop("i", 0, BLOCK, "vector") as i:
                fails = self._reaches(self._element(t.add(base, i)), least)
                passes = t.select(fails, t.const(0, S32), t.const(1, S32))
                b.store(hit, (0,), t.binary("or", b.load(hit, (0,)), passes))
            with b.when(t.compare("ne", b.load(hit, (0,)), 0)):
                self._append(base, BLOCK, least, count)
        if rest:
            self._append(t.as_expr(whole * BLOCK), rest, least, count)

    def _append(self, base: Expr, size: int, least: Expr, count: Buffer) -> None:
        """Each element is written behind those found, and counts if it reaches the bound: no branch to predict."""
        b = self.b
        with b.loop("i", 0, size) as i:
            index = b.let("index", t.add(base, i))
            value = b.let("value", self._element(index))
            at = b.let("at", b.load(count, (0,)))
            self._put(at, value, index)
            step = t.select(self._reaches(value, least), t.const(0, S64), t.const(1, S64))
            b.store(count, (0,), t.add(at, step))

    def _write(self, found: Keys) -> None:
        b, start = self.b, t.mul(self.row, self.shape.k)
        with b.loop("i", 0, self.shape.k) as i:
            index = b.let("index", t.cast(b.load(found.indices, (i,)), S64))
            b.store(self.indices, (t.add(start, i),), index)
            b.store(self.values, (t.add(start, i),), b.load(self.x, (t.add(self.first, index),)))
