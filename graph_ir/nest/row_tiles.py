"""Register tiles over a dynamic number of rows: there is code for every height of a tile.

The epilogue is code for each row and vector of a tile. Lower tiles share it: their accumulators wait in memory for one
loop over the rows, which halves the code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Allocate,
    Block,
    Brgemm,
    Buffer,
    Epilogue,
    Expr,
    For,
    If,
    Let,
    Load,
    PrefetchHint,
    Slice,
    Stmt,
    Store,
    Var,
)
from .packing import loop

AT_ONCE = 2
"""Largest tile whose accumulators do not wait: writing and reading them would take much of the time of so few rows."""

Tile = Callable[[Expr, int], Stmt]
"""(first row, number of rows) -> the tile."""


def row_tiles(number: Expr, height: int, tile: Tile, highest: int = 0) -> Block:
    """Return tiles of `height` rows, then the remainder in one tile, or in two of nearly equal height.

    The tile of the remainder is at most `height` rows high, or `highest` where that is more.
    """
    highest = max(height, highest)
    at, whole, left, upper, part = map(Var, ("at", "whole", "left", "upper", "part"))
    tiles = number // height
    is_even = t.equal(number % height, 0)
    with_left = t.maximum(tiles - 1, 0) * height
    are_two = left > highest
    half = t.select(are_two, (left + 1) // 2, left)
    rows = t.minimum(upper, left - part * upper)
    share = lambda at, count: _fetching_half(tile(at, count), part, are_two)  # noqa: E731
    rest = _rest(whole + part * upper, rows, highest, share)
    return Block(
        (
            Let(whole, t.select(is_even, number, with_left)),
            For(at, t.ZERO, whole, tile(at, height), "serial", height),
            Let(left, number - whole),
            Let(upper, half),
            loop(part, 2, rest, "serial"),
        )
    )


def _fetching_half(tile: Stmt, part: Expr, are_two: Expr) -> Stmt:
    """Return a tile that prefetches half a panel if it is one of two, the whole panel if it is alone.

    Each of two requests its half twice, which costs a load slot.
    """
    if not isinstance(tile, Brgemm):
        return tile
    hints: list[PrefetchHint] = []
    for one in tile.prefetch:
        half, (at,) = -(-one.elements // 2), one.address.indices
        for other in (part * half, t.select(are_two, part * half, half)):
            hints.append(PrefetchHint(Slice(one.address.buffer, (at + other,)), half))
    return replace(tile, prefetch=tuple(hints))


def _rest(start: Expr, rows: Expr, height: int, tile: Tile) -> Block:
    """The tile of `rows`, up to `height` of them or none, from row `start` on."""
    lower, first = Var("lower"), Var("first_left")
    lets = (Let(lower, rows), Let(first, start))
    whole = tile(first, height)
    if not isinstance(whole, Brgemm) or whole.epilogue is None:
        return Block((*lets, _by_height(lower, height, lambda count: tile(first, count))))
    sums = Buffer("left_sums", whole.accumulator, (height * whole.n_padded,), "local")
    # Sums of the blocks of k before are in C already.
    kept = (whole.c, whole.c_row) if whole.accumulate else (Slice(sums, (t.ZERO,)), whole.n_padded)

    def part(count: int) -> Stmt:
        one = tile(first, count)
        assert isinstance(one, Brgemm)
        return one if count <= AT_ONCE else replace(one, c=kept[0], c_row=kept[1], epilogue=None)

    allocated = () if whole.accumulate else (Allocate(sums),)
    finish = If(lower > AT_ONCE, _epilogue(whole, whole.epilogue, lower, *kept))
    return Block((*lets, *allocated, _by_height(lower, height, part), finish))


def _epilogue(
    whole: Brgemm, epilogue: Epilogue, rows: Expr, sums: Slice, stride: int | Expr
) -> Stmt:
    """Return the epilogue of `rows` rows whose accumulators wait in memory."""
    i, j = epilogue.row, epilogue.col
    waiting, target = (
        one.indices[0] + (i * step + j) for one, step in ((sums, stride), (whole.c, whole.c_row))
    )
    load = Let(epilogue.acc, Load(sums.buffer, (waiting,)))
    store = Store(whole.c.buffer, (target,), epilogue.value)
    return loop(i, rows, loop(j, whole.n, Block((load, *epilogue.lets, store)), "vector"), "serial")


def _by_height(rows: Expr, max_rows: int, tile: Callable[[int], Stmt]) -> Stmt:
    """Return the tile of height `rows`, from 1 to `max_rows`; nothing for other heights."""
    chosen: Stmt | None = None
    for count in range(1, max_rows + 1):
        chosen = If(t.equal(rows, count), tile(count), chosen)
    assert chosen is not None
    return chosen
