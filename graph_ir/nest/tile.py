"""The innermost loops of a nest as register tiles, with the views that the loops around them leave."""

from __future__ import annotations

from typing import Any

from ...targets.isa import Target
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Allocate, Block, Buffer, Expr, PrefetchHint, Slice, Stmt
from ..ir.computation import Index
from ..schedule.matmul_tile import rows_for
from .nest import Nest
from .position import Position
from .problem import View
from .register_tile import RegisterTile
from .row_tiles import TileHeight, by_height, row_tiles
from .stages import epilogue_value, finish, tile_columns

EDGE = "edge"
"""The local buffer for a tile with a dynamic number of columns to store."""


def register_tiles(
    nest: Nest, position: Position, target: Target, local_buffers: dict[str, Buffer]
) -> list[Stmt]:
    """Return the register tiles of the rows at `position`; for dynamic rows, code for every height."""
    make = _Tiles(nest, target)
    if isinstance(position.extents["n"], int):
        return [make.tiles(position)]
    local_buffers[EDGE] = make.edge_buffer
    rows = position.extents["m"]
    if isinstance(rows, int):
        return [make.edge(position)]

    def tile(first: Expr, count: int) -> Stmt:
        return make.edge(position.enter("m", first, 1, count))

    return [
        row_tiles(
            rows, TileHeight(make.shape.rows), tile,
            lambda rest: [by_height(rest.rows, make.shape.rows, lambda n: tile(rest.first, n))],
        )
    ]  # fmt: skip


class _Tiles:
    def __init__(self, nest: Nest, target: Target) -> None:
        assert nest.tile is not None
        self.nest, self.target, self.tile, self.shape = nest, target, nest.tile, nest.tile.shape
        self.kernel = nest.problem.kernel
        self.columns = tile_columns(nest, target)
        elements = self.shape.rows * self.columns
        self.edge_buffer = Buffer(EDGE, self.kernel.accumulator, (elements,), "local")

    def tiles(self, position: Position) -> Stmt:
        """Tiles of a known number of columns; where k is split, whole blocks of it are a batch."""
        n, parts = position.extents["n"], self._parts(position)
        if len(parts) > 1 and self.nest.problem.c.buffer.dtype != self.kernel.accumulator:
            return self._through_accumulators(position, parts)
        runs_epilogue = position.is_last and not self.nest.staged("C")
        tiles = []
        for part, batch in parts:
            ends = runs_epilogue and part is parts[-1][0] and self.nest.problem.epilogue is not None
            one = self._tile(part, part.here("C"), n, batch)
            one = one.changed(epilogue=self._epilogue(part)) if ends else one
            tiles.append(one.statement())
        return t.block_of(tiles)

    def edge(self, position: Position) -> Stmt:
        """A tile of which a dynamic number of columns is stored."""
        view = View(self.edge_buffer, {"m": self.columns, "n": 1})
        tile = self._tile(position, view, self.columns).statement()
        rows, columns = position.extents["m"], position.extents["n"]
        store = finish(self.nest, position, self.edge_buffer, self.columns, rows, columns)
        return Block((tile, store))

    def _parts(self, position: Position) -> list[tuple[Position, int]]:
        """(position, number of blocks of k) of the tiles that sum a block of k."""
        if len(self.tile.loops) == 3:
            return [(position, 1)]
        depth = position.extents["k"]
        full, rest = divmod(depth, self._block_of_k)
        parts = []
        if full:
            parts.append((position.enter("k", t.ZERO, 1, self._block_of_k), full))
        if rest:
            last = position.enter("k", t.as_expr(full), self._block_of_k, rest)
            parts.append((last.reduced(not full, True), 1))
        return parts

    @property
    def _block_of_k(self) -> int:
        """Elements of k in a block of a batch."""
        return self.nest.loops[-2].step

    def _through_accumulators(self, position: Position, parts: list[tuple[Position, int]]) -> Stmt:
        """The tiles of all parts into a local buffer, where C cannot hold accumulators, and the epilogue."""
        rows, n = position.extents["m"], position.extents["n"]
        local = Buffer("sums", self.kernel.accumulator, (rows * self.columns,), "local")
        view = View(local, {"m": self.columns, "n": 1})
        tiles = [self._tile(part, view, n, batch).statement() for part, batch in parts]
        store = finish(self.nest, position, local, self.columns, rows, n)
        return Block((Allocate(local), *tiles, store))

    def _tile(self, position: Position, c: View, n: int, batch: int = 1) -> RegisterTile:
        m, k = position.extents["m"], position.extents["k"]
        a, b = position.here("A"), position.here("B")
        if batch > 1:
            a, b = (x.with_stride("r", x.step("k", self._block_of_k)) for x in (a, b))
        return RegisterTile(
            a, b, c, m, n, k, self.kernel, self._height(n), batch, not position.is_first,
            prefetch=self._prefetch(position, b, k), prefetch_from=self.nest.prefetch,
        )  # fmt: skip

    def _height(self, columns: int) -> TileHeight:
        """The rows of a register tile for a panel of which `columns` are used; it says how sums are split."""
        if self.tile.exact:
            return TileHeight(self.shape.rows)
        rows = rows_for(columns, self.shape, self.target, self.kernel)
        size: Any = self.nest.problem.sizes["m"]
        return TileHeight(min(size, rows) if isinstance(size, int) else rows)

    def _epilogue(self, position: Position) -> Any:
        def value(index: Index, acc: Expr) -> Any:
            row, column = index
            return epilogue_value(
                self.nest, position.enter("m", row, 1, 1).enter("n", column, 1, 1), acc
            )

        return value

    def _prefetch(self, position: Position, b: View, k: Any) -> tuple[PrefetchHint, ...]:
        """Prefetch hints for the panel of B after this one, if a tile has time to fetch it.

        Without hints, the first tile of a panel causes all its memory traffic and the others none: 5 % on
        128x1024x1024. With few rows, memory is busy all the time, and the hardware prefetchers do equally well.
        """
        if not self.nest.prefetch:
            return ()
        width, distance = b.blocks["n"]
        following: Expr = position.offset("B") + distance
        return (PrefetchHint(Slice(b.buffer, (following,)), k * width),)
