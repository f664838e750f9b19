"""Attention over long sequences: online softmax over blocks of columns.

    for each batch, head and block of rows (parallel):
      result = 0, maximum = -inf, total = 0                              per row
      for each block of columns:
        pack the block of both right-hand sides
        panel = epilogue(A x B block)
        for each row: the new maximum; result and total are scaled by exp(old maximum - new maximum)
        for each row: panel = exp(panel - maximum), total += sum(panel)
        result += panel x D block
      C = epilogue(result / total)

Keys and values of any length are processed in blocks that stay in cache; no rows x columns matrix is ever in memory.
Results differ from a softmax of whole rows by the rounding of the rescaling. After Milakov and Gimelshein, Online
normalizer calculation for softmax (arXiv 1805.02867), and Dao et al., FlashAttention (arXiv 2205.14135).
"""

from __future__ import annotations

import math

from ...targets.isa import Target
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Allocate,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    Let,
    Load,
    Stmt,
    Store,
    Var,
)
from ..nest.epilogue import EpilogueValue
from ..nest.nest import Loop, Stage
from ..nest.packing import is_read_in_place, loop
from ..nest.problem import Contraction, View, matmul
from ..schedule.attention_blocking import AttentionBlocking
from ..schedule.matmul_steps import inner_nest
from .attention import AttentionProblem, AttentionTemplate
from .attention_matmul import HeadMatmul


