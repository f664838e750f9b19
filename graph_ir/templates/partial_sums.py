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
from collections.abc import Callable, Sequence

from ...base.dims import Size, bounds, is_known
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Allocate,
    Block,
    Buffer,
    Expr,
    For,
    If,
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


def sums_in_blocks(combine: str, value: Expr, extents: Sequence[Size], vector: bool) -> bool:
    """Return whether a reduction of `extents` terms may be long enough: sums of floats of more than a block."""
    block = VECTOR_BLOCK if vector else SERIAL_BLOCK
    return combine == "add" and value.dtype.is_float and bounds(math.prod(extents))[1] > block


def blocked_sum(
    index: Sequence[Var], extents: Sequence[Size], term: Sequence[Stmt], value: Expr, vector: bool
) -> tuple[list[Stmt], Expr]:
    """(statements, total) of the sum of `value`, which `term` binds, over `index`; `vector`: along the last axis.

    Where extents are dynamic, the axis that is split into blocks is chosen when it runs. A sum of no more than a block
    is one block then: the same bits as without any, as nothing is lost of a single one.
    """
    total, lost, part = (Buffer(n, value.dtype, (1,), "local") for n in ("total", "lost", "acc"))
    zero = t.const(0, value.dtype)
    block = VECTOR_BLOCK if vector else SERIAL_BLOCK
    update = Store(part, _HERE, Load(part, _HERE) + value)

    def partial(begin: Expr, end: Expr, cut: int) -> Stmt:
        body: Stmt = Block((*term, update))
        for axis in reversed(range(cut, len(extents))):
            ends = (begin, end) if axis == cut else (t.as_expr(0), t.as_expr(extents[axis]))
            body = For(index[axis], *ends, body, _kind(axis, extents, vector))
        return Block((Store(part, _HERE, zero), body, *compensated(total, lost, part)))

    nest = _cut(index, extents, block, partial)
    start = [Allocate(b) for b in (total, lost, part)]
    zeros = [Store(b, _HERE, zero) for b in (total, lost)]
    return [*start, *zeros, nest], Load(total, _HERE)


def cut_of(extents: Sequence[int], block: int) -> int:
    """The axis that is split into blocks: all terms along those behind it are less than one."""
    cut = len(extents) - 1
    while cut and math.prod(extents[cut:]) <= block:
        cut -= 1
    return cut


Partial = Callable[[Expr, Expr, int], Stmt]
"""The sum of a block: from an index of an axis to another, over all of the axes after it."""


def _cut(index: Sequence[Var], extents: Sequence[Size], block: int, partial: Partial) -> Stmt:
    """The loops over blocks: cut is the last axis from which on there are more than `block` terms, else the first."""
    chosen = _blocks_along(0, index, extents, block, partial)
    for axis in range(1, len(extents)):
        low, high = bounds(math.prod(extents[axis:]))
        if high > block:
            here = _blocks_along(axis, index, extents, block, partial)
            is_long = t.as_expr(math.prod(extents[axis:])) > block
            chosen = here if low > block else If(is_long, here, chosen)
    return chosen


def _blocks_along(
    cut: int, index: Sequence[Var], extents: Sequence[Size], block: int, partial: Partial
) -> Stmt:
    """The loops over blocks of the axis `cut`, and over the axes before it."""
    inside, size = math.prod(extents[cut + 1 :]), extents[cut]
    number = Var(f"{index[cut].name}_block")
    if is_known(inside, size):
        piece: Expr = t.as_expr(max(1, block // inside))
    else:
        piece = t.maximum(t.as_expr(block) // t.as_expr(inside), 1)
    full, rest = t.as_expr(size) // piece, t.as_expr(size) % piece
    begin = number * piece
    blocks = For(number, t.as_expr(0), full, partial(begin, begin + piece, cut))
    last = partial(full * piece, t.as_expr(size), cut)
    if is_known(inside, size):
        nest: Stmt = Block((blocks, last) if size % max(1, block // inside) else (blocks,))
    else:
        nest = Block((blocks, If(rest > 0, last)))
    for axis in reversed(range(cut)):
        nest = For(index[axis], t.as_expr(0), t.as_expr(extents[axis]), nest)
    return nest


def _kind(axis: int, extents: Sequence[Size], vector: bool) -> LoopKind:
    return "vector" if vector and axis == len(extents) - 1 else "serial"


def compensated(
    total: Buffer, lost: Buffer, part: Buffer, at: tuple[Expr, ...] = _HERE
) -> list[Stmt]:
    """total += part - lost; lost: what that rounded up by. Sums that are not finite lose nothing."""
    dtype = total.dtype
    old, new, summand = (Var(name, dtype) for name in ("sum_old", "sum_new", "summand"))
    gained = new - old - summand
    finite = abs(new) < t.const(math.inf, dtype)
    return [
        Let(old, Load(total, at)),
        Let(summand, Load(part, at) - Load(lost, at)),
        Let(new, old + summand),
        Store(total, at, new),
        Store(lost, at, t.select(finite, gained, t.const(0, dtype))),
    ]
