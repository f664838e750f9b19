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

from ...targets.isa import GemmTile, Target
from ...targets.microkernels import rows_for
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Allocate,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    Function,
    If,
    Let,
    Load,
    LoopKind,
    Stmt,
    Store,
    Var,
)
from ..nest.epilogue import EpilogueValue, shifted
from ..nest.packing import left_rows, pack, panel_elements
from ..nest.problem import View
from ..nest.register_tile import RegisterTile
from ..nest.row_tiles import TileHeight
from ..nest.tasks import nested
from ..schedule.attention import AttentionBlocking
from ..schedule.gemm import worth_threads
from .attention import AttentionProblem, over_panels, scoped


class OnlineAttention:
    """Builds the loop nest of one problem whose row work is a softmax over plain, unpacked right-hand sides."""

    def __init__(
        self, problem: AttentionProblem, blocking: AttentionBlocking, target: Target
    ) -> None:
        self.problem = p = problem
        self.target = target
        self.block, self.columns, self.tiles = blocking.rows, blocking.columns, blocking.tiles
        self.splits_rows = blocking.splits_rows
        self.kernel, self.sums = blocking.kernel, blocking.kernel.accumulator
        self.lowest, self.zero = Const(-math.inf, self.sums), Const(0.0, self.sums)
        self.batch_vars = tuple(Var(f"b{axis}") for axis in range(len(p.batch)))
        self.panel = self._local("panel", self.block * self.columns)
        self.result = self._local("result", self.block * p.width)
        self.maxima = self._local("maxima", self.block)
        self.totals = self._local("totals", self.block)
        self.keys = self._panels_of("keys", p.depth, self.columns, self.tiles[0])
        self.values = self._panels_of("values", self.columns, p.width, self.tiles[1])

    def function(
        self,
        name: str,
        params: tuple[Buffer, ...],
        note: str,
        scores: EpilogueValue | None,
        result: EpilogueValue | None,
    ) -> Function:
        """The whole computation; `scores` is the epilogue of the first matmul, `result` that of the quotient."""
        p = self.problem
        full, rest = divmod(p.rows, self.block)
        row = Var("mb")
        body: Stmt = self._row_block(row * self.block, self.block, scores, result)
        if rest:
            tail = self._row_block(t.as_expr(full * self.block), rest, scores, result)
            body = If(row < t.as_expr(full), body, tail)
        work = math.prod(p.batch) * p.rows * p.columns * (p.depth + p.width)
        kind: LoopKind = "parallel" if worth_threads(work, self.target) else "serial"
        inner: LoopKind = kind if self.splits_rows else "serial"
        nest = For(row, t.as_expr(0), t.as_expr(full + bool(rest)), body, inner)
        return Function(name, params, Block((nested(self.batch_vars, p.batch, nest, kind),)), note)

    def _row_block(
        self, row: Expr, rows: int, scores: EpilogueValue | None, result: EpilogueValue | None
    ) -> Block:
        p = self.problem
        full, rest = divmod(p.columns, self.columns)
        column = Var("cb")
        at = p.a.of_batch(self.batch_vars, row * p.a.step("m"))
        queries, before = left_rows(at, rows, p.depth, self.kernel, self.target)
        inner = self._column_block(row, rows, column * self.columns, self.columns, queries, scores)
        body = [For(column, t.as_expr(0), t.as_expr(full), Block(tuple(inner)))]
        tail = t.as_expr(full * self.columns)
        last = self._column_block(row, rows, tail, rest, queries, scores) if rest else []
        locals_ = (self.panel, self.result, self.maxima, self.totals, self.keys, self.values)
        start = [
            self._fill(self.maxima, rows, self.lowest),
            self._fill(self.totals, rows, self.zero),
        ]
        start.append(self._fill(self.result, rows * self.problem.width, self.zero))
        end = self._finish(row, rows, result)
        return Block((*map(Allocate, locals_), *before, *start, *body, *last, end))

    def _column_block(
        self, row: Expr, rows: int, column: Expr, columns: int, queries: View, scores: EpilogueValue | None,
    ) -> list[Stmt]:  # fmt: skip
        """A block of scores, and its contribution to the result."""
        p = self.problem
        keys = p.b.of_batch(self.batch_vars, column * p.b.step("n"))
        values = p.d.of_batch(self.batch_vars, column * p.d.step("k"))
        key_width, value_width = (tile.columns(self.target, self.sums) for tile in self.tiles)
        panel_rows = View(self.panel, {"m": self.columns, "k": 1})
        weights, before = left_rows(panel_rows, rows, columns, self.kernel, self.target)

        def score(panel: Expr, first: Expr, n: int) -> Stmt:
            size = panel_elements(p.depth, key_width, self.kernel)
            b = View(self.keys, {"k": key_width}, {"n": (key_width, size)}, panel * size)
            c = View(self.panel, {"m": self.columns}, base=first)
            height = self._height(0, n)
            epilogue = scores and shifted(scores, self.batch_vars, row, column + first)
            return RegisterTile(
                queries, b, c, rows, n, p.depth, self.kernel, height, epilogue=epilogue
            ).statement()

        def add(panel: Expr, first: Expr, n: int) -> Stmt:
            size = panel_elements(columns, value_width, self.kernel)
            b = View(self.values, {"k": value_width}, {"n": (value_width, size)}, panel * size)
            c, height = View(self.result, {"m": p.width}, base=first), self._height(1, n)
            return RegisterTile(
                weights, b, c, rows, n, columns, self.kernel, height, accumulate=True
            ).statement()

        kernel, target = self.kernel, self.target
        return [
            *pack(keys, self.keys, p.depth, columns, key_width, kernel, target),
            *over_panels(columns, key_width, score),
            self._rescale(rows, columns),
            self._exponentials(rows, columns),
            *pack(values, self.values, columns, p.width, value_width, kernel, target),
            *scoped(before, over_panels(p.width, value_width, add)),
        ]

    def _height(self, number: int, n: int) -> TileHeight:
        rows = rows_for(n, self.tiles[number], self.target, self.kernel)
        return TileHeight(min(self.block, rows))

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
            _vector(c, columns, Store(acc, here, t.larger(Load(acc, here), score))),
            Let(biggest, Load(acc, here)),
            Let(old, Load(self.maxima, (row,))),
            Let(new, t.larger(old, biggest)),
            Let(factor, t.exp_nonpositive(old - _finite(new))),
            Store(self.maxima, (row,), new),
            Store(self.totals, (row,), Load(self.totals, (row,)) * factor),
            _vector(j, self.problem.width, scaled),
        )
        return _over(row, rows, body)

    def _exponentials(self, rows: int, columns: int) -> For:
        """Replace scores by exponentials relative to their row's maximum, and add them to its total."""
        row, c = Var("pr"), Var("ec")
        maximum, power = Var("maximum", self.sums), Var("power", self.sums)
        acc = Buffer("block_total", self.sums, (1,), "local")
        here = (t.as_expr(0),)
        position = (row * self.columns + c,)
        one = Block(
            (
                Let(power, t.exp_nonpositive(Load(self.panel, position) - maximum)),
                Store(self.panel, position, power),
                Store(acc, here, Load(acc, here) + power),
            )
        )
        total = Load(self.totals, (row,)) + Load(acc, here)
        body = (
            Allocate(acc),
            Store(acc, here, self.zero),
            Let(maximum, _finite(Load(self.maxima, (row,)))),
            _vector(c, columns, one),
            Store(self.totals, (row,), total),
        )
        return _over(row, rows, body)

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
        body = (Let(total, Load(self.totals, (inner,))), _vector(j, p.width, one))
        return _over(inner, rows, body)

    def _panels_of(self, name: str, k: int, n: int, tile: GemmTile) -> Buffer:
        columns = tile.columns(self.target, self.sums)
        elements = math.ceil(n / columns) * panel_elements(k, columns, self.kernel)
        return Buffer(name, self.kernel.copied_b, (elements,), "local")

    def _local(self, name: str, elements: int) -> Buffer:
        return Buffer(name, self.sums, (elements,), "local")

    @staticmethod
    def _fill(buffer: Buffer, elements: int, value: Expr) -> For:
        var = Var("fi")
        return _vector(var, elements, Store(buffer, (var,), value))


def _finite(maximum: Expr) -> Expr:
    """The value subtracted from a row's scores."""
    lowest, zero = Const(-math.inf, maximum.dtype), Const(0.0, maximum.dtype)
    return t.select(t.equal(maximum, lowest), zero, maximum)


def _vector(var: Var, size: int, body: Stmt) -> For:
    return For(var, t.as_expr(0), t.as_expr(size), body, "vector")


def _over(row: Var, rows: int, body: tuple[Stmt, ...]) -> For:
    return For(row, t.as_expr(0), t.as_expr(rows), Block(body))
