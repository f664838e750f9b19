"""Attention over long sequences: online softmax over blocks of columns.

    for each batch, head and block of rows (parallel):
      start                                                               `running_softmax`
      for each block of columns:
        pack the block of both right-hand sides
        panel = epilogue(A x B block)
        for each row: panel = exp(panel - new maximum); result is rescaled to it
        result += panel x D block
      C = epilogue(result / total)

Keys and values of any length are processed in blocks that stay in cache; no rows x columns matrix is ever in memory.
"""

from __future__ import annotations

from ...targets.isa import Target
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Stmt
from ..nest.epilogue import EpilogueValue, store_result
from ..nest.nest import Loop, Stage
from ..nest.packing import is_read_in_place
from ..nest.problem import Contraction, View
from ..schedule.attention_blocking import AttentionBlocking
from ..schedule.matmul_steps import inner_nest
from .attention import AttentionProblem, AttentionTemplate
from .attention_matmul import HeadMatmul
from .running_softmax import RunningSoftmax


class OnlineAttention(AttentionTemplate):
    """Builds the loop nest of one problem whose row work is a softmax over plain, unpacked right-hand sides."""

    def __init__(
        self, problem: AttentionProblem, blocking: AttentionBlocking, target: Target
    ) -> None:
        super().__init__(problem, blocking, target)
        self.columns = blocking.columns
        sizes = {"result": problem.width, "maxima": 1, "totals": 1}
        self.of_rows = [
            Buffer(name, self.sums, (self.block * size,), "local") for name, size in sizes.items()
        ]

    def _panel_sizes(self) -> tuple[int, int | Expr, int]:
        rows, columns = self.blocking.rows, self.blocking.columns
        return rows, columns, rows * columns

    @property
    def locals(self) -> tuple[Buffer, ...]:
        """Return the local buffers of a block of rows."""
        return self.panel, *self.of_rows

    def online(self, scores: EpilogueValue | None, result: EpilogueValue | None) -> Stmt:
        """The whole computation; `scores` is the epilogue of the first matmul, `result` that of the quotient."""
        sums = View(self.of_rows[0], {"m": self.problem.width, "n": 1})
        first = self._in_blocks("scores", self.scores_problem(scores), "n", "keys")
        second = self._in_blocks("result", self.result_problem(sums, None), "k", "values")
        return self.over_rows(lambda number, rows: self._block(number, rows, first, second, result))

    def _in_blocks(self, nest_name: str, problem: Contraction, axis: str, name: str) -> HeadMatmul:
        """A matmul with one more loop, over blocks of the scores' columns, in which B is packed."""
        tile = self.tiles[axis == "k"]
        nest = inner_nest(nest_name, problem, tile, self.target, self.block)
        if nest.tile is None:
            return HeadMatmul(nest, self.target)
        at = nest.depth("m0")
        loops = *nest.loops[:at], Loop("block", axis, self.columns), *nest.loops[at:]
        stages = [Stage("B", "block", name)]
        if not is_read_in_place(problem.a, problem.sizes["k"], self.kernel):
            stages.append(Stage("A", "m0" if axis == "n" else "block", f"rows_of_{name}"))
        return HeadMatmul(nest.changed(loops=loops, stages=tuple(stages)), self.target)

    def _block(
        self,
        number: Expr,
        rows: int,
        first: HeadMatmul,
        second: HeadMatmul,
        result: EpilogueValue | None,
    ) -> list[Stmt]:
        """A block of rows, one block of its columns after the other."""
        b, width = t.LoopBuilder(), self.columns
        running = RunningSoftmax(b, self.problem.width, *self.of_rows)
        of_rows = first.head(self.batch_vars).position.enter("m", number, self.block, rows)
        of_rows, before, _ = first.entered(first.depth_of("m0"), of_rows)
        b.emit(*first.allocated(), *before)
        sums = second.head(self.batch_vars).position.enter("m", number, self.block, rows)
        sums = sums.staged("C", second.nest.problem.c).reduced(False, False)

        running.start(rows)
        for column, columns in b.tiles("cb", self.problem.columns, width):
            scores = of_rows.enter("n", column, width, columns).staged("C", self.panel_as("n"))
            terms = sums.enter("k", column, width, columns).staged("A", self.panel_as("k"))
            b.emit(first.task(first.depth_of("block"), scores))
            with b.loop("pr", 0, rows) as row:
                running.add(row, self.panel, row * width, (0, columns))
            b.emit(second.task(second.depth_of("block"), terms))
        self._finish(running, number * self.block, rows, result)
        return b.statements()

    def _finish(
        self, running: RunningSoftmax, first: Expr, rows: int, result: EpilogueValue | None
    ) -> None:
        """The quotients, through the epilogue, to memory."""
        b, c = running.b, self.problem.c
        with b.loop("pr", 0, rows) as row:
            total = b.let("total", running.totals[row])
            with b.loop("rj", 0, running.width, "vector") as j:
                quotient = b.let("quotient", running.result[row * running.width + j] / total)
                index = (*self.batch_vars, first + row, j)
                at = c.of_batch(self.batch_vars, (first + row) * c.step("m") + j)
                store_result(b, at.buffer, at.base, index, quotient, result)
