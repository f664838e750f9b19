"""Rows of several experts: runs of neighboring rows that have the same one, each a matmul with its matrix.

    for each chunk of panels (parallel):
      first = 0; while first < m:
        rows: those from `first` on whose expert is that of the first one
        panels of the chunk of the expert's matrix times these rows; rows of no expert are 0

Experts without rows take no time, and threads share the columns of every expert, however unequal runs are.
"""

from __future__ import annotations

from collections.abc import Callable

from ...base.dtypes import S64
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Stmt
from ..nest.epilogue import store_result
from ..nest.position import Chunk, Position
from ..nest.problem import Contraction


@dataclass(frozen=True)
class Run:
    """Neighboring rows of one expert, and the panels of its columns that a task multiplies them by."""

    first: Expr
    rows: Expr
    expert: Expr
    panels: Chunk


@dataclass(frozen=True)
class ExpertRows:
    """`problem` holds the rows of all experts, whose numbers are in `expert`; each has `panels` panels of columns, the
    last one narrower where they are not `full`."""

    problem: Contraction
    expert: Buffer
    experts: int
    full: int
    panels: int
    chunks: int

    def statements(self, multiply: Callable[[Run], Stmt]) -> list[Stmt]:
        """Return the loops over chunks and runs; `multiply` stores the results of a run."""
        b, share = t.LoopBuilder(), -(-self.panels // self.chunks)
        with b.loop("share", 0, self.chunks, "parallel" if self.chunks > 1 else "serial") as chunk:
            end = t.minimum((chunk + 1) * share, self.full)
            panels = Chunk(chunk * share, end, t.equal(chunk, self.chunks - 1))
            next_row = b.allocate("next_row", S64, (1,))
            b.store(next_row, (0,), 0)
            with b.repeat(next_row[0] < self.problem.sizes["m"]):
                run = self._run(b, next_row, panels)
                is_expert = (run.expert >= 0) & (run.expert < self.experts)
                with b.when(is_expert):
                    b.emit(multiply(run))
                with b.otherwise(), b.when(t.equal(chunk, 0)):
                    self._store_zeros(b, run)
        return b.statements()

    def _run(self, b: t.LoopBuilder, next_row: Buffer, panels: Chunk) -> Run:
        """Bind the run from `next_row` on, which becomes the row after it."""
        m = self.problem.sizes["m"]
        first = b.let("first_row", next_row[0])
        expert = b.let("row_expert", self.expert[first])
        b.store(next_row, (0,), first + 1)
        following = self.expert[t.minimum(next_row[0], t.as_expr(m) - 1)]
        with b.repeat((next_row[0] < m) & t.equal(following, expert)):
            b.store(next_row, (0,), next_row[0] + 1)
        return Run(first, b.let("run_rows", next_row[0] - first), expert, panels)

    def _store_zeros(self, b: t.LoopBuilder, run: Run) -> None:
        here, zero = Position.outermost(self.problem), t.const(0, self.problem.kernel.accumulator)
        with (
            b.loop("row", run.first, run.first + run.rows) as row,
            b.loop("col", 0, here.extents["n"]) as col,
        ):
            at = here.enter("m", row, 1, 1).enter("n", col, 1, 1)
            result, index = self.problem.c.buffer, (row, col)
            store_result(b, result, at.offset("C"), index, zero, self.problem.epilogue)
