"""Tiles over a dynamic number of rows: full tiles in a loop, then the remainder in one tile or in two lower ones."""

from __future__ import annotations

from collections.abc import Callable

from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Block, Expr, If, Stmt

MAX_TILE_ROWS = 12
"""Height of the highest register tile if the number of rows is known at run time: each height is code."""

Tile = Callable[[Expr, int], Stmt]
"""(first row, number of rows) -> the tile."""


@dataclass(frozen=True)
class TileHeight:
    """The rows of full tiles.

    `rest`: the most rows of the tile after them, where that is more. `order`: the height that fixes how sums are split,
    if it is not that of full tiles.
    """

    rows: int
    rest: int = 0
    order: int = 0

    @property
    def highest(self) -> int:
        """Return the rows of the highest tile."""
        return max(self.rows, self.rest)


@dataclass(frozen=True)
class Remainder:
    """The rows after the full tiles, as one tile or two: `rows`, an expression, from row `first` on.

    `part` is the number of the tile; `are_two` whether there is another.
    """

    first: Expr
    rows: Expr
    part: Expr
    are_two: Expr


def row_tiles(
    number: Expr, height: TileHeight, tile: Tile, remainder: Callable[[Remainder], list[Stmt]]
) -> Block:
    """Return the full tiles of `number` rows, and the remainder, whose height is at most `height.highest`."""
    b, rows = t.LoopBuilder(), height.rows
    with_left = t.maximum(number // rows - 1, 0) * rows
    whole = b.let("whole", t.select(t.equal(number % rows, 0), number, with_left))
    with b.loop("at", 0, whole, step=rows) as at:
        b.emit(tile(at, rows))
    left = b.let("left", number - whole)
    are_two = left > height.highest
    upper = b.let("upper", t.select(are_two, (left + 1) // 2, left))
    with b.loop("part", 0, 2) as part:
        lower = b.let("lower", t.minimum(upper, left - part * upper))
        first = b.let("first_left", whole + part * upper)
        b.emit(*remainder(Remainder(first, lower, part, are_two)))
    return b.body()


def by_height(rows: Expr, max_rows: int, tile: Callable[[int], Stmt]) -> Stmt:
    """Return the tile of height `rows`, from 1 to `max_rows`; nothing for other heights."""
    chosen: Stmt | None = None
    for count in range(1, max_rows + 1):
        chosen = If(t.equal(rows, count), tile(count), chosen)
    assert chosen is not None
    return chosen