class OnlineAttention(AttentionTemplate):
    """Builds the loop nest of one problem whose row work is a softmax over plain, unpacked right-hand sides."""

    def __init__(
        self, problem: AttentionProblem, blocking: AttentionBlocking, target: Target
    ) -> None:
        super().__init__(problem, blocking, target)
        self.columns = blocking.columns
        self.lowest, self.zero = Const(-math.inf, self.sums), Const(0.0, self.sums)
        sizes = {"result": problem.width, "maxima": 1, "totals": 1}
        self.result, self.maxima, self.totals = (
            Buffer(name, self.sums, (self.block * size,), "local") for name, size in sizes.items()
        )

    def _panel_sizes(self) -> tuple[int, int | Expr, int]:
        rows, columns = self.blocking.rows, self.blocking.columns
        return rows, columns, rows * columns

    @property
    def locals(self) -> tuple[Buffer, ...]:
        """Return the local buffers of a block of rows."""
        return self.panel, self.result, self.maxima, self.totals

    def online(self, scores: EpilogueValue | None, result: EpilogueValue | None) -> Stmt:
        """The whole computation; `scores` is the epilogue of the first matmul, `result` that of the quotient."""
        p, sums = self.problem, View(self.result, {"m": self.problem.width, "n": 1})
        sizes, views = (p.rows, p.columns, p.depth), (p.a, p.b, self.panel_as("n"))
        problem = matmul(p.batch, sizes, views, self.kernel, scores)
        first = self._in_blocks("scores", problem, "n", "keys")
        sizes, views = (p.rows, p.width, p.columns), (self.panel_as("k"), p.d, sums)
        problem = matmul(p.batch, sizes, views, self.kernel, None)
        second = self._in_blocks("result", problem, "k", "values")
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
        p, width = self.problem, self.columns
        of_rows = first.head(self.batch_vars).position.enter("m", number, self.block, rows)
        of_rows, before, _ = first.entered(first.depth_of("m0"), of_rows)
        before = [*first.allocated(), *before]
        sums = second.head(self.batch_vars).position.enter("m", number, self.block, rows)
        sums = sums.staged("C", second.nest.problem.c).reduced(False, False)

        def block(column: Expr, columns: int) -> list[Stmt]:
            """A block of scores, and its contribution to the result."""
            scores = of_rows.enter("n", column, width, columns).staged("C", self.panel_as("n"))
            terms = sums.enter("k", column, width, columns).staged("A", self.panel_as("k"))
            return [
                first.task(first.depth_of("block"), scores),
                self._rescale(rows, columns),
                self._exponentials(rows, columns),
                second.task(second.depth_of("block"), terms),
            ]

        full, rest = divmod(p.columns, width)
        column = Var("cb")
        return [
            *before,
            self._fill(self.maxima, rows, self.lowest),
            self._fill(self.totals, rows, self.zero),
            self._fill(self.result, rows * p.width, self.zero),
            loop(column, full, Block(tuple(block(column, width))), "serial"),
            *(block(t.as_expr(full), rest) if rest else []),
            self._finish(number * self.block, rows, result),
        ]

    def _rescale(self, rows: int, columns: int) -> For:
        """Update each row's maximum, and rescale partial sums to the new maximum.

        Rows masked so far have the maximum -inf, which cannot be subtracted: 0 is used instead, so all their
        exponentials are 0.
        """
        row, c, j = Var("pr"), Var("mc"), Var("rj")
        biggest, old, new, factor = (Var(x, self.sums) for x in ("biggest", "old", "new", "factor"))
        acc = Buffer("block_maximum", self.sums, (1,), "local")
        here, start = (t.as_expr(0),), row * self.problem.width
        score = Load(self.panel, (row * self.columns + c,))
        summed = (start + j,)
        scaled = Store(self.result, summed, Load(self.result, summed) * factor)
        body = (
            Allocate(acc),
            Store(acc, here, self.lowest),
            loop(c, columns, Store(acc, here, t.larger(Load(acc, here), score)), "vector"),
            Let(biggest, Load(acc, here)),
            Let(old, Load(self.maxima, (row,))),
            Let(new, t.larger(old, biggest)),
            Let(factor, t.exp_weight(old - _finite(new))),
            Store(self.maxima, (row,), new),
            Store(self.totals, (row,), Load(self.totals, (row,)) * factor),
            loop(j, self.problem.width, scaled, "vector"),
        )
        return loop(row, rows, Block(body), "serial")

    def _exponentials(self, rows: int, columns: int) -> For:
        """Replace scores by exponentials relative to their row's maximum, and add them to its total."""
        row, c = Var("pr"), Var("ec")
        maximum, power = Var("maximum", self.sums), Var("power", self.sums)
        acc = Buffer("block_total", self.sums, (1,), "local")
        here = (t.as_expr(0),)
        position = (row * self.columns + c,)
        one = Block(
            (
                Let(power, t.exp_weight(Load(self.panel, position) - maximum)),
                Store(self.panel, position, power),
                Store(acc, here, Load(acc, here) + power),
            )
        )
        total = Load(self.totals, (row,)) + Load(acc, here)
        body = (
            Allocate(acc),
            Store(acc, here, self.zero),
            Let(maximum, _finite(Load(self.maxima, (row,)))),
            loop(c, columns, one, "vector"),
            Store(self.totals, (row,), total),
        )
        return loop(row, rows, Block(body), "serial")

    def _finish(self, row: Expr, rows: int, result: EpilogueValue | None) -> For:
        """The quotients, through the epilogue, to memory."""
        p = self.problem
        inner, j = Var("pr"), Var("rj")
        total, quotient = Var("total", self.sums), Var("quotient", self.sums)
        summed = Load(self.result, (inner * p.width + j,))
        index = (*self.batch_vars, row + inner, j)
        lets, value = result(index, quotient) if result else ([], quotient)
        position = p.c.of_batch(self.batch_vars, (row + inner) * p.c.step("m") + j).base
        one = Block((Let(quotient, summed / total), *lets, Store(p.c.buffer, (position,), value)))
        body = (Let(total, Load(self.totals, (inner,))), loop(j, p.width, one, "vector"))
        return loop(inner, rows, Block(body), "serial")

    @staticmethod
    def _fill(buffer: Buffer, elements: int, value: Expr) -> For:
        var = Var("fi")
        return loop(var, elements, Store(buffer, (var,), value), "vector")


def _finite(maximum: Expr) -> Expr:
    """The value subtracted from a row's scores."""
    lowest, zero = Const(-math.inf, maximum.dtype), Const(0.0, maximum.dtype)
    return t.select(t.equal(maximum, lowest), zero, maximum)
