"""Loop nest of a product whose weights stay packed: unpacked in registers for few rows, into panels for many.

    registers   for each panel: for each group of k: sums of X * Q, then acc += (sums - zero * sum of X) * scale
    panel       for each panel, block of k: a local panel of (Q - zero) * scale, then one Brgemm for all rows
    bytes       for each panel: a local panel of Q, then as in registers

In registers each word of weights is read once, so that few rows take as long as memory takes to deliver it. Rows of
bytes, and rows of f32 as three digits of bytes, are multiplied by dot products, and the sums of a group are exact;
where one zero point serves all weights, they begin at -zero * sum of X, so that nothing is subtracted from them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base.contraction import Microkernel
from ...base.dtypes import F32, U8
from ...base.target import Target
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Allocate,
    Block,
    Buffer,
    Expr,
    For,
    Let,
    Load,
    Slice,
    Stmt,
    Store,
    Var,
)
from ...tensor_ir.tiling import split_rows
from ..schedule.matmul_tile import MatmulBlocking
from .fixed_point_rows import FixedPointRows
from .matmul import EpilogueValue, MatmulProblem, MatmulTemplate, RowBlock
from .nbits_rows import GivenRows
from .nbits_tile import DotTile, FixedPointTile, FloatTile, Means, RegisterTile
from .operand import offset_of
from .packed_weights import PackedWeights, WeightPanel


class NBitsTemplate(MatmulTemplate):
    """Builds the loop nest; B of the problem is `weights`, and `x_scale` [m, groups] that of rows of bytes."""

    def __init__(
        self,
        problem: MatmulProblem,
        weights: PackedWeights,
        x_scale: Buffer | None,
        blocking: MatmulBlocking,
        kernel: Microkernel,
        target: Target,
        epilogue: EpilogueValue | None,
        unpack: str,
        use: str,
    ):
        super().__init__(problem, blocking, kernel, target, epilogue)
        self.weights = weights
        self.x_scale = x_scale
        self.unpack = unpack
        self.use = use
        self.lanes = target.lanes(F32)
        self.fetches = weights.words.elements > target.l2_bytes
        self.k_block = problem.k if unpack != "panel" else aligned_block(self.k_block, weights)

    def _rows(self, row: Expr, rows: int | Expr, steps: list[Stmt]) -> RowBlock:
        assert isinstance(rows, int)
        block = super()._rows(row, rows, steps)
        if self.unpack != "panel":
            steps += self._x(block).prepared(rows)
        return block

    def _x(self, block: RowBlock) -> GivenRows:
        """The rows of a block, in fixed point where f32 is multiplied by dot products."""
        in_digits = self.use != "fma" and self.x_scale is None
        make = FixedPointRows if in_digits else GivenRows
        p = self.problem
        return make(p.a, self.x_scale, self.weights, p.k, self._most_rows(), block.first)

    def _tile(
        self, block: RowBlock, row: Var, rows: int, weights: WeightPanel, vectors: int
    ) -> RegisterTile:
        fetches = self.fetches and self.unpack == "registers"
        means = Means(fetches, self.target.table.has_fma, self.use == "dot2")
        x = self._x(block)
        if isinstance(x, FixedPointRows):
            return FixedPointTile(x, row, rows, weights, vectors, means)
        make = FloatTile if self.x_scale is None else DotTile
        return make(x, row, rows, weights, vectors, means)

    @staticmethod
    def _count(block: RowBlock) -> int:
        assert isinstance(block.count, int)
        return block.count

    def _products(self, block: RowBlock, panel: Expr, columns: int, starts: Sequence[int]) -> Stmt:
        """The products of one panel: tile by tile in registers, or as those of floats."""
        if self.unpack == "panel":
            return super()._products(block, panel, columns, starts)
        tiles: list[Stmt] = []
        vectors = -(-columns // self.lanes)
        weights = WeightPanel(self.weights, panel, self.columns, self.problem.k, self.lanes)
        if self.unpack == "bytes":
            local = Buffer("w_bytes", U8, (self.problem.k * self.columns,), "local")
            weights, copy = weights.as_bytes(local, vectors, self.fetches)
            tiles += [Allocate(local), copy]
        for first, count, rows in split_rows(self._count(block), self.blocking.tile.rows):
            row = Var("wr")
            tile = self._tile(block, row, rows, weights, vectors)
            body = Block((*tile.sums(), *self._results(block, tile, columns)))
            end = t.as_expr(first + count * rows)
            tiles.append(For(row, t.as_expr(first), end, body, "serial", rows))
        return t.block_of(tiles)

    def _results(self, block: RowBlock, tile: RegisterTile, columns: int) -> list[Stmt]:
        """Every vector of sums through the epilogue to C."""
        return [
            self._result(block.first + (tile.row + r), r, v, tile, columns)
            for r in range(tile.rows)
            for v in range(tile.vectors)
        ]

    def _result(self, row: Expr, r: int, v: int, tile: RegisterTile, columns: int) -> Stmt:
        begin, end = v * self.lanes, min((v + 1) * self.lanes, columns)
        col, sum_, c = Var("fc"), Var("sum", F32), self.problem.c
        column = tile.weights.panel * self.columns + col
        lets: list[Let] = []
        value: Expr = sum_
        if self.epilogue is not None:
            lets, value = self.epilogue((*self.batch_vars, row, column), sum_)
        place = offset_of(c, self.batch_vars, row * c.row + column)
        first = Let(sum_, Load(tile.acc, (t.as_expr(r), col)))
        body = Block((first, *lets, Store(c.buffer, (place,), value)))
        return For(col, t.as_expr(begin), t.as_expr(end), body, "vector")

    def _packed_on_the_fly(
        self, block: RowBlock, column: Expr, columns: int, k0: int, k: int, start: Expr
    ) -> Stmt:
        """A panel is unpacked once for all rows of the block."""
        local, panel = self._local_panel(), column // self.columns
        weights = WeightPanel(self.weights, panel, self.columns, self.problem.k, self.lanes)
        unpack = weights.unpack(k0, k, local, -(-columns // self.lanes))
        place = Slice(local, (t.as_expr(0),))
        return Block((unpack, self._brgemm(block, column, columns, k0, k, place, self.columns)))


def aligned_block(k_block: int, weights: PackedWeights) -> int:
    """A block of whole groups, or one that divides a group into whole words."""
    group, numbers = weights.group, weights.numbers
    if k_block >= group:
        return k_block - k_block % group
    fits = (d for d in range(k_block, numbers, -1) if not (group % d or d % numbers))
    return next(fits, numbers)
