"""The innermost loops of a nest as register tiles, with the views that the loops around them leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...base.errors import UserError
from ...base.records import dataclass
from ...targets.isa import Target
from ...targets.microkernels import register_rows, rows_for, rows_that_fit
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Allocate, Block, Buffer, Expr, PrefetchHint, Slice, Stmt, Var
from ..ir.computation import Index
from .nest import Loop, Nest
from .position import Position
from .problem import View
from .register_tile import RegisterTile
from .row_tiles import MAX_TILE_ROWS, TileHeight, by_height, row_tiles
from .stages import epilogue_value, finish, tile_columns


@dataclass(frozen=True)
class Level:
    """A loop of `count` iterations, and the distances of its elements in A and B (of rows: in A and C).

    `tile`: the distance of register tiles in A, if rows are equally far apart only within one.
    """

    count: Any
    a: Any
    b: Any
    tile: int = 0


def level_of(loop: Loop, position: Position, loops: Sequence[Loop]) -> Level:
    """Return a loop over a sum, of those inside a register tile, at a position."""
    inner = [x.step for x in loops if x.axis == loop.axis and x.step < loop.step]
    outer = [x.step for x in loops if x.axis == loop.axis and x.step > loop.step]
    extent = outer[-1] if outer else position.extents[loop.axis]
    a, b = (position.view(operand).step(loop.axis, loop.step) for operand in "AB")
    return Level(extent // loop.step if inner else extent, a, b)


def merged(levels: Sequence[Level], may_drop_last: bool = True) -> list[Level]:
    """Return the loops without those of one iteration, neighbors whose elements are equally far apart as one."""
    found = [x for x in levels[:-1] if x.count != 1] + [levels[-1]]
    if len(found) > 1 and found[-1].count == 1 and may_drop_last:
        found.pop()
    at = len(found) - 1
    while at > 0:
        outer, inner = found[at - 1 : at + 1]
        if outer.a == inner.a * inner.count and outer.b == inner.b * inner.count:
            found[at - 1 : at + 1] = [Level(outer.count * inner.count, inner.a, inner.b)]
        at -= 1
    return found


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
        if len(parts) > 1 and position.view("C").buffer.dtype != self.kernel.accumulator:
            return self._through_accumulators(position, parts)
        runs_epilogue = position.is_last and not self.nest.staged("C")
        tiles = []
        for part, levels in parts:
            ends = runs_epilogue and part is parts[-1][0] and self.nest.problem.epilogue is not None
            one = self._tile(part, self._result(part), n, levels)
            one = one.changed(epilogue=self._epilogue(part)) if ends else one
            tiles.append(one.statement())
        return t.block_of(tiles)

    def edge(self, position: Position) -> Stmt:
        """A tile of which a dynamic number of columns is stored."""
        view = View(self.edge_buffer, {"m": self.columns, "n": 1})
        ((_, levels),) = self._parts(position)
        tile = self._tile(position, view, self.columns, levels).statement()
        rows, columns = position.extents["m"], position.extents["n"]
        store = finish(self.nest, position, self.edge_buffer, self.columns, rows, columns)
        return Block((tile, store))

    def _parts(self, position: Position) -> list[tuple[Position, list[Level]]]:
        """(position, loops over the sum) of the register tiles that add to the same accumulators."""
        inner = self.loops[-1]
        if [x.axis for x in self.loops].count(inner.axis) == 1:
            return self._few_levels(position, self.loops)
        outer, depth = self.loops[-2], position.extents[inner.axis]
        full, rest = divmod(depth, outer.step)
        parts = []
        if full:
            whole = position.enter(inner.axis, t.ZERO, 1, full * outer.step)
            parts += self._few_levels(whole.reduced(True, not rest), self.loops)
        if rest:
            last = position.enter(inner.axis, t.as_expr(full), outer.step, rest)
            parts += self._few_levels(last.reduced(not full, True), (*self.loops[:-2], inner))
        return parts

    @property
    def loops(self) -> tuple[Loop, ...]:
        """Return the loops of the tile that sum."""
        return tuple(x for x in map(self.nest.loop, self.tile.loops) if self.nest.is_reduced(x))

    def _few_levels(
        self, position: Position, loops: Sequence[Loop]
    ) -> list[tuple[Position, list[Level]]]:
        """The tiles of some loops. `Brgemm` has two: neighbors become one loop, outer ones several tiles."""
        levels = merged(
            [level_of(loop, position, loops) for loop in loops], self.kernel.k_group == 1
        )
        if len(levels) <= 2:
            return [(position, levels)]
        outer, *rest = loops
        count = level_of(outer, position, loops).count
        parts = []
        for number in range(count):
            inner = position.enter(outer.axis, t.as_expr(number), outer.step, outer.step)
            parts += self._few_levels(inner.reduced(not number, number == count - 1), rest)
        return parts

    def _through_accumulators(
        self, position: Position, parts: list[tuple[Position, list[Level]]]
    ) -> Stmt:
        """The tiles of all parts into a local buffer, where C cannot hold accumulators, and the epilogue."""
        rows, n = self._rows(position).count, position.extents["n"]
        local = Buffer("sums", self.kernel.accumulator, (rows * self.columns,), "local")
        view = View(local, {"m": self.columns, "n": 1})
        tiles = [self._tile(part, view, n, levels).statement() for part, levels in parts]
        store = finish(self.nest, position, local, self.columns, rows, n)
        return Block((Allocate(local), *tiles, store))

    def _tile(self, position: Position, c: View, n: int, levels: Sequence[Level]) -> RegisterTile:
        a, b = position.here("A"), position.here("B")
        *outer, depth = levels
        batch = outer[0] if outer else Level(1, 0, 0)
        rows = self._rows(position)
        left = View(a.buffer, {"m": rows.a, "k": depth.a, "r": batch.a}, base=a.base)
        right = replace(b, strides={"k": depth.b, "n": 1, "r": batch.b}, base=b.base)
        return RegisterTile(
            left, right, c, rows.count, n, depth.count, self.kernel, self._height(n, rows.count), batch.count,
            not position.is_first, prefetch=self._prefetch(position, b, depth.count * batch.count),
            prefetch_from=self.nest.prefetch, all_rows=self.nest.problem.sizes["m"], a_tile=rows.tile,
        )  # fmt: skip

    def _result(self, position: Position) -> View:
        """The elements of C that the tiles store."""
        c = position.here("C")
        return replace(c, strides={**c.strides, "m": self._rows(position).b})

    def _rows(self, position: Position) -> Level:
        """The rows of the tiles, and their distances in A and C."""
        loops = [self.nest.loop(name) for name in self.tile.loops]
        outer = [Level(position.extents[x.axis], position.view("A").step(x.axis), position.view("C").step(x.axis))
                 for x in loops if not self.nest.is_reduced(x) and x.axis != "n"]  # fmt: skip
        levels = merged(outer)
        if len(levels) == 2 and self._are_tiles(*levels):
            lines, line = levels
            return replace(line, count=lines.count * line.count, tile=lines.a)
        if len(levels) > 1:
            raise UserError(
                "schedule: tensorize: the rows of a tile must be equally far apart in A and C; name the loop m alone"
            )
        return levels[0]

    def _are_tiles(self, lines: Level, line: Level) -> bool:
        """Return whether each of several lines of rows is one two-dimensional register."""
        shape = self.kernel.registers
        is_one = shape is not None and register_rows(self.shape, shape) == line.count
        is_known = isinstance(lines.count, int) and isinstance(lines.a, int)
        return is_one and is_known and lines.b == line.b * line.count

    def _height(self, columns: int, number: Any) -> TileHeight:
        """The rows of a register tile for a panel of which `columns` are used; it says how sums are split."""
        if self.tile.exact:
            return TileHeight(self.shape.rows)
        if self.kernel.registers is not None:
            return TileHeight(register_rows(self.shape, self.kernel.registers))
        rows = rows_for(columns, self.shape, self.target, self.kernel)
        if self.tile.any_rows:
            vectors = -(-columns // self.target.lanes(self.kernel.accumulator))
            highest = min(MAX_TILE_ROWS, rows_that_fit(vectors, self.target))
            return TileHeight(rows, 0 if isinstance(number, int) else highest)
        size: Any = self.nest.problem.sizes["m"]
        size = max(size, number) if isinstance(size, int) and isinstance(number, int) else size
        return TileHeight(min(size, rows) if isinstance(size, int) else rows)

    def _epilogue(self, position: Position) -> Any:
        def value(index: Index, acc: Expr) -> Any:
            row, column = index
            return epilogue_value(
                self.nest, position.enter("m", row, 1, 1).enter("n", column, 1, 1), acc
            )

        return value

    def _prefetch(self, position: Position, b: View, terms: Any) -> tuple[PrefetchHint, ...]:
        """Prefetch hints for the panel of B after this one, if a tile has time to fetch it.

        Without hints, the first tile of a panel causes all its memory traffic and the others none: 5 % on
        128x1024x1024. With few rows, memory is busy all the time, and the hardware prefetchers do equally well.
        """
        if not self.nest.prefetch:
            return ()
        width, distance = b.blocks["n"]
        following: Expr = position.offset("B") + distance
        # Each of several lines of rows fetches a share.
        lines = next((x for x in self.nest.loops if x.axis == "y" and x.step == 1), None)
        if lines is None or lines.name in self.tile.loops:
            return (PrefetchHint(Slice(b.buffer, (following,)), terms * width),)
        share = -(-terms * width // self.nest.largest(lines))
        return (PrefetchHint(Slice(b.buffer, (following + Var(lines.name) * share,)), share),)
