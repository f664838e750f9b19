"""Register tiles over a number of rows that is known when a kernel runs: there is code for every height of a tile."""

from __future__ import annotations

from collections.abc import Callable

from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Block, Expr, For, If, Let, Stmt, Var
from .packing import loop

Tile = Callable[[Expr, int], Stmt]
"""(first row, number of rows) -> the tile."""


def row_tiles(number: Expr, height: int, tile: Tile) -> Block:
    """Whole tiles of `height` rows, then what is left in one, or in two of nearly equal height."""
    at, whole, left, upper, lower, part = map(
        Var, ("at", "whole", "left", "upper", "lower", "part")
    )
    tiles = t.floordiv(number, height)
    is_even = t.compare("eq", t.mod(number, height), 0)
    with_left = t.mul(t.maximum(t.sub(tiles, 1), 0), height)
    half = t.select(t.compare("gt", left, height), t.floordiv(t.add(left, 1), 2), left)
    rows = t.minimum(upper, t.sub(left, t.mul(part, upper)))
    start = t.add(whole, t.mul(part, upper))
    by_height = _by_height(lower, height, lambda count: tile(start, count))
    return Block(
        (
            Let(whole, t.select(is_even, number, with_left)),
            For(at, t.ZERO, whole, tile(at, height), "serial", height),
            Let(left, t.sub(number, whole)),
            Let(upper, half),
            loop(part, 2, Block((Let(lower, rows), by_height)), "serial"),
        )
    )


def _by_height(rows: Expr, most: int, tile: Callable[[int], Stmt]) -> Stmt:
    """The tile of the height that `rows` is, from 1 to `most`; nothing for other heights."""
    chosen: Stmt | None = None
    for count in range(1, most + 1):
        chosen = If(t.compare("eq", rows, count), tile(count), chosen)
    assert chosen is not None
    return chosen
