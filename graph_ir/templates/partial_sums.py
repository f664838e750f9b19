"""Long sums of floats in blocks: a partial sum stays small, and so does what it loses by rounding.

    total = 0; lost = 0
    for each block of terms:
      sum = 0
      for each term of the block: sum += term
      total += sum, less what `total` gained by rounding so far

A sum of n terms in one chain is off by up to n roundings of its result. Here a chain is one block; blocks are added
with compensation (Kahan), a handful of operations per block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Allocate,
    Block,
    Buffer,
    Expr,
    For,
    Let,
    Load,
    LoopKind,
    Stmt,
    Store,
    Var,
)

SERIAL_BLOCK = 128
"""Terms of a block whose terms follow each other in one chain."""

VECTOR_BLOCK = 16_384
"""Terms of a block that lies along the vectors: 256 in each of 64 chains, so that adding up its lanes costs little."""

_HERE = (t.as_expr(0),)


def sums_in_blocks(combine: str, value: Expr, extents: Sequence[int], vector: bool) -> bool:
    """Whether a reduction of `extents` terms is long enough: sums of floats of more than a block."""
    block = VECTOR_BLOCK if vector else SERIAL_BLOCK
    return combine == "add" and value.dtype.is_float and math.prod(extents) > block


def blocked_sum(
    index: Sequence[Var], extents: Sequence[int], term: Sequence[Stmt], value: Expr, vector: bool
) -> tuple[list[Stmt], Expr]:
    """(statements, total) of the sum of `value`, which `term` binds, over `index`; `vector`: along the last axis."""
    total, lost, part = (Buffer(n, value.dtype, (1,), "local") for n in ("total", "lost", "acc"))
    zero = t.const(0, value.dtype)
    block = VECTOR_BLOCK if vector else SERIAL_BLOCK
    cut = cut_of(extents, block)
    piece = max(1, block // math.prod(extents[cut + 1 :]))

    update = Store(part, _HERE, t.add(Load(part, _HERE), value))
    body: Stmt = Block((*term, update))
    for axis in reversed(range(cut + 1, len(extents))):
        body = For(
            index[axis], t.as_expr(0), t.as_expr(extents[axis]), body, _kind(axis, extents, vector)
        )

    def partial(begin: Expr, end: Expr) -> Stmt:
        terms = For(index[cut], begin, end, body, _kind(cut, extents, vector))
        return Block((Store(part, _HERE, zero), terms, *compensated(total, lost, part)))

    full, rest = divmod(extents[cut], piece)
    number = Var(f"{index[cut].name}_block")
    begin = t.mul(number, piece)
    inner: list[Stmt] = [
        For(number, t.as_expr(0), t.as_expr(full), partial(begin, t.add(begin, piece)))
    ]
    if rest:
        inner.append(partial(t.as_expr(full * piece), t.as_expr(extents[cut])))
    nest: Stmt = Block(tuple(inner))
    for axis in reversed(range(cut)):
        nest = For(index[axis], t.as_expr(0), t.as_expr(extents[axis]), nest)
    start = [Allocate(b) for b in (total, lost, part)]
    zeros = [Store(b, _HERE, zero) for b in (total, lost)]
    return [*start, *zeros, nest], Load(total, _HERE)


def cut_of(extents: Sequence[int], block: int) -> int:
    """The axis that is cut into blocks: all terms along those behind it are less than one."""
    cut = len(extents) - 1
    while cut and math.prod(extents[cut:]) <= block:
        cut -= 1
    return cut


def _kind(axis: int, extents: Sequence[int], vector: bool) -> LoopKind:
    return "vector" if vector and axis == len(extents) - 1 else "serial"


def compensated(
    total: Buffer, lost: Buffer, part: Buffer, at: tuple[Expr, ...] = _HERE
) -> list[Stmt]:
    """total += part - lost; lost: what that rounded up by. Sums that are not finite lose nothing."""
    dtype = total.dtype
    old, new, summand = (Var(name, dtype) for name in ("sum_old", "sum_new", "summand"))
    gained = t.sub(t.sub(new, old), summand)
    finite = t.compare("lt", t.unary("abs", new), t.const(math.inf, dtype))
    return [
        Let(old, Load(total, at)),
        Let(summand, t.sub(Load(part, at), Load(lost, at))),
        Let(new, t.add(old, summand)),
        Store(total, at, new),
        Store(lost, at, t.select(finite, gained, t.const(0, dtype))),
    ]
