"""Loop nests on batches of matrices: substitution in triangular systems, Cholesky and LU factors.

All three add multiples of whole rows to rows, in vectors; matrices of a batch, and columns of right sides, are shared
by threads.

triangular_solve   for row: for solved row before it: x[row, :] -= a[row, other] x[other, :]; x[row, :] /= a[row, row]
cholesky           the transposed factor u, whose rows are contiguous, then transposed in place
                   for k: u[k, k:] /= sqrt(u[k, k]); for row after k: u[row, row:] -= u[k, row] u[k, row:]
lu                 for k: choose and exchange rows; for row after k: row -= (row[k] / pivot) pivot's row
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base.dtypes import S32, S64
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Function, Var

COLUMNS = 64
"""Most columns of right sides that are solved together: a row of them is four registers of 512 bits."""


@dataclass(frozen=True)
class Triangle:
    """The half of a that is read, and the order: `forward` from the first row on."""

    forward: bool
    transposed: bool
    unit: bool


def triangular_solve_function(
    name: str, operands: tuple[Buffer, Buffer, Buffer], triangle: Triangle, tasks: int, note: str
) -> Function:
    """(a [count, n, n], b [count, n, m], x like b) -> None."""
    a, right, x = operands
    count, _, columns = x.shape
    builder = t.LoopBuilder(buffer.name for buffer in operands)
    width = max(1, min(int(columns), COLUMNS))
    tiles = -(-int(columns) // width)
    total = count * tiles
    with builder.loop("task", 0, total, "parallel" if tasks > 1 else "serial") as task:
        number = builder.let("number", task // tiles)
        low = builder.let("low", task % tiles * width)
        size = t.minimum(width, columns - low)
        _Substitution(builder, operands, triangle, number, low, size, width).emit()
    return builder.function(name, operands, note)


@dataclass(frozen=True)
class _Substitution:
    """One tile of right sides."""

    b: t.LoopBuilder
    operands: tuple[Buffer, Buffer, Buffer]
    triangle: Triangle
    number: Expr
    low: Expr
    size: Expr
    width: int

    def emit(self) -> None:
        """All rows in the order in which they can be solved."""
        b, (a, right, x) = self.b, self.operands
        rows = x.shape[1]
        left = b.allocate("left", x.dtype, (self.width,))
        with b.loop("step", 0, rows) as step:
            row = b.let("row", self._row(step))
            with b.loop("c", 0, self.size, "vector") as c:
                b.store(left, (c,), right[self.number, row, self.low + c])
            with b.loop("before", 0, step) as before:
                other = b.let("other", self._row(before))
                at = (other, row) if self.triangle.transposed else (row, other)
                factor = b.let("factor", -a[self.number, *at])
                with b.loop("c", 0, self.size, "vector") as c:
                    known = x[self.number, other, self.low + c]
                    b.store(left, (c,), t.fma(factor, known, left[c]))
            pivot = None
            if not self.triangle.unit:
                pivot = b.let("pivot", a[self.number, row, row])
            with b.loop("c", 0, self.size, "vector") as c:
                value = left[c]
                result = value if pivot is None else value / pivot
                b.store(x, (self.number, row, self.low + c), result)

    def _row(self, step: Expr) -> Expr:
        if self.triangle.forward:
            return step
        return self.operands[2].shape[1] - 1 - step


def cholesky_function(name: str, a: Buffer, factor: Buffer, tasks: int, note: str) -> Function:
    """(a, factor), both [count, n, n] -> None."""
    b = t.LoopBuilder((a.name, factor.name))
    count, n, _ = a.shape
    with b.loop("number", 0, count, "parallel" if tasks > 1 else "serial") as number:
        with b.loop("row", 0, n) as row, b.loop("c", 0, n - row) as c:
            column = row + c
            b.store(factor, (number, row, column), a[number, column, row])
        with b.loop("k", 0, n) as k:
            root = b.let("root", t.unary("sqrt", factor[number, k, k]))
            with b.loop("c", 0, n - k, "vector") as c:
                at = (number, k, k + c)
                b.store(factor, at, factor[at] / root)
            b.store(factor, (number, k, k), root)
            with b.loop("after", 0, n - 1 - k) as after:
                row = b.let("row", k + 1 + after)
                _subtract(b, factor, number, (row, k), row, factor[number, k, row])
        _turn(b, factor, number)
    return b.function(name, (a, factor), note)


def _subtract(
    b: t.LoopBuilder, x: Buffer, number: Expr, rows: tuple[Expr, Expr], low: Expr, factor: Expr
) -> None:
    """Subtract a multiple of the second row from the first one, from column `low` on."""
    row, other = rows
    negative = b.let("factor", -factor)
    with b.loop("c", 0, x.shape[2] - low, "vector") as c:
        column = low + c
        value = t.fma(negative, x[number, other, column], x[number, row, column])
        b.store(x, (number, row, column), value)


def _turn(b: t.LoopBuilder, x: Buffer, number: Var) -> None:
    """The upper half to the lower one, which it leaves 0."""
    with b.loop("row", 0, x.shape[1]) as row, b.loop("column", 0, row) as column:
        b.store(x, (number, row, column), x[number, column, row])
        b.store(x, (number, column, row), 0.0)


def lu_function(
    name: str, operands: tuple[Buffer, Buffer, Buffer, Buffer], tasks: int, note: str
) -> Function:
    """(a [count, m, n], factors like a, pivots [count, steps], order [count, m]) -> None."""
    a, factors, pivots, order = operands
    b = t.LoopBuilder(buffer.name for buffer in operands)
    count, rows, columns = a.shape
    with b.loop("number", 0, count, "parallel" if tasks > 1 else "serial") as number:
        with b.loop("row", 0, rows) as row, b.loop("c", 0, columns, "vector") as c:
            b.store(factors, (number, row, c), a[number, row, c])
        with b.loop("row", 0, rows) as row:
            b.store(order, (number, row), t.cast(row, S32))
        with b.loop("k", 0, pivots.shape[1]) as k:
            best = _chosen(b, factors, number, k)
            b.store(pivots, (number, k), t.cast(best, S32))
            exchange(b, order, (number, k), (number, best))
            with b.loop("c", 0, columns, "vector") as c:
                exchange(b, factors, (number, k, c), (number, best, c))
            pivot = b.let("pivot", factors[number, k, k])
            divisor = b.let("divisor", t.select(t.equal(pivot, 0.0), t.const(1.0, a.dtype), pivot))
            with b.loop("after", 0, rows - 1 - k) as after:
                row = b.let("row", k + 1 + after)
                share = b.let("share", factors[number, row, k] / divisor)
                b.store(factors, (number, row, k), share)
                _subtract(b, factors, number, (row, k), k + 1, share)
    return b.function(name, operands, note)


def exchange(b: t.LoopBuilder, x: Buffer, first: Sequence[Expr], second: Sequence[Expr]) -> None:
    """Exchange two elements."""
    upper, lower = b.let("upper", x[first]), b.let("lower", x[second])
    b.store(x, first, lower)
    b.store(x, second, upper)


def _chosen(b: t.LoopBuilder, factors: Buffer, number: Var, k: Var) -> Expr:
    """The row from k on whose element of column k is the largest."""
    best, top = b.allocate("best", S64, (1,)), b.allocate("top", factors.dtype, (1,))
    b.store(best, (0,), k)
    b.store(top, (0,), abs(factors[number, k, k]))
    with b.loop("after", 0, factors.shape[1] - 1 - k) as after:
        row = b.let("row", k + 1 + after)
        size = b.let("size", abs(factors[number, row, k]))
        with b.when(size > top[0]):
            b.store(top, (0,), size)
            b.store(best, (0,), row)
    return b.let("pivot_row", best[0])
