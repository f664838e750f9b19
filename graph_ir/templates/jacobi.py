"""Loop nests of Jacobi's methods: singular values, and eigenvalues of symmetric matrices, by rotations of rows.

svd    until all rows are orthogonal, for each pair of rows: rotate them in `right` and in `left`
eigh   until the matrix is diagonal, for each pair of rows: rotate them in `vectors` and in `work` = vectors @ a; then
       work @ vectors.T is the matrix with rows and columns rotated, of which three elements are computed

Rows are rotated in vectors, and no column is read; matrices of a batch are shared by threads. Rotations of rows
(Hestenes 1958) find small singular values to the precision of the type beside large ones. x - s (y + s / (1 + c) x) for
c x - s y (Rutishauser 1966) has rounding errors that vanish with the angle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...base.dtypes import S64, DType
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Function, Var
from .linear_algebra import exchange

LARGE = 1e8
"""Ratios beyond it have the tangent 0.5 / ratio in f32 and f64; their squares may overflow in f32."""


@dataclass(frozen=True)
class Convergence:
    """Stopping criterion of rotations: at the cosine `limit` of two rows, or at elements of `limit` times the Frobenius
    norm of a symmetric matrix; at latest after `sweeps` rounds."""

    limit: float
    sweeps: int


def svd_function(
    name: str, operands: Sequence[Buffer], until: Convergence, tasks: int, note: str
) -> Function:
    """(a [count, r, c], left [count, r, r], values [count, r], right like a) -> None."""
    a, left, values, right = operands
    b = t.LoopBuilder(buffer.name for buffer in operands)
    count, rows, columns = a.shape
    with b.loop("number", 0, count, "parallel" if tasks > 1 else "serial") as number:
        matrix = _Matrix(b, number, rows, a.dtype)
        scale = matrix.scale(rows, columns, lambda row, c: a[number, row, c])
        with b.loop("row", 0, rows) as row, b.loop("c", 0, columns, "vector") as c:
            b.store(right, (number, row, c), a[number, row, c] / scale)
        matrix.identity(left)
        matrix.sweep(until.sweeps, lambda p, q: _rotate_rows(matrix, left, right, until, p, q))
        _normalize(matrix, values, right, scale)
        matrix.sort(values, (left, right), "gt")
    return b.function(name, operands, note)


def eigh_function(
    name: str, operands: Sequence[Buffer], work: Buffer, until: Convergence, tasks: int, note: str
) -> Function:
    """(a [count, n, n], vectors like a, values [count, n], work like a) -> None."""
    a, vectors, values = operands
    b = t.LoopBuilder(buffer.name for buffer in (*operands, work))
    count, n, _ = a.shape
    with b.loop("number", 0, count, "parallel" if tasks > 1 else "serial") as number:
        matrix = _Matrix(b, number, n, a.dtype)
        with b.loop("row", 0, n) as row, b.loop("column", 0, row + 1) as column:
            value = b.let("value", a[number, row, column])
            b.store(work, (number, row, column), value)
            b.store(work, (number, column, row), value)
        scale = matrix.scale(n, n, lambda row, c: work[number, row, c])
        total = b.allocate("total", a.dtype, (1,))
        b.store(total, (0,), 0.0)
        with b.loop("row", 0, n) as row, b.loop("c", 0, n, "vector") as c:
            scaled = work[number, row, c] / scale
            b.store(work, (number, row, c), scaled)
            matrix.multiply_add(total, work[number, row, c], work[number, row, c])
        norm = t.unary("sqrt", total[0])
        limit = b.let("limit", norm * t.const(until.limit, a.dtype))
        matrix.identity(vectors)
        matrix.sweep(until.sweeps, lambda p, q: _rotate_both(matrix, work, vectors, limit, p, q))
        with b.loop("row", 0, n) as row:
            (value,) = matrix.dots(((work, row, vectors, row),))
            b.store(values, (number, row), value * scale)
        matrix.sort(values, (vectors,), "lt")
    return b.function(name, (*operands, work), note)


class _Matrix:
    """One matrix of the batch, whose `rows` rows are rotated."""

    def __init__(self, b: t.LoopBuilder, number: Var, rows: Expr | int, dtype: DType) -> None:
        self.b, self.number, self.rows, self.dtype = b, number, rows, dtype
        self.rotated = b.allocate("rotated", S64, (1,))

    def scale(
        self, rows: Expr | int, columns: Expr | int, value: Callable[[Expr, Expr], Expr]
    ) -> Var:
        """Return the largest absolute value of all elements, 1 where that is 0 or not finite."""
        b = self.b
        top = b.allocate("top", self.dtype, (1,))
        b.store(top, (0,), 0.0)
        with b.loop("row", 0, rows) as row, b.loop("c", 0, columns, "vector") as c:
            size = abs(value(row, c))
            b.store(top, (0,), t.maximum(top[0], size))
        largest = b.let("largest", top[0])
        usable = (largest > 0.0) & (largest < np.inf)
        return b.let("scale", t.select(usable, largest, t.const(1.0, self.dtype)))

    def identity(self, x: Buffer) -> None:
        """Store the identity matrix in x."""
        b = self.b
        one, zero = t.const(1.0, x.dtype), t.const(0.0, x.dtype)
        with b.loop("row", 0, self.rows) as row, b.loop("c", 0, self.rows, "vector") as c:
            b.store(x, (self.number, row, c), t.select(t.equal(row, c), one, zero))

    def sweep(self, most: int, visit: Callable[[Var, Var], None]) -> None:
        """Visit all pairs of rows until a round rotates none."""
        b = self.b
        left = b.allocate("rounds", S64, (1,))
        b.store(left, (0,), most)
        b.store(self.rotated, (0,), 1)
        more = left[0] > 0
        with b.repeat(more & t.unequal(self.rotated[0], 0)):
            b.store(left, (0,), left[0] - 1)
            b.store(self.rotated, (0,), 0)
            with b.loop("p", 0, self.rows) as p, b.loop("after", p + 1, self.rows) as q:
                visit(p, q)

    def multiply_add(self, total: Buffer, x: Expr, y: Expr) -> None:
        """total += x * y."""
        self.b.store(total, (0,), t.fma(x, y, total[0]))

    def dots(self, pairs: Sequence[tuple[Buffer, Expr, Buffer, Expr]]) -> list[Var]:
        """Return dot products of rows: for (x, i, y, j) that of row i of x and row j of y."""
        b = self.b
        sums = [b.allocate("sum", self.dtype, (1,)) for _ in pairs]
        for total in sums:
            b.store(total, (0,), 0.0)
        rows = {(x, i) for left in pairs for x, i in (left[:2], left[2:])}
        with b.loop("c", 0, pairs[0][0].shape[2], "vector") as c:
            order = sorted(rows, key=lambda row: (row[0].name, str(row[1])))
            loaded = {(x, i): b.let("x", x[self.number, i, c]) for x, i in order}
            for total, (x, i, y, j) in zip(sums, pairs, strict=True):
                self.multiply_add(total, loaded[x, i], loaded[y, j])
        return [b.let("dot", total[0]) for total in sums]

    def rotation(self, above: Expr, below: Expr, both: Expr) -> tuple[Var, Var]:
        """Return the sine s and s / (1 + cosine) of the rotation that makes rows with these dot products orthogonal."""
        b, dtype = self.b, above.dtype
        one, half = t.const(1.0, dtype), t.const(0.5, dtype)
        b.store(self.rotated, (0,), 1)
        gap = (below - above) * half
        ratio = b.let("ratio", gap / both)
        size = b.let("size", abs(ratio))
        root = t.unary("sqrt", t.fma(ratio, ratio, one))
        usual = one / (size + root)
        is_large = size > t.const(LARGE, dtype)
        tangent = b.let("slope", t.select(is_large, half / size, usual))
        negative = ratio < 0.0
        tangent = b.let("tangent", t.select(negative, -tangent, tangent))
        root = b.let("root", t.unary("sqrt", t.fma(tangent, tangent, one)))
        half_angle = tangent / (root + one)
        return b.let("sine", tangent / root), b.let("half_angle", half_angle)

    def rotate(self, x: Buffer, p: Expr, q: Expr, by: tuple[Var, Var]) -> None:
        """Rotate two rows."""
        b, (sine, half_angle) = self.b, by
        minus_sine, minus_half = (b.let("minus", -value) for value in by)
        with b.loop("c", 0, x.shape[2], "vector") as c:
            first, second = (self.number, p, c), (self.number, q, c)
            upper, lower = b.let("upper", x[first]), b.let("lower", x[second])
            b.store(x, first, t.fma(minus_sine, t.fma(half_angle, upper, lower), upper))
            b.store(x, second, t.fma(sine, t.fma(minus_half, lower, upper), lower))

    def sort(self, values: Buffer, matrices: Sequence[Buffer], before: str) -> None:
        """Sort values and the rows of matrices by selection."""
        b, number = self.b, self.number
        best = b.allocate("best", S64, (1,))
        with b.loop("first", 0, self.rows) as first:
            b.store(best, (0,), first)
            with b.loop("other", first + 1, self.rows) as other:
                value = values[number, other]
                known = values[number, best[0]]
                with b.when(t.compare(before, value, known)):
                    b.store(best, (0,), other)
            found = b.let("found", best[0])
            with b.when(t.unequal(found, first)):
                exchange(b, values, (number, first), (number, found))
                for x in matrices:
                    with b.loop("c", 0, x.shape[2], "vector") as c:
                        exchange(b, x, (number, first, c), (number, found, c))


def _rotate_rows(
    matrix: _Matrix, left: Buffer, right: Buffer, until: Convergence, p: Var, q: Var
) -> None:
    """Make rows p and q of `right` orthogonal, unless they are."""
    b, dtype = matrix.b, right.dtype
    pairs = ((right, p, right, p), (right, q, right, q), (right, p, right, q))
    above, below, both = matrix.dots(pairs)
    roots = t.unary("sqrt", above) * t.unary("sqrt", below)
    limit = roots * t.const(until.limit, dtype)
    tiny = t.const(float(np.finfo(dtype.numpy).tiny), dtype)
    counts = t.minimum(above, below) > tiny
    counts = counts & (abs(both) > limit)
    with b.when(counts):
        by = matrix.rotation(above, below, both)
        matrix.rotate(right, p, q, by)
        matrix.rotate(left, p, q, by)


def _normalize(matrix: _Matrix, values: Buffer, right: Buffer, scale: Expr) -> None:
    """Divide rows by their lengths, which are the values; rows that are lost beside the largest become 0."""
    b, number, dtype = matrix.b, matrix.number, right.dtype
    tiny = t.const(float(np.finfo(dtype.numpy).tiny), dtype)
    with b.loop("row", 0, matrix.rows) as row:
        (square,) = matrix.dots(((right, row, right, row),))
        length = b.let("length", t.unary("sqrt", square))
        b.store(values, (number, row), length * scale)
        is_lost = square <= tiny
        with b.loop("c", 0, right.shape[2], "vector") as c:
            unit = right[number, row, c] / length
            b.store(right, (number, row, c), t.select(is_lost, t.const(0.0, dtype), unit))


def _rotate_both(
    matrix: _Matrix, work: Buffer, vectors: Buffer, limit: Expr, p: Var, q: Var
) -> None:
    """Rotate rows p and q so that the element at (p, q) of the matrix is 0, unless it is small."""
    (both,) = matrix.dots(((work, p, vectors, q),))
    with matrix.b.when(abs(both) > limit):
        above, below = matrix.dots(((work, p, vectors, p), (work, q, vectors, q)))
        by = matrix.rotation(above, below, both)
        matrix.rotate(work, p, q, by)
        matrix.rotate(vectors, p, q, by)
