"""Loops that collect the elements of a row that pass a test."""

from __future__ import annotations

from collections.abc import Callable

from ...base.dtypes import S32, S64
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Var

BLOCK = 8
"""Elements that are tested in vectors before any of them is looked at."""


def collect(
    b: t.LoopBuilder,
    size: int | Expr,
    fails: Callable[[Expr], Expr],
    put: Callable[[Expr, Expr], None],
) -> Var:
    """Collect the elements of 0 <= i < size that pass, in order; return their number.

    Args:
        fails: whether element i fails the test.
        put: stores element i at a position, which may be that behind the last element found.
    """
    count = b.allocate("count", S64, (1,))
    b.store(count, (0,), 0)
    whole = b.let("whole", t.as_expr(size) // BLOCK * BLOCK)
    with b.loop("base", 0, whole, step=BLOCK) as base:
        hit = b.allocate("hit", S32, (1,))
        b.store(hit, (0,), 0)
        with b.loop("i", 0, BLOCK, "vector") as i:
            passes = t.select(fails(base + i), t.const(0, S32), t.const(1, S32))
            b.store(hit, (0,), hit[0] | passes)
        with b.when(t.unequal(hit[0], 0)):
            _append(b, (base, base + BLOCK), count, fails, put)
    _append(b, (whole, t.as_expr(size)), count, fails, put)
    return b.let("found", count[0])


def _append(
    b: t.LoopBuilder,
    span: tuple[Expr, Expr],
    count: Buffer,
    fails: Callable[[Expr], Expr],
    put: Callable[[Expr, Expr], None],
) -> None:
    """Write each element behind those found; it counts if it passes: no branch to predict."""
    with b.loop("i", *span) as i:
        at = b.let("at", count[0])
        put(at, i)
        step = t.select(fails(i), t.const(0, S64), t.const(1, S64))
        b.store(count, (0,), at + step)
