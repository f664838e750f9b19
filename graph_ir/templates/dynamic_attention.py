"""Attention whose numbers of queries and keys are known at run time: the loop nest of `attention`, cut by expressions.

    for each batch and head (parallel; how many is computed):
      pack the keys into local panels, the last one padded with zeros; for one row, sum along each key instead
      for each block of as many rows as fit the panel of scores:
        panel = A x B                              in register tiles of every height, rows padded to whole panels of B
        for each row: row work on the columns there are
        C = panel x D, whose rows are read in place

The panel of scores has a fixed size, so that there are many rows of few columns or few of many. Elementwise ops before
the first reduction are part of the row work: no epilogue asks which columns there are. A few rows, whose sums have
another order when compiled for that many, are the nests of such attention, chosen by the number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from ...base.dims import Size, bounds, substitute
from ...targets.isa import Target
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Allocate, Block, Expr, If, Let, Stmt, Var
from ..ir.computation import Index
from ..nest.epilogue import EpilogueValue
from ..nest.nest import Sharing
from ..nest.packing import loop
from ..nest.position import Position
from ..nest.problem import View
from ..nest.tasks import batch_indices, ceil_div, shared_tasks
from ..schedule.attention_blocking import AttentionBlocking
from ..schedule.gemm import worth_threads
from .attention import AttentionProblem, AttentionTemplate, RowWork
from .attention_matmul import HeadMatmul

MAX_ROWS = 512
"""Rows of a block, for which values are kept, that all have room in the panel if their columns are few."""


class DynamicAttention(AttentionTemplate):
    """Builds the loop nest of one problem over plain operands, or right-hand sides of known sizes in panels."""

    reads_values_in_place = True

    def __init__(
        self,
        problem: AttentionProblem,
        blocking: AttentionBlocking,
        target: Target,
        sharing: Sharing,
    ) -> None:
        super().__init__(problem, blocking, target)
        self.sharing = sharing

    def _panel_sizes(self) -> tuple[int, int | Expr, int]:
        rows, width = self.blocking.rows, self.tiles[0].columns(self.target, self.sums)
        elements = rows * -(-self.blocking.columns // width) * width
        most = min(bounds(self.problem.rows)[1], max(rows, MAX_ROWS))
        return most, Var("row_stride"), elements

    def nest(
        self,
        scores: EpilogueValue | None,
        row_work: RowWork,
        result: EpilogueValue | None,
        divides: bool,
    ) -> Stmt:
        """Return the whole computation, without an epilogue of the first matmul: a loop over heads."""
        assert scores is None
        p, task = self.problem, Var("task")
        head = self._head(row_work, result, divides)
        if bounds(p.rows)[0] <= 1 and p.b.step("k") == 1 == p.a.step("k") and not p.b.blocks:
            one = Block(tuple(self._head(row_work, result, divides, is_one_row=True)))
            head = [If(t.equal(t.as_expr(p.rows), 1), one, Block(tuple(head)))]
        body = Block((*batch_indices(self.batch_vars, p.batch, task), *head))
        heads = math.prod(p.batch)
        adds = heads * p.rows * p.columns * (p.depth + p.width)
        if self.sharing.threads == 1 or not worth_threads(bounds(adds)[1], self.target):
            return loop(task, t.as_expr(heads), body, "serial")
        return shared_tasks(task, t.as_expr(heads), self.sharing.pays(adds), body)

    def _head(
        self,
        row_work: RowWork,
        result: EpilogueValue | None,
        divides: bool,
        is_one_row: bool = False,
    ) -> list[Stmt]:
        """All blocks of rows of one head, whose keys are packed once; one row reads them where they lie."""
        rows, columns = t.as_expr(self.problem.rows), t.as_expr(self.problem.columns)
        b, width = t.LoopBuilder(), self.tiles[0].columns(self.target, self.sums)
        scores, stride = self._scores(None), self.row_stride
        first, count = Var("first"), Var("count")
        on_rows = self._rows(first, count, row_work)
        finish = self._result(self._divided(result, first) if divides else result)
        keys, values = scores.head(self.batch_vars), finish.head(self.batch_vars)
        assert isinstance(stride, Var)
        b.emit(*([] if is_one_row else keys.before), *values.before)
        b.emit(*map(Allocate, (self.panel, self.divisors, *self.per_row.values())))
        panels = b.let("panels", ceil_div(columns, t.as_expr(width)))
        b.emit(Let(stride, t.maximum(panels, 1) * width))
        most = t.minimum(t.as_expr(self.panel.elements) // stride, self.block)
        blocks = b.let("blocks", ceil_div(rows, most))
        size = b.let("size", ceil_div(rows, t.maximum(blocks, 1)))
        with b.loop("mb", 0, blocks) as block:
            b.emit(Let(first, block * size))
            b.emit(Let(count, t.minimum(size, rows - first)))
            if is_one_row:
                self._row_of_scores(b)
            else:
                b.emit(self._padded_scores(scores, keys.position, first, count, panels))
            b.emit(*on_rows)
            b.emit(finish.block((first, 1), count, values.position, self.panel_as("k")))
        return b.statements()

    def _padded_scores(
        self, scores: HeadMatmul, head: Position, first: Expr, count: Expr, panels: Expr
    ) -> Stmt:
        """The scores of `count` rows, of whole panels of keys."""
        panel, width = Var("nb"), self.tiles[0].columns(self.target, self.sums)
        at = scores.rows_at((first, 1), count, head, self.panel_as("n"))
        keys: int | Expr = width
        if scores.nest.tile is None:  # plain loops end with the keys, which are not in panels yet
            keys = t.minimum(t.as_expr(self.problem.columns) - panel * width, width)
        tiles = scores.tiles(at.enter("n", panel, width, keys))
        return loop(panel, panels, t.block_of(tiles), "serial")

    def softmax(self, scores: EpilogueValue | None) -> RowWork:
        """Row work that leaves exponentials in the panel and their sum as divisor; `scores`: what comes before it.

        Loops over a dynamic number of columns take the last ones one at a time. The one of the exponentials has none:
        it goes on in the padding.
        """
        lanes, columns = self.target.lanes(self.sums), t.as_expr(self.problem.columns)
        padded = ceil_div(columns, t.as_expr(lanes)) * lanes
        maxima, panel = self.row_values(0, self.sums), self.panel

        def work(index: Index, at: Callable[[Expr], Index], row: Index) -> list[list[Stmt]]:
            parts = maximum, power, divisor = t.LoopBuilder(), t.LoopBuilder(), t.LoopBuilder()
            most = maximum.allocate("most", self.sums, (1,))
            maximum.store(most, (0,), -math.inf)
            with maximum.loop("mc", 0, columns, "vector") as c:
                score = maximum.let("score", panel[at(c)])
                lets, value = scores((*index, c), score) if scores else ([], score)
                maximum.emit(*lets)
                scaled = maximum.let("scaled", value)
                maximum.store(panel, at(c), scaled)
                maximum.store(most, (0,), t.larger(most[0], scaled))
            maximum.store(maxima, row, most[0])
            biggest = power.let("biggest", maxima[row])
            with power.loop("ec", 0, padded, "vector") as c:
                power.store(panel, at(c), t.exp_weight(panel[at(c)] - biggest))
            total = divisor.allocate("total", self.sums, (1,))
            divisor.store(total, (0,), 0.0)
            with divisor.loop("sc", 0, columns, "vector") as c:
                divisor.store(total, (0,), total[0] + panel[at(c)])
            divisor.store(self.divisors, row, total[0])
            return [part.statements() for part in parts]

        return work

    def _row_of_scores(self, b: t.LoopBuilder) -> None:
        """Scores of one row: a sum along each key."""
        p = self.problem
        with b.loop("key", 0, t.as_expr(p.columns)) as key:
            total = b.allocate("score_sum", self.sums, (1,))
            b.store(total, (0,), 0.0)
            with b.loop("kd", 0, t.as_expr(p.depth), "vector") as k:
                query = p.a.of_batch(self.batch_vars, k)
                other = p.b.of_batch(self.batch_vars, key * p.b.step("n") + k)
                term = query.buffer[query.base] * other.buffer[other.base]
                b.store(total, (0,), total[0] + term)
            b.store(self.panel, (key,), total[0])


def at_size(problem: AttentionProblem, name: str, number: int) -> AttentionProblem:
    """The problem for one number of a dynamic size; its buffers keep the shapes they have."""
    known = {name: number}

    def of(value: Size) -> Size:
        return substitute(value, known)

    def operand(one: View) -> View:
        return replace(one, strides={axis: of(stride) for axis, stride in one.strides.items()})

    return AttentionProblem(
        tuple(map(of, problem.batch)), of(problem.rows), of(problem.columns), problem.depth, problem.width,
        *map(operand, (problem.a, problem.b, problem.d, problem.c)),
    )  # fmt: skip
