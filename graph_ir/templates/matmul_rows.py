"""Matrix products whose number of rows is known when they run: the loop nest of `matmul`, cut by expressions.

    for each batch, group of panels and block of rows (parallel; how many is computed from the number of rows):
      for each block of k, for each panel of B:
        whole register tiles in a loop, then a lower one, or two of nearly equal height that share what is left

There is code for every height of a tile, so that nothing is padded. A few rows, whose sums have another order when a
product is compiled for that many, are the nests of such products, chosen by the number of rows: the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...base.dims import bounds, is_known
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Allocate,
    Block,
    Brgemm,
    Buffer,
    Expr,
    Function,
    If,
    Let,
    Slice,
    Stmt,
    Store,
    Var,
)
from ...tensor_ir.sizes import number_or_expr
from ..schedule.matmul_tile import rows_for
from .matmul import EpilogueValue, MatmulTemplate, RowBlock
from .open_tasks import Sharing, batch_indices, ceil_div, shared_tasks
from .operand import offset_of
from .packing import loop, pack_open
from .row_tiles import row_tiles

MOST_TILE_ROWS = 12
"""The highest register tile: there is code for each height up to it."""

LEAST_TILES = 2
"""Register tiles in a block of rows below which threads share the panels instead."""


class FewRowsTemplate(MatmulTemplate):
    """The product of a few rows: the height of the tile says how its sums are split, whatever the number of rows."""

    def _tile_rows(self, columns: int) -> int:
        return self.blocking.tile.rows

    def _least_prefetching(self) -> int:
        """The tile is as low as the rows are few, but memory is busy all the time: never."""
        return MOST_TILE_ROWS


class RowsTemplate(MatmulTemplate):
    """Builds the loop nest, in blocks of at most `m_block` rows, fewer where threads share them."""

    sharing = Sharing(1, 0)
    few: Mapping[int, MatmulTemplate] = {}
    """The products of few rows that have a nest of their own."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        n, k = self.problem.n, self.problem.k
        self.open_rest = None if is_known(n) else t.as_expr(n) % self.columns
        if self.open_rest is not None:
            self.k_block = k  # results of a narrow panel wait in a local for one block only
            height = self.blocking.tile.rows
            self.edge = Buffer("edge", self.accumulator, (height * self.columns,), "local")

    def function(self, name: str, params: tuple[Buffer, ...], note: str) -> Function:
        """The whole product as a function."""
        body: Stmt = self._tasks()
        low, high = bounds(self.problem.m)
        rows = t.as_expr(self.problem.m)
        for count, template in self.few.items():
            if low <= count <= high:
                body = If(t.equal(rows, count), template.nest(), body)
        return Function(name, params, body if isinstance(body, Block) else Block((body,)), note)

    def _most_rows(self) -> int:
        return self.m_block

    def _tile_rows(self, columns: int) -> int:
        """That of many rows, of which a lower tile is a part."""
        return rows_for(columns, self.blocking.tile, self.target, self.kernel)

    def _in_place(self, rows: int | Expr) -> bool:
        """B is copied into panels once for all rows, unless it has an open number of them."""
        return super()._in_place(rows) or not is_known(self.problem.k)

    def _tasks(self) -> Stmt:
        """One loop over the batch, groups of panels and blocks of rows; threads share it where that pays."""
        p = self.problem
        blocks, groups = self._shares()
        total = groups * blocks * t.as_expr(math.prod(p.batch))
        task = Var("task")
        if self.kind == "serial" or self.sharing.threads == 1:
            return loop(task, total, self._task(task, blocks, groups), "serial")
        return shared_tasks(task, total, self._pays(), self._task(task, blocks, groups))

    def _pays(self) -> Expr:
        """Whether there is work for several threads."""
        p = self.problem
        return self.sharing.pays(math.prod(p.batch) * p.m * p.n * p.k)

    def _task(self, task: Var, all_blocks: Expr, all_groups: Expr) -> Stmt:
        """A block of rows of one product of the batch times a group of panels."""
        p = self.problem
        n, rows = t.as_expr(p.n), t.as_expr(p.m)
        full, panels = n // self.columns, ceil_div(n, t.as_expr(self.columns))
        names = ("blocks", "groups", "within", "first", "count", "size", "begin", "end")
        blocks, groups, within, first, count, size, begin, end = map(Var, names)
        alone = self.sharing.threads == 1
        share = panels if alone else ceil_div(panels, groups)
        is_last: Expr | None = None if alone else begin + share >= panels
        if self.open_rest is not None:
            has_rest = self.open_rest > 0
            is_last = has_rest if is_last is None else is_last & has_rest
        ends = full == panels
        steps: list[Stmt] = [
            Let(blocks, all_blocks),
            Let(groups, all_groups),
            *batch_indices(self.batch_vars, p.batch, task // (groups * blocks)),
            Let(within, task % (groups * blocks)),
            Let(size, ceil_div(rows, blocks)),
            Let(first, within % blocks * size),
            Let(count, t.minimum(size, rows - first)),
            Let(begin, t.ZERO if alone else within // blocks * share),
            Let(end, full if alone else t.minimum(begin + share, full)),
            self._panels(first, count, begin, end, not ends, is_last),
        ]
        return Block(tuple(steps))

    def _shares(self) -> tuple[Expr, Expr]:
        """(blocks of rows, groups of panels): the smaller operand is the one that all threads read."""
        p, threads = self.problem, self.sharing.threads
        rows = t.as_expr(p.m)
        blocks = ceil_div(rows, t.as_expr(self.m_block))
        if threads == 1:
            return blocks, t.ONE
        n = t.as_expr(p.n)
        panels = ceil_div(n, t.as_expr(self.columns))
        few = rows < t.maximum(n, threads * LEAST_TILES * self.blocking.tile.rows)
        groups = t.select(self._pays(), t.select(few, t.minimum(panels, threads), t.ONE), t.ONE)
        even = ceil_div(blocks, t.as_expr(threads)) * threads
        return t.select(self._pays(), t.select(few, blocks, even), blocks), groups

    def _narrow_panel(self, block: RowBlock, starts: Sequence[int]) -> Stmt:
        """The last panel; of an open number of columns a whole one, of which only these columns are stored."""
        if self.open_rest is None:
            return super()._narrow_panel(block, starts)
        full = t.as_expr(self.problem.n) // self.columns
        p, group = self.problem, self.kernel.k_group
        column, local = full * self.columns, self._local_panel()
        source = offset_of(p.b, self.batch_vars, column * p.b.col)
        copy = pack_open(p.b, source, local, p.k, self.open_rest, self.columns)
        place = Slice(local, (t.ZERO,))

        def multiply(part: RowBlock) -> Stmt:
            return Block((Allocate(self.edge), *self._edge_products(part, column, place, group)))

        return Block((*copy, self._tiles(block, multiply)))

    def _edge_products(
        self, part: RowBlock, column: Expr, b: Slice, group: int
    ) -> tuple[Stmt, Stmt]:
        """The product of a register tile into the local, and what is done to the columns there are."""
        p, a = self.problem, part.a
        a_place = self._slice(a, part.a_first * a.row)
        depth, a_row, a_col = map(number_or_expr, (p.k, a.row, a.col))
        assert isinstance(part.count, int)
        product = Brgemm(
            Slice(self.edge, (t.ZERO,)), a_place, b, part.count, self.columns, depth,
            1, 0, a_row, a_col, 0, self.columns * group, self.columns, False, self.columns, None,
            self._tile_rows(self.columns), (), group,
        )  # fmt: skip
        i, j = Var("fr"), Var("fc")
        row, col, sum_ = part.first + i, column + j, Var("sum", self.accumulator)
        keep: EpilogueValue = lambda index, acc: ([], acc)  # noqa: E731
        lets, value = (self.epilogue or keep)((*self.batch_vars, row, col), sum_)
        at = offset_of(p.c, self.batch_vars, row * p.c.row + col)
        load = Let(sum_, self.edge[i * self.columns + j])
        body = Block((load, *lets, Store(p.c.buffer, (at,), value)))
        assert self.open_rest is not None
        return product, loop(i, part.count, loop(j, self.open_rest, body, "vector"), "serial")

    def _brgemm(self, block: RowBlock, *place: Any) -> Stmt:
        """One microkernel call for each register tile of a block."""
        if isinstance(block.count, int):
            return super()._brgemm(block, *place)
        multiply = super()._brgemm
        return self._tiles(block, lambda part: multiply(part, *place))

    def _least_prefetching(self) -> int:
        """Half a tile: between one and two tiles of rows are cut into two lower ones, of which each is a product."""
        return -(-self.blocking.tile.rows // 2)

    def _tiles(self, block: RowBlock, multiply: Callable[[RowBlock], Stmt]) -> Stmt:
        """One microkernel for each register tile of a block."""
        height, number = self.blocking.tile.rows, t.as_expr(block.count)
        return row_tiles(number, height, lambda at, count: multiply(block.part(at, count)))
