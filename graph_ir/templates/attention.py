"""Two matmuls with row operations between them in one loop nest: attention without a score matrix in memory.

    for each batch and head (parallel):
      pack the right-hand sides of both matmuls into local panels (unless they already are)
      for each block of rows:
        panel = epilogue(A x B)                    scores, scaled and masked in registers
        for each row of the panel: row work        softmax, in place
        C = epilogue(panel x D) written with the output's strides

The panel (rows x columns of the first matmul) stays in cache, which it shares with the packed keys and values: the
schedule cuts rows accordingly. Long sequences have an online softmax instead of row work (`running_softmax`), over
blocks of columns, in which both right-hand sides are packed; no packed matrix and no row of scores is ever whole.

Numbers of rows and columns that are known at run time take the same loops, with these differences: heads are tasks of
one loop, whose number is computed; a block has as many rows as fit the panel, whose size is fixed, so that there are
many rows of few columns or few of many; scores are computed for whole panels of keys, the last one padded with zeros;
and values are read in place. So no epilogue asks which columns there are: elementwise ops before the first reduction
are part of the row work. One row alone sums along each key, in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from ...base.dims import bounds, is_known
from ...base.dtypes import DType
from ...targets.isa import Target
from ...targets.microkernels import register_rows
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Allocate, Block, Buffer, Expr, For, If, Let, LoopKind, Stmt, Var
from ..ir.computation import Index
from ..nest.epilogue import EpilogueValue, store_result
from ..nest.nest import Sharing, Stage
from ..nest.packing import is_read_in_place, loop
from ..nest.problem import Contraction, View, matmul
from ..nest.tasks import batch_indices, ceil_div, nested, shared_tasks
from ..schedule.attention_blocking import AttentionBlocking
from ..schedule.cost import worth_threads
from ..schedule.matmul_steps import inner_nest
from .attention_matmul import AttentionProblem, HeadMatmul, RowBlock
from .running_softmax import RowWork, RunningSoftmax

MAX_ROWS = 512
"""Rows of a block of a dynamic number of columns, for which values are kept, that all have room in the panel if their
columns are few."""

ROW_STRIDE, PANELS = Var("row_stride"), Var("panels")
"""Elements from a row of scores to the next, and panels of keys, of a dynamic number of columns."""


class AttentionTemplate:
    """Builds both nests of one problem; `panel` is the local buffer that row work reads and writes."""

    def __init__(
        self,
        problem: AttentionProblem,
        blocking: AttentionBlocking,
        target: Target,
        sharing: Sharing,
    ) -> None:
        self.problem, self.blocking, self.target, self.sharing = problem, blocking, target, sharing
        self.tiles, self.kernel = blocking.tiles, blocking.kernel
        self.sums = self.kernel.accumulator
        self.panel_columns = self.tiles[0].columns(target, self.sums)
        self.is_dynamic = not is_known(problem.rows, problem.columns)
        self.block, columns = blocking.rows, blocking.columns
        self.row_stride: int | Expr = columns
        if self.is_dynamic:
            columns = -(-columns // self.panel_columns) * self.panel_columns
            self.block = min(bounds(problem.rows)[1], max(blocking.rows, MAX_ROWS))
            self.row_stride = ROW_STRIDE
        self.panel = Buffer("panel", self.sums, (blocking.rows * columns,), "local")
        self.locals = {"panel": self.panel}
        self.batch_vars = tuple(Var(f"b{axis}") for axis in range(len(problem.batch)))

    def of_rows(self, name: str, dtype: DType, elements: int = 1) -> Buffer:
        """Return the local of this name, of `elements` for each row of a block."""
        return self.locals.setdefault(name, Buffer(name, dtype, (self.block * elements,), "local"))

    @property
    def divisors(self) -> Buffer:
        """Return the local that row work leaves divisors of rows in."""
        return self.of_rows("divisors", self.sums)

    def nest(
        self,
        scores: EpilogueValue | None,
        row_work: RowWork,
        result: EpilogueValue | None,
        divides: bool,
    ) -> Stmt:
        """The whole computation; `scores` and `result` are the epilogues of the two matmuls.

        With `divides`, `row_work` leaves each row's divisor in `divisors`, and the second matmul's rows are divided:
        the sum of (e / s) v is the sum of e v, divided by s once, in as many divisions as the row is wide.
        """
        first, second = self._scores(scores), self._result(self.problem.c, result)
        keys, values = first.head(self.batch_vars), second.head(self.batch_vars)

        def block(rows: RowBlock, of_scores: Iterable[Stmt]) -> list[Stmt]:
            last = second
            if divides:
                last = self._result(self.problem.c, self._divided(result, rows.first))
            at = rows.enter(values.position).staged("A", self.panel_as("k"))
            weighted = last.task(last.depth_of("m0"), at)
            return [*of_scores, *self._rows(rows, row_work), weighted]

        def with_scores(rows: RowBlock) -> list[Stmt]:
            at = rows.enter(keys.position).staged("C", self.panel_as("n"))
            if self.is_dynamic:
                return block(rows, first.whole_panels(at, self.panel_columns, t.ZERO, PANELS))
            return block(rows, [first.task(first.depth_of("m0"), at)])

        head = self._over_rows(with_scores, [*keys.before, *values.before])
        if self._reads_keys_in_place():
            alone = self._over_rows(lambda rows: block(rows, self._row_of_scores()), values.before)
            head = If(t.equal(t.as_expr(self.problem.rows), 1), alone, head)
        return self._over_heads(head)

    def online(self, scores: EpilogueValue | None, result: EpilogueValue | None) -> Stmt:
        """The whole computation with a softmax; `scores` is the epilogue of the first matmul, `result` that of the
        quotient."""
        p = self.problem
        state = [
            self.of_rows(name, self.sums, size)
            for name, size in (("result", p.width), ("maxima", 1), ("totals", 1))
        ]
        columns = self.blocking.columns
        first = self._scores(scores)
        second = self._result(View(state[0], {"m": p.width, "n": 1}), None)

        def block(rows: RowBlock) -> list[Stmt]:
            b = t.LoopBuilder()
            running = RunningSoftmax(b, p.width, *state)
            at = rows.enter(first.head(self.batch_vars).position)
            at, before, _ = first.entered(first.depth_of("m0"), at)
            b.emit(*first.allocated(), *before)
            sums = rows.enter(second.head(self.batch_vars).position)
            sums = sums.staged("C", second.nest.problem.c).reduced(False, False)
            running.start(rows.count)
            for column, count in b.tiles("cb", p.columns, columns):
                keys = at.enter("n", column, columns, count).staged("C", self.panel_as("n"))
                values = sums.enter("k", column, columns, count).staged("A", self.panel_as("k"))
                b.emit(first.task(first.depth_of("n0"), keys))
                with b.loop("pr", 0, rows.count) as row:
                    running.add(row, self.panel, row * columns, (0, count))
                b.emit(second.task(second.depth_of("k0"), values))
            running.finish(rows.count, partial(self._store, b, rows.first, result))
            return b.statements()

        return self._over_heads(self._over_rows(block))

    def _store(
        self, b: t.LoopBuilder, first: Expr, result: EpilogueValue | None, row: Expr, column: Expr, value: Expr
    ) -> None:  # fmt: skip
        """Store the epilogue of a value of row `first` + `row` of the result."""
        c, index = self.problem.c, (*self.batch_vars, first + row, column)
        at = c.of_batch(self.batch_vars, (first + row) * c.step("m") + column)
        store_result(b, at.buffer, at.base, index, value, result)

    def _over_heads(self, head: Stmt) -> Stmt:
        """Return the loops over heads, which threads share where that pays."""
        p = self.problem
        if not self.is_dynamic:
            return nested(self.batch_vars, p.batch, head, self._kind)
        b, heads = t.LoopBuilder(), t.as_expr(math.prod(p.batch))
        several = self.sharing.threads > 1 and worth_threads(bounds(p.work)[1], self.target)
        with shared_tasks(b, heads, self.sharing.pays(p.work) if several else None) as task:
            b.emit(*batch_indices(self.batch_vars, p.batch, task), head)
        return t.block_of(b.statements())

    @property
    def _kind(self) -> LoopKind:
        """The kind of loops over heads, and over blocks of rows that are tasks."""
        return "parallel" if worth_threads(self.problem.work, self.target) else "serial"

    def _over_rows(
        self, block: Callable[[RowBlock], Iterable[Stmt]], packed: Sequence[Stmt] = ()
    ) -> Stmt:
        """Return `block` for all rows of a head, after the statements that pack its keys and values."""
        b, task = t.LoopBuilder(), Var("mb")
        for rows in self._row_blocks(b, task):
            b.emit(*block(rows))
        body = Block((*packed, *map(Allocate, self.locals.values()), *b.statements()))
        if not self.blocking.splits_rows:
            return body
        blocks = t.as_expr(-(-self.problem.rows // self.block))
        return For(task, t.ZERO, blocks, body, self._kind)

    def _row_blocks(self, b: t.LoopBuilder, task: Var) -> Iterator[RowBlock]:
        """Blocks of about equal size where rows are dynamic; full blocks and the last one where they are not."""
        rows, step = self.problem.rows, self.block
        if self.is_dynamic:
            yield from self._even_blocks(b)
        elif self.blocking.splits_rows:
            for count in b.tile_sizes(task, rows, step):
                yield RowBlock(task if count == step else t.as_expr(rows // step), step, count)
        else:
            for number, count in b.tiles("mb", rows, step):
                yield RowBlock(number, step, count)

    def _even_blocks(self, b: t.LoopBuilder) -> Iterator[RowBlock]:
        """Blocks of equally many rows, whose scores fit the panel."""
        rows, width = t.as_expr(self.problem.rows), self.panel_columns
        b.emit(Let(PANELS, ceil_div(t.as_expr(self.problem.columns), width)))
        b.emit(Let(ROW_STRIDE, t.maximum(PANELS, 1) * width))
        most = t.minimum(t.as_expr(self.panel.elements) // ROW_STRIDE, self.block)
        blocks = b.let("blocks", ceil_div(rows, most))
        size = b.let("size", ceil_div(rows, t.maximum(blocks, 1)))
        with b.loop("mb", 0, blocks) as block:
            first = b.let("first", block * size)
            yield RowBlock(first, 1, b.let("count", t.minimum(size, rows - first)))

    def panel_as(self, columns: str) -> View:
        """Return the panel as result of the first matmul, with columns n, or left operand of the second, with k."""
        return View(self.panel, {"m": self.row_stride, columns: 1})

    def _scores(self, epilogue: EpilogueValue | None) -> HeadMatmul:
        """The first matmul, into the panel."""
        p = self.problem
        sizes, views = (p.rows, p.columns, p.depth), (p.a, p.b, self.panel_as("n"))
        problem = matmul(p.batch, sizes, views, self.kernel, epilogue)
        return self._matmul("scores", problem, ("n", "keys"), [(p.b, p.depth * p.columns)])

    def _result(self, c: View, epilogue: EpilogueValue | None) -> HeadMatmul:
        """The second matmul, of the panel, into `c`."""
        p = self.problem
        sizes, views = (p.rows, p.width, p.columns), (self.panel_as("k"), p.d, c)
        problem = matmul(p.batch, sizes, views, self.kernel, epilogue)
        ahead = [(p.d, p.columns * p.width), (p.a, p.rows * p.depth)]
        return self._matmul("result", problem, ("k", "values"), ahead)

    def _matmul(
        self,
        nest_name: str,
        problem: Contraction,
        packed: tuple[str, str],
        ahead: Sequence[tuple[View, int]],
    ) -> HeadMatmul:
        """One of both matmuls; `packed`: the axis of the scores' columns, and the name of B.

        B is packed for each head, or each block of columns, and A converted for each block of rows, where needed.
        """
        (axis, name), b, online = packed, problem.b, self.blocking.is_online
        tile = self.tiles[name == "values"]
        if (shape := self.kernel.registers) is not None:
            # One height for all blocks of rows, of which the last may be the lowest.
            rest = self.problem.rows % self.block or self.block
            tile = replace(tile, rows=min(register_rows(tile, shape), self.block, rest))
        steps: list[str] = []
        alone: tuple[Stage, ...] = ()
        in_place = self.is_dynamic and name == "values" and b.step("n") == 1
        if not b.blocks and not in_place:
            if online or problem.batch:
                steps.append(f"stage B at {f'{axis}0' if online else problem.batch[-1]} as {name}")
            else:  # one head: no loop is around
                alone = (Stage("B", "root", name),)
        if not is_read_in_place(problem.a, problem.sizes["k"], self.kernel):
            steps.append(f"stage A at {'k0' if online and axis == 'k' else 'm0'} as rows_of_{name}")
        cut = (axis, self.blocking.columns) if online else None
        nest = inner_nest(nest_name, problem, tile, self.target, self.block, stages=steps, cut=cut)
        nest = nest.changed(stages=(*nest.stages, *alone))
        return HeadMatmul(nest, self.target, ahead if self.blocking.prefetches else ())

    def _rows(self, rows: RowBlock, row_work: RowWork) -> list[Stmt]:
        var = Var("pr")
        start = var * self.row_stride
        index = (*self.batch_vars, rows.first + var)
        parts = row_work(index, lambda column: (start + column,), (var,))
        return [loop(var, rows.count, Block(tuple(part)), "serial") for part in parts]

    def _divided(self, result: EpilogueValue | None, row: Expr) -> EpilogueValue:
        def value(index: Index, acc: Expr) -> tuple[list[Let], Expr]:
            divisor: Expr = self.divisors[index[-2] - row]
            columns = self.problem.columns
            if not bounds(columns)[0]:  # nothing, divided by the sum of nothing, is 0
                is_none = t.equal(t.as_expr(columns), 0)
                divisor = t.select(is_none, t.const(1.0, self.sums), divisor)
            quotient = Var("quotient", self.sums)
            lets, final = result(index, quotient) if result else ([], quotient)
            return [Let(quotient, acc / divisor), *lets], final

        return value

    def _reads_keys_in_place(self) -> bool:
        """Return whether a dynamic number of rows may be one, whose scores are sums along each key."""
        p = self.problem
        is_dense = p.b.step("k") == 1 == p.a.step("k") and not p.b.blocks
        return self.is_dynamic and bounds(p.rows)[0] <= 1 and is_dense

    def _row_of_scores(self) -> list[Stmt]:
        """Scores of one row: a sum along each key."""
        p, b = self.problem, t.LoopBuilder()
        with b.loop("key", 0, t.as_expr(p.columns)) as key:
            total = b.allocate("score_sum", self.sums, (1,))
            b.store(total, (0,), 0.0)
            with b.loop("kd", 0, t.as_expr(p.depth), "vector") as k:
                query = p.a.of_batch(self.batch_vars, k)
                other = p.b.of_batch(self.batch_vars, key * p.b.step("n") + k)
                term = query.buffer[query.base] * other.buffer[other.base]
                b.store(total, (0,), total[0] + term)
            b.store(self.panel, (key,), total[0])
        return b.statements()
