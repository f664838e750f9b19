"""Two matmuls with row operations between them in one loop nest: attention without a score matrix in memory.

    for each batch and head (parallel):
      pack the right-hand sides of both matmuls into local panels (unless they already are)
      for each block of rows:
        panel = epilogue(A x B)                    scores, scaled and masked in registers
        for each row of the panel: row work        softmax, in place
        C = epilogue(panel x D) written with the output's strides

The panel (rows x columns of the first matmul) stays in cache, which it shares with the packed keys and values: the
schedule cuts rows accordingly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ...base.dims import bounds
from ...base.dtypes import DType
from ...base.records import dataclass
from ...targets.isa import Target
from ...targets.microkernels import register_rows
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Allocate,
    Block,
    Buffer,
    Expr,
    For,
    Let,
    LoopKind,
    Stmt,
    Var,
)
from ..ir.computation import Index
from ..nest.epilogue import EpilogueValue
from ..nest.nest import Stage
from ..nest.packing import is_read_in_place
from ..nest.problem import Contraction, View, matmul
from ..nest.tasks import nested
from ..schedule.attention_blocking import AttentionBlocking
from ..schedule.gemm import worth_threads
from ..schedule.matmul_steps import inner_nest
from .attention_matmul import HeadMatmul

RowWork = Callable[[Index, Callable[[Expr], Index], Index], Sequence[Sequence[Stmt]]]
"""(plain index of the row, column -> index into the panel, index into the divisors) -> statements that rewrite the row
in place, and store its divisor if rows are divided after the second matmul: parts, each run for all rows at once."""


@dataclass(frozen=True)
class AttentionProblem:
    """Sizes: C[rows, width] = work(A[rows, depth] x B[depth, columns]) x D[columns, width], per batch index.

    The batch, rows and columns may be expressions of sizes that are known at run time (`dynamic_attention`).
    """

    batch: tuple[Any, ...]
    rows: Any
    columns: Any
    depth: int
    width: int
    a: View
    b: View
    d: View
    c: View


class AttentionTemplate:
    """Builds both nests of one problem; `panel` is the local buffer that `row_work` reads and writes."""

    def __init__(
        self, problem: AttentionProblem, blocking: AttentionBlocking, target: Target
    ) -> None:
        self.problem = p = problem
        self.target = target
        self.tiles, self.blocking, self.kernel = blocking.tiles, blocking, blocking.kernel
        self.sums = self.kernel.accumulator
        self.block, self.row_stride, elements = self._panel_sizes()
        self.panel = Buffer("panel", self.sums, (elements,), "local")
        self.batch_vars = tuple(Var(f"b{axis}") for axis in range(len(p.batch)))
        self.divisors = Buffer("divisors", self.sums, (self.block,), "local")
        self.per_row: dict[int, Buffer] = {}

    reads_values_in_place = False
    """Rows of values that are contiguous are not packed."""

    def _panel_sizes(self) -> tuple[int, int | Expr, int]:
        """(rows of a block at most, elements from a row of scores to the next, elements of the panel)."""
        rows, columns = self.blocking.rows, self.problem.columns
        return rows, columns, rows * columns

    @property
    def locals(self) -> tuple[Buffer, ...]:
        """Return the local buffers of a head."""
        return self.panel, self.divisors, *self.per_row.values()

    def row_values(self, number: int, dtype: DType) -> Buffer:
        """A local of one element per row of the panel, the same for the same number."""
        local = Buffer(f"row_values{number}", dtype, (self.block,), "local")
        return self.per_row.setdefault(number, local)

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
        first, second = self._scores(scores), self._result(result)
        keys, values = first.head(self.batch_vars), second.head(self.batch_vars)

        def block(number: Expr, rows: int) -> list[Stmt]:
            row = number * self.block
            last = self._result(self._divided(result, row)) if divides else second
            return [
                first.block((number, self.block), rows, keys.position, self.panel_as("n")),
                *self._rows(row, rows, row_work),
                last.block((number, self.block), rows, values.position, self.panel_as("k")),
            ]

        return self.over_rows(block, [*keys.before, *values.before])

    def over_rows(
        self, block: Callable[[Expr, int], list[Stmt]], right: Sequence[Stmt] = ()
    ) -> Stmt:
        """Return `block` (its number, rows) for all rows of all heads, and before them what a head packs."""
        p, b, var = self.problem, t.LoopBuilder(), Var("mb")
        work = math.prod(p.batch) * p.rows * p.columns * (p.depth + p.width)
        kind: LoopKind = "parallel" if worth_threads(work, self.target) else "serial"
        if self.blocking.splits_rows:
            for rows in b.tile_sizes(var, p.rows, self.block):
                number = var if rows == self.block else t.as_expr(p.rows // self.block)
                b.emit(*block(number, rows))
        else:
            for number, rows in b.tiles("mb", p.rows, self.block):
                b.emit(*block(number, rows))
        inner: Stmt = Block((*right, *map(Allocate, self.locals), *b.statements()))
        if self.blocking.splits_rows:
            inner = For(var, t.ZERO, t.as_expr(-(-p.rows // self.block)), inner, kind)
        return nested(self.batch_vars, p.batch, inner, kind)

    def panel_as(self, columns: str) -> View:
        """Return the panel as result of the first matmul, with columns n, or left operand of the second, with k."""
        return View(self.panel, {"m": self.row_stride, columns: 1})

    def scores_problem(self, epilogue: EpilogueValue | None) -> Contraction:
        """Return the first matmul, into the panel."""
        p = self.problem
        sizes, views = (p.rows, p.columns, p.depth), (p.a, p.b, self.panel_as("n"))
        return matmul(p.batch, sizes, views, self.kernel, epilogue)

    def result_problem(self, c: View, epilogue: EpilogueValue | None) -> Contraction:
        """Return the second matmul, of the panel, into `c`."""
        p = self.problem
        sizes, views = (p.rows, p.width, p.columns), (self.panel_as("k"), p.d, c)
        return matmul(p.batch, sizes, views, self.kernel, epilogue)

    def _scores(self, epilogue: EpilogueValue | None) -> HeadMatmul:
        p = self.problem
        return self._matmul(self.scores_problem(epilogue), "keys", ((p.b, p.depth * p.columns),))

    def _result(self, epilogue: EpilogueValue | None) -> HeadMatmul:
        p = self.problem
        next_head = (p.d, p.columns * p.width), (p.a, p.rows * p.depth)
        return self._matmul(self.result_problem(p.c, epilogue), "values", next_head)

    def _matmul(
        self, problem: Contraction, name: str, ahead: Sequence[tuple[View, int]]
    ) -> HeadMatmul:
        """One of both matmuls: A is converted for each block of rows, and B packed for each head, where needed."""
        tile = self.tiles[name == "values"]
        if (shape := self.kernel.registers) is not None:
            # One height for all blocks of rows, of which the last may be the lowest.
            rest = self.problem.rows % self.block or self.block
            tile = replace(tile, rows=min(register_rows(tile, shape), self.block, rest))
        steps: list[str] = []
        alone: tuple[Stage, ...] = ()
        if not is_read_in_place(problem.a, problem.sizes["k"], self.kernel):
            steps.append(f"stage A at m0 as rows_of_{name}")
        in_place = self.reads_values_in_place and name == "values" and problem.b.step("n") == 1
        if not problem.b.blocks and not in_place:
            if problem.batch:
                steps.append(f"stage B at {problem.batch[-1]} as {name}")
            else:  # one head: no loop is around
                alone = (Stage("B", "root", name),)
        nest_name = "result" if name == "values" else "scores"
        nest = inner_nest(nest_name, problem, tile, self.target, self.block, stages=steps)
        nest = nest.changed(stages=(*nest.stages, *alone))
        return HeadMatmul(nest, self.target, ahead if self.blocking.prefetches else ())

    def _rows(self, row: Expr, rows: int | Expr, row_work: RowWork) -> list[Stmt]:
        var = Var("pr")
        start = var * self.row_stride
        index = (*self.batch_vars, row + var)
        parts = row_work(index, lambda column: (start + column,), (var,))
        return [For(var, t.as_expr(0), t.as_expr(rows), Block(tuple(part))) for part in parts]

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
