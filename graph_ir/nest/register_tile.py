"""Register tiles as the innermost loops of every contraction: the only code that builds `Brgemm`.

    for each 8 rows: 8 x 3 vector accumulators = 0; for k: one row of B, 8 broadcasts of A, 24 multiply-adds; store

The caller says where the operands lie (views) and how many rows, columns and k there are. Rows may
be dynamic: then there is code for tiles of every height.
"""

from __future__ import annotations

from dataclasses import replace

from ...base.dims import Size
from ...base.records import dataclass
from ...targets.isa import Microkernel
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Brgemm, Epilogue, Expr, PrefetchHint, Slice, Stmt, Var
from ...tensor_ir.sizes import number_or_expr
from .epilogue import EpilogueValue
from .problem import View
from .row_tiles import row_tiles


@dataclass(frozen=True)
class RegisterTile:
    """C[m, n] (+)= sum over r < batch and k of A[r, m, k] x B[r, k, n], at the bases of the views.

    Args:
        m: rows; an expression if they are dynamic.
        n: columns, at most those of a panel of B.
        height: rows of a tile.
        epilogue: gets the index (row, column) relative to the tile.
        prefetch: for tiles of at least `prefetch_from` rows; lower ones have no time for it.
        sums: the height that fixes how sums are split, if it is not that of the tile.
        max_height: rows of a lower tile that takes the rest of dynamic rows, if more than `height`.
    """

    a: View
    b: View
    c: View
    m: int | Expr
    n: int
    k: Size | Expr
    kernel: Microkernel
    height: int
    batch: int = 1
    accumulate: bool = False
    epilogue: EpilogueValue | None = None
    prefetch: tuple[PrefetchHint, ...] = ()
    prefetch_from: int = 0
    sums: int = 0
    max_height: int = 0

    def statement(self) -> Stmt:
        """Return the tile, or tiles of every height where rows are dynamic."""
        if isinstance(self.m, int):
            return self.rows(t.ZERO, self.m)
        return row_tiles(self.m, self.height, self.rows, self.max_height)

    def rows(self, first: Expr, count: int) -> Brgemm:
        """Return the tile of `count` rows from row `first` on."""
        group = self.kernel.k_group
        steps = (
            self.k, self.a.step("r"), self.a.step("m"), self.a.step("k"), self.b.step("r"), self.b.strides["k"],
            self.c.step("m"),
        )  # fmt: skip
        depth, a_batch, a_row, a_col, b_batch, b_row, c_row = map(number_or_expr, steps)
        sums = max(self.sums or self.height, count if self.max_height else 0)
        return Brgemm(
            self._address(self.c, first), self._address(self.a, first), self.b.address(), count, self.n, depth,
            self.batch, a_batch, a_row, a_col, b_batch, b_row * group, c_row, self.accumulate,
            self.b.block_of_columns or self.n, self._epilogue(first), sums,
            self.prefetch if count >= self.prefetch_from else (), group,
        )  # fmt: skip

    @staticmethod
    def _address(view: View, row: Expr) -> Slice:
        return view.address() if row == t.ZERO else view.at(row * view.step("m")).address()

    def _epilogue(self, first: Expr) -> Epilogue | None:
        if self.epilogue is None:
            return None
        i, j, acc = Var("er"), Var("ec"), Var("acc", self.kernel.accumulator)
        lets, value = self.epilogue((first + i, j), acc)
        return Epilogue(i, j, acc, value, tuple(lets))

    def changed(self, **changes: object) -> RegisterTile:
        """Return the tile with some fields replaced."""
        return replace(self, **changes)  # type: ignore[arg-type]
