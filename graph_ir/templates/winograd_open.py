"""Winograd convolutions of a number of images, or of heights and widths, that are known when they run.

The loop nest of `winograd`: tiles are counted by expressions, blocks of them are about equal and at most as large as
the schedule says, and each block is cut into register tiles as the rows of an open product are (`row_tiles`).
"""

from __future__ import annotations

from typing import Any

from ...base.dims import Size
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr, Function, Var
from ..schedule.matmul_tile import MOST_TILE_ROWS, rows_that_fit
from ..schedule.winograd_tile import tiles_along
from .local_sizes import LocalSizes
from .winograd import WinogradTemplate


class OpenWinogradTemplate(WinogradTemplate):
    """`problem` is in terms of `sizes`; `images` and `result` are those of the model, of which `sizes` are made."""

    def __init__(
        self,
        *args: Any,
        images: Size,
        result: tuple[Size, Size],
        sizes: LocalSizes,
        threads: int,
    ) -> None:
        super().__init__(*args)
        self.images, self.result, self.sizes = images, result, sizes
        self.threads = threads if self.kind == "parallel" else 1

    def function(self, *args: Any) -> Function:
        """The whole convolution as a function."""
        for name in ("at", "whole", "left", "upper", "lower", "part"):
            self.b.names.reserve(name)  # of `row_tiles`
        return super().function(*args)

    def _all_tiles(self) -> Expr:
        m, (rows, columns), (down, across) = self.form.results, self.result, self.problem.dilations
        tiles = tiles_along(rows, m, down) * tiles_along(columns, m, across)
        return t.as_expr(self.images * tiles)

    def _blocks(self) -> Expr:
        """Blocks of equal size, as few as there may be; as many as threads, or a multiple, where there are several."""
        total, most = self._all_tiles(), self.blocking.block
        blocks = (total + (most - 1)) // most
        if self.threads > 1:
            even = (blocks + (self.threads - 1)) // self.threads
            blocks = t.minimum(total, even * self.threads)
        return blocks

    def _range(self, block: Var) -> tuple[Expr, Expr]:
        """From a share of all tiles to the next, which differ by one tile at most."""
        b = self.b
        for let in self.sizes.lets:
            b.emit(let)
        total, blocks = b.let("total", self._all_tiles()), b.let("blocks", self._blocks())
        first = b.let("first", block * total // blocks)
        end = (block + 1) * total // blocks
        return first, b.let("count", end - first)

    def _block_products(
        self, block: Var, begin: Expr, end: Expr, count: Expr, *planes: Any
    ) -> None:
        self._products(begin, end, count, *planes)

    def _highest(self, columns: int) -> int:
        """The most tiles that are one register tile: as many as registers have room for.

        Twelve, those of three images of 7 x 7, would read a panel twice. Rows of V share no set of a cache.
        """
        lanes = self.target.lanes(self.form.sums)
        return min(MOST_TILE_ROWS, rows_that_fit(-(-columns // lanes), self.target))
