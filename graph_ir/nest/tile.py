"""The innermost loops of a nest as register tiles: the one place that builds `Brgemm`.

Strides come from the views: a step along m, k or n in the operand as it lies now, in memory or staged.
"""

from __future__ import annotations

from typing import Any

from ...base.target import Target
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Allocate,
    Block,
    Brgemm,
    Buffer,
    Epilogue,
    Expr,
    PrefetchHint,
    Slice,
    Stmt,
    Var,
)
from ...tensor_ir.sizes import number_or_expr
from ..schedule.matmul_tile import rows_for
from .nest import Nest
from .position import Position
from .problem import View
from .row_tiles import row_tiles
from .stages import epilogue_value, finish, tile_columns

EDGE = "edge"
"""The local buffer for a tile of which the columns to store are counted when the nest runs."""


def register_tiles(
    nest: Nest, position: Position, target: Target, local_buffers: dict[str, Buffer]
) -> list[Stmt]:
    """Return the register tiles of the rows at `position`; of rows that are counted, code for every height."""
    make = _Tiles(nest, target)
    rows, columns = position.extents["m"], position.extents["n"]
    one = make.tile if isinstance(columns, int) else make.edge
    if not isinstance(columns, int):
        local_buffers[EDGE] = make.edge_buffer
    if isinstance(rows, int):
        return [one(position)]
    assert nest.tile is not None
    return [row_tiles(rows, nest.tile.shape.rows, lambda at, n: one(position.enter("m", at, 1, n)))]


class _Tiles:
    def __init__(self, nest: Nest, target: Target) -> None:
        assert nest.tile is not None
        self.nest, self.target, self.shape, self.exact = (
            nest,
            target,
            nest.tile.shape,
            nest.tile.exact,
        )
        self.kernel = nest.problem.kernel
        self.columns = tile_columns(nest, target)
        elements = self.shape.rows * self.columns
        self.edge_buffer = Buffer(EDGE, self.kernel.accumulator, (elements,), "local")

    def tile(self, position: Position) -> Stmt:
        """A tile of a known number of rows and columns; where k is split, whole blocks of it are a batch."""
        n, parts = position.extents["n"], self._parts(position)
        if len(parts) > 1 and self.nest.problem.c.buffer.dtype != self.kernel.accumulator:
            return self._through_accumulators(position, parts)
        runs_epilogue = position.is_last and not self.nest.staged("C")
        products = []
        for part, batch in parts:
            ends = runs_epilogue and part is parts[-1][0]
            epilogue = self._epilogue(part) if ends else None
            products.append(self._brgemm(part, part.address("C"), n, epilogue, batch))
        return t.block_of(products)

    def _parts(self, position: Position) -> list[tuple[Position, int]]:
        """(position, number of blocks of k) of the tiles that sum a block of k."""
        assert self.nest.tile is not None
        if len(self.nest.tile.loops) == 3:
            return [(position, 1)]
        step, depth = self.nest.loops[-2].step, position.extents["k"]
        full, rest = divmod(depth, step)
        parts = [(position.enter("k", t.ZERO, step, step), full)] if full else []
        if rest:
            last = position.enter("k", t.as_expr(full), step, rest)
            parts.append((last.reduced(not full, True), 1))
        return parts

    def _through_accumulators(self, position: Position, parts: list[tuple[Position, int]]) -> Stmt:
        """The tiles of all parts into a local buffer, where C cannot hold accumulators, and the epilogue."""
        rows, n = position.extents["m"], position.extents["n"]
        local = Buffer("sums", self.kernel.accumulator, (rows * self.columns,), "local")
        view = View(local, {"m": self.columns, "n": 1})
        products = [
            self._brgemm(part.staged("C", view), Slice(local, (t.ZERO,)), n, None, batch)
            for part, batch in parts
        ]
        store = finish(self.nest, position, local, self.columns, rows, n)
        return Block((Allocate(local), *products, store))

    def edge(self, position: Position) -> Stmt:
        """A tile of which only the columns there are, counted when the nest runs, are stored."""
        place = position.staged("C", View(self.edge_buffer, {"m": self.columns, "n": 1}))
        product = self._brgemm(place, Slice(self.edge_buffer, (t.ZERO,)), self.columns, None)
        rows, columns = position.extents["m"], position.extents["n"]
        store = finish(self.nest, position, self.edge_buffer, self.columns, rows, columns)
        return Block((product, store))

    def _brgemm(
        self, position: Position, c: Slice, n: int, epilogue: Epilogue | None, batch: int = 1
    ) -> Brgemm:
        a, b, out = (position.view(operand) for operand in "ABC")
        m, k = position.extents["m"], position.extents["k"]
        group = self.kernel.k_group
        depth, a_row, a_col, b_row, c_row = map(
            number_or_expr,
            (k, a.step("m"), a.step("k"), b.strides["k"] * group, out.step("m")),
        )
        a_batch, b_batch = (x.step("k", self._batch_step) if batch > 1 else 0 for x in (a, b))
        return Brgemm(
            c, position.address("A"), position.address("B"), m, n, depth, batch, a_batch, a_row, a_col, b_batch,
            b_row, c_row, not position.is_first, b.block_of_columns or n, epilogue,
            self._height(n), self._prefetch(position, b, m, k), group,
        )  # fmt: skip

    @property
    def _batch_step(self) -> int:
        """Elements of k from one block of a batch to the next."""
        return self.nest.loops[-2].step

    def _height(self, columns: int) -> int:
        """The rows of a register tile for a panel of which `columns` are used; it says how sums are split."""
        if self.exact:
            return self.shape.rows
        rows = rows_for(columns, self.shape, self.target, self.kernel)
        size: Any = self.nest.problem.sizes["m"]
        return min(size, rows) if isinstance(size, int) else rows

    def _epilogue(self, position: Position) -> Epilogue | None:
        if self.nest.problem.epilogue is None:
            return None
        i, j, acc = Var("er"), Var("ec"), Var("acc", self.kernel.accumulator)
        lets, value = epilogue_value(
            self.nest, position.enter("m", i, 1, 1).enter("n", j, 1, 1), acc
        )
        return Epilogue(i, j, acc, value, tuple(lets))

    def _prefetch(self, position: Position, b: View, rows: int, k: Any) -> tuple[PrefetchHint, ...]:
        """Prefetch hints for the panel of B after this one, if a tile has time to fetch it.

        Without hints, the first tile of a panel causes all its memory traffic and the others none: 5 % on
        128x1024x1024. With few rows, memory is busy all the time, and the hardware prefetchers do equally well.
        """
        if not self.nest.prefetch or rows < self.nest.prefetch:
            return ()
        width, distance = b.blocks["n"]
        following: Expr = position.offset("B") + distance
        return (PrefetchHint(Slice(b.buffer, (following,)), k * width),)
