"""Register tiles as the innermost loops of every contraction: the only code that builds `Brgemm`.

    for each 8 rows: 8 x 3 vector accumulators = 0; for k: one row of B, 8 broadcasts of A, 24 multiply-adds; store

The caller says where the operands lie (views) and how many rows, columns and k there are. Rows may be dynamic: then
there is code for tiles of every height. The epilogue is code for each row and vector of a tile; lower tiles share it:
their accumulators wait in memory for one loop over the rows, which halves the code.
"""

from __future__ import annotations

from dataclasses import replace

from ...base.dims import Size
from ...base.records import dataclass
from ...targets.isa import Microkernel
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Allocate,
    Block,
    Brgemm,
    Buffer,
    Epilogue,
    Expr,
    If,
    Let,
    Matrices,
    PrefetchHint,
    Slice,
    Stmt,
    Store,
    Stride,
    Var,
)
from ...tensor_ir.sizes import number_or_expr
from .epilogue import EpilogueValue
from .packing import loop
from .problem import View
from .row_tiles import Remainder, TileHeight, by_height, row_tiles

AT_ONCE = 2
"""Largest tile whose accumulators do not wait: writing and reading them would take much of the time of so few rows."""


@dataclass(frozen=True)
class RegisterTile:
    """C[m, n] (+)= sum over r < batch and k of A[r, m, k] x B[r, k, n], at the bases of the views.

    Args:
        m: rows; an expression if they are dynamic.
        n: columns, at most those of a panel of B.
        epilogue: gets the index (row, column) relative to the tile.
        prefetch: for tiles of at least `prefetch_from` rows; lower ones have no time for it.
        all_rows: rows of the whole A, of which dynamic m are a part.
        a_tile: distance of register tiles in A, 0 if all rows are equally far apart.
    """

    a: View
    b: View
    c: View
    m: Size | Expr
    n: int
    k: Size | Expr
    kernel: Microkernel
    height: TileHeight
    batch: int = 1
    accumulate: bool = False
    epilogue: EpilogueValue | None = None
    prefetch: tuple[PrefetchHint, ...] = ()
    prefetch_from: int = 0
    all_rows: Size = 0
    a_tile: int = 0

    def statement(self) -> Stmt:
        """Return the tile, or tiles of every height where rows are dynamic."""
        if self.kernel.uses_tiles:
            return self._two_dimensional()
        if isinstance(self.m, int):
            return self.rows(t.ZERO, self.m)
        return row_tiles(t.as_expr(self.m), self.height, self.rows, self._remainder)

    def rows(self, first: Expr, count: int) -> Brgemm:
        """Return the tile of `count` rows from row `first` on."""
        group = self.kernel.k_group
        order = max(self.height.order or self.height.rows, count if self.height.rest else 0)
        b = Matrices(
            self.b.address(), number_or_expr(self.b.strides["k"]) * group, 1, number_or_expr(self.b.step("r"))
        )  # fmt: skip
        return Brgemm(
            self._matrices(self.c, first, "n"), self._matrices(self.a, first, "k"), b, count, self.n,
            number_or_expr(self.k), self.batch, self.accumulate, self._panel, order, group, self._epilogue(first),
            self.prefetch if count >= self.prefetch_from else (),
        )  # fmt: skip

    def _two_dimensional(self) -> Brgemm:
        """The GEMM on two-dimensional registers, which take any number of rows."""
        height: Stride = self.height.rows
        if not isinstance(self.m, int):
            height = t.minimum(t.as_expr(self.all_rows), height)
        elif isinstance(self.all_rows, int) and self.all_rows:  # no rows lie before those of A
            height = min(self.all_rows, self.height.rows)
        one = replace(self.rows(t.ZERO, 1), m=number_or_expr(self.m), tile_rows=height)
        a = replace(one.a, tile=self.a_tile)
        return replace(one, a=a, multiply=self.kernel.multiply, prefetch=self.prefetch)

    @property
    def _panel(self) -> int:
        """Columns of a panel of B."""
        return self.b.block_of_columns or self.n

    @staticmethod
    def _matrices(view: View, row: Expr, columns: str) -> Matrices:
        """The operand from row `row` on."""
        from_row = view if row == t.ZERO else view.at(row * view.step("m"))
        column = 1 if columns == "n" else view.step(columns)
        steps = view.step("m"), column, view.step("r")
        down, right, batch = map(number_or_expr, steps)
        return Matrices(from_row.address(), down, right, batch)

    def _epilogue(self, first: Expr) -> Epilogue | None:
        if self.epilogue is None:
            return None
        i, j, acc = Var("er"), Var("ec"), Var("acc", self.kernel.accumulator)
        lets, value = self.epilogue((first + i, j), acc)
        return Epilogue(i, j, acc, value, tuple(lets))

    def _remainder(self, rest: Remainder) -> list[Stmt]:
        """The tile of a dynamic number of rows after the full tiles."""
        tile = self.changed(prefetch=self._halves(rest))
        highest = self.height.highest
        if self.epilogue is None:
            return [by_height(rest.rows, highest, lambda count: tile.rows(rest.first, count))]
        sums = Buffer("left_sums", self.kernel.accumulator, (highest * self._panel,), "local")
        # Sums of the blocks of k before are in C already.
        waiting = self.c.at(rest.first * self.c.step("m"))
        if not self.accumulate:
            waiting = View(sums, {"m": self._panel})
        low = tile.changed(a=self.a.at(rest.first * self.a.step("m")), c=waiting, epilogue=None)

        def of_height(count: int) -> Stmt:
            if count <= AT_ONCE:
                return tile.rows(rest.first, count)
            return low.rows(t.ZERO, count)

        tiles = by_height(rest.rows, highest, of_height)
        finish = If(rest.rows > AT_ONCE, self._finish(rest, waiting))
        return [*([] if self.accumulate else [Allocate(sums)]), tiles, finish]

    def _finish(self, rest: Remainder, waiting: View) -> Stmt:
        """The epilogue of rows whose accumulators wait in memory."""
        end = self._epilogue(rest.first)
        assert end is not None
        row, target = end.row, self.c.at(rest.first * self.c.step("m"))
        load = Let(end.acc, waiting.buffer[waiting.base + (row * waiting.step("m") + end.col)])
        store = Store(target.buffer, (target.base + (row * target.step("m") + end.col),), end.value)
        body = Block((load, *end.lets, store))
        return loop(row, rest.rows, loop(end.col, self.n, body, "vector"), "serial")

    def _halves(self, rest: Remainder) -> tuple[PrefetchHint, ...]:
        """Prefetch half a panel if the remainder is two tiles, the whole panel if it is one.

        Each of two requests its half twice, which costs a load slot.
        """
        hints: list[PrefetchHint] = []
        for one in self.prefetch:
            half, (at,) = -(-one.elements // 2), one.address.indices
            for other in (rest.part * half, t.select(rest.are_two, rest.part * half, half)):
                hints.append(PrefetchHint(Slice(one.address.buffer, (at + other,)), half))
        return tuple(hints)

    def changed(self, **changes: object) -> RegisterTile:
        """Return the tile with some fields replaced."""
        return replace(self, **changes)  # type: ignore[arg-type]
