"""Loop nests of Householder's reflections: QR factors, and the matrix Q of reflections.

A reflection adds multiples of whole rows: sums = v.T @ rows; rows -= scale v sums. Matrices of a batch are shared by
threads; `sums` is a row of the workspace for each matrix.

householder           for k: reflect column k onto its first element, then the columns behind it
householder_product   from the identity, the last reflection first
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Function, Var


def householder_function(
    name: str, operands: Sequence[Buffer], sums: Buffer, tasks: int, note: str
) -> Function:
    """(a [count, m, n], packed like a, scales [count, steps], sums [count, n]) -> None."""
    a, packed, scales = operands
    b = t.LoopBuilder(buffer.name for buffer in (*operands, sums))
    count, rows, columns = a.shape
    with b.loop("number", 0, count, "parallel" if tasks > 1 else "serial") as number:
        with b.loop("row", 0, rows) as row, b.loop("c", 0, columns, "vector") as c:
            b.store(packed, (number, row, c), a[number, row, c])
        with b.loop("k", 0, scales.shape[1]) as k:
            scale = _reflect_column(b, packed, number, k)
            b.store(scales, (number, k), scale)
            with b.when(t.unequal(scale, 0.0)):
                rest = _Rows(packed, number, k, k + 1)
                rest.reflect(b, sums, scale, lambda row: packed[number, row, k])
    return b.function(name, (*operands, sums), note)


def _reflect_column(b: t.LoopBuilder, x: Buffer, number: Var, k: Var) -> Expr:
    """Store the reflected column k; return the scale, 0 where there is nothing to reflect."""
    tail = x.shape[1] - 1 - k
    top, total, scale = (b.allocate(word, x.dtype, (1,)) for word in ("top", "total", "scale"))
    b.store(top, (0,), 0.0)
    b.store(scale, (0,), 0.0)

    def below(i: Var) -> tuple[Expr, ...]:
        return (number, k + 1 + i, k)

    with b.loop("i", 0, tail) as i:
        size = abs(x[below(i)])
        b.store(top, (0,), t.maximum(top[0], size))
    with b.when(~t.equal(top[0], 0.0)):
        first = b.let("first", x[number, k, k])
        size = t.maximum(top[0], abs(first))
        unit = b.let("unit", size)
        share = b.let("share", first / unit)
        b.store(total, (0,), share * share)
        with b.loop("i", 0, tail) as i:
            share = b.let("share", x[below(i)] / unit)
            b.store(total, (0,), t.fma(share, share, total[0]))
        size = b.let("size", unit * t.unary("sqrt", total[0]))
        negative = first < 0.0
        reflected = b.let("reflected", t.select(negative, size, -size))
        gap = b.let("gap", first - reflected)
        b.store(scale, (0,), -gap / reflected)
        with b.loop("i", 0, tail) as i:
            b.store(x, below(i), x[below(i)] / gap)
        b.store(x, (number, k, k), reflected)
    return b.let("found", scale[0])


@dataclass(frozen=True)
class _Rows:
    """The part of a matrix that a reflection changes: from row `top` and column `left` on."""

    x: Buffer
    number: Var
    top: Expr
    left: Expr

    def reflect(
        self, b: t.LoopBuilder, sums: Buffer, scale: Expr, v: Callable[[Expr], Expr]
    ) -> None:
        """rows -= scale v (v.T @ rows), where v is 1 in the first row."""
        tail = self.x.shape[1] - 1 - self.top
        width = self.x.shape[2] - self.left

        def at(row: Expr, c: Expr) -> tuple[Expr, ...]:
            return (self.number, row, self.left + c)

        with b.loop("c", 0, width, "vector") as c:
            b.store(sums, (self.number, c), self.x[at(self.top, c)])
        with b.loop("i", 0, tail) as i:
            row = b.let("row", self.top + 1 + i)
            factor = b.let("factor", v(row))
            with b.loop("c", 0, width, "vector") as c:
                total = sums[self.number, c]
                b.store(sums, (self.number, c), t.fma(factor, self.x[at(row, c)], total))
        negative = b.let("negative", -scale)
        self._add(b, sums, self.top, negative, at, width)
        with b.loop("i", 0, tail) as i:
            row = b.let("row", self.top + 1 + i)
            factor = b.let("factor", negative * v(row))
            self._add(b, sums, row, factor, at, width)

    def _add(
        self,
        b: t.LoopBuilder,
        sums: Buffer,
        row: Expr,
        factor: Expr,
        at: Callable[[Expr, Expr], tuple[Expr, ...]],
        width: Expr,
    ) -> None:
        with b.loop("c", 0, width, "vector") as c:
            value = t.fma(factor, sums[self.number, c], self.x[at(row, c)])
            b.store(self.x, at(row, c), value)


def householder_product_function(
    name: str, operands: Sequence[Buffer], sums: Buffer, tasks: int, note: str
) -> Function:
    """(packed [count, m, n], scales [count, steps], q like packed, sums [count, n]) -> None."""
    packed, scales, q = operands
    params = (*dict.fromkeys((packed, scales)), q, sums)
    b = t.LoopBuilder(buffer.name for buffer in params)
    count, rows, columns = q.shape
    with b.loop("number", 0, count, "parallel" if tasks > 1 else "serial") as number:
        with b.loop("row", 0, rows) as row, b.loop("c", 0, columns, "vector") as c:
            one = t.select(t.equal(row, c), t.const(1.0, q.dtype), t.const(0.0, q.dtype))
            b.store(q, (number, row, c), one)
        steps = scales.shape[1]
        with b.loop("step", 0, steps) as step:
            k = b.let("k", steps - 1 - step)
            scale = b.let("scale", scales[number, k])
            rest = _Rows(q, number, k, k)
            rest.reflect(b, sums, scale, lambda row, k=k: packed[number, row, k])  # type: ignore[misc]
    return b.function(name, params, note)
