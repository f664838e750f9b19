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
from typing import Any

from ...base.dims import Size, bounds
from ...base.dtypes import DType
from ...base.records import dataclass
from ...targets.isa import GemmTile, Target
from ...targets.microkernels import register_rows, rows_for
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Allocate,
    Block,
    Buffer,
    Expr,
    For,
    If,
    Let,
    LoopKind,
    PrefetchHint,
    Stmt,
    Var,
)
from ..ir.computation import Index
from ..nest.epilogue import EpilogueValue, shifted
from ..nest.packing import left_rows, pack, panel_elements
from ..nest.problem import View
from ..nest.register_tile import RegisterTile
from ..nest.row_tiles import TileHeight
from ..nest.tasks import nested
from ..schedule.attention import AttentionBlocking
from ..schedule.gemm import worth_threads

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
    """Builds the loop nest of one problem; `panel` is the local buffer that `row_work` reads and writes."""

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

    def _panel_sizes(self) -> tuple[int, int | Expr, int]:
        """(rows of a block at most, elements from a row of scores to the next, elements of the panel)."""
        rows, columns = self.blocking.rows, self.problem.columns
        return rows, columns, rows * columns

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
        p = self.problem
        right: list[Stmt] = []
        b = self._packed(p.b, p.depth, p.columns, self.tiles[0], "keys", right)
        d = self._packed(p.d, p.columns, p.width, self.tiles[1], "values", right)

        def block(row: Expr, rows: int) -> list[Stmt]:
            return [
                *self._scores(row, rows, b, scores),
                *self._rows(row, rows, row_work),
                *self._result(row, rows, d, self._divided(result, row) if divides else result),
            ]

        full, rest = divmod(p.rows, self.block)
        var = Var("mb")
        whole = block(var * self.block, self.block) if full else []
        last = block(t.as_expr(full * self.block), rest) if rest else []
        locals_ = [Allocate(x) for x in (self.panel, self.divisors, *self.per_row.values())]
        work = math.prod(p.batch) * p.rows * p.columns * (p.depth + p.width)
        kind: LoopKind = "parallel" if worth_threads(work, self.target) else "serial"
        if self.blocking.splits_rows:
            body = Block((*right, *locals_, *_one_of(var, full, whole, last)))
            inner: Stmt = For(var, t.as_expr(0), t.as_expr(full + bool(rest)), body, kind)
        else:
            loops = [For(var, t.as_expr(0), t.as_expr(full), Block(tuple(whole)))] if full else []
            inner = Block((*right, *locals_, *loops, *last))
        return nested(self.batch_vars, p.batch, inner, kind)

    def _packed(
        self, operand: View, k: int, n: int, tile: GemmTile, name: str, body: list[Stmt]
    ) -> View:
        """The operand of this head in panels: itself, or a local copy made by statements added to `body`."""
        source = operand.of_batch(self.batch_vars)
        if operand.blocks:
            return source
        columns = tile.columns(self.target, self.sums)
        size = panel_elements(k, columns, self.kernel)
        local = Buffer(name, self.kernel.copied_b, (math.ceil(n / columns) * size,), "local")
        copy = pack(source, local, k, n, columns, self.kernel, self.target)
        body += [Allocate(local), *copy]
        return View(local, {"k": columns, "n": 1}, {"n": (columns, size)})

    def _scores(self, row: Expr, rows: int, b: View, epilogue: EpilogueValue | None) -> list[Stmt]:
        p = self.problem
        queries = p.a.of_batch(self.batch_vars, row * p.a.step("m"))
        a, before = left_rows(queries, rows, p.depth, self.kernel, self.target)

        def matmul(panel: Expr, column: Expr, n: int) -> Stmt:
            c = View(self.panel, {"m": p.columns}, base=column)
            tile = self._tile(a, b.panel(panel), c, rows, n, p.depth, self.tiles[0])
            keys = (p.b, p.depth * p.columns)
            hints = self._prefetch_hints(row, panel, p.columns, b.block_of_columns, keys)
            return tile.changed(
                epilogue=self._shifted(epilogue, row, column), prefetch=hints
            ).statement()

        return scoped(before, over_panels(p.columns, b.block_of_columns, matmul))

    def _result(self, row: Expr, rows: int, d: View, epilogue: EpilogueValue | None) -> list[Stmt]:
        p = self.problem
        weights = View(self.panel, {"m": p.columns, "k": 1})
        a, before = left_rows(weights, rows, p.columns, self.kernel, self.target)

        def matmul(panel: Expr, column: Expr, n: int) -> Stmt:
            c = p.c.of_batch(self.batch_vars, row * p.c.step("m") + column)
            tile = self._tile(a, d.panel(panel), c, rows, n, p.columns, self.tiles[1])
            next_head = (p.d, p.columns * p.width), (p.a, p.rows * p.depth)
            hints = self._prefetch_hints(row, panel, p.width, d.block_of_columns, *next_head)
            return tile.changed(
                epilogue=self._shifted(epilogue, row, column), prefetch=hints
            ).statement()

        return scoped(before, over_panels(p.width, d.block_of_columns, matmul))

    def _tile(
        self, a: View, b: View, c: View, m: int | Expr, n: int, k: Size, tile: GemmTile
    ) -> RegisterTile:
        shape = self.kernel.registers
        if shape is None:
            height = min(self.block, rows_for(n, tile, self.target, self.kernel))
        else:  # one height for all blocks of rows, of which the last may be the lowest
            height = min(
                register_rows(tile, shape), self.block, self.problem.rows % self.block or self.block
            )
        return RegisterTile(a, b, c, m, n, k, self.kernel, TileHeight(height))

    def _prefetch_hints(
        self, row: Expr, panel: Expr, columns: int, width: int, *matrices: tuple[View, int]
    ) -> tuple[PrefetchHint, ...]:
        """Prefetch hints for the next head's matrices, distributed evenly over the matmuls of this one.

        Heads are contiguous in memory, but hardware prefetchers do not run from one into the next: without hints every
        head starts by waiting for memory.
        """
        p = self.problem
        if not self.blocking.prefetches:
            return ()
        panels = -(-columns // width)
        parts = math.ceil(p.rows / self.block) * panels
        # Row blocks and panels number the matmuls: row is a multiple of the block, so this is the number times block.
        hints = []
        for matrix, elements in matrices:
            stride = matrix.step(f"b{len(p.batch) - 1}")
            if not stride:
                continue
            part = -(-elements // (parts * self.block)) * self.block
            number = row * panels + panel * self.block
            begin = number * (part // self.block) + stride
            hints.append(PrefetchHint(matrix.of_batch(self.batch_vars, begin).address(), part))
        return tuple(hints)

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

    def _shifted(
        self, value: EpilogueValue | None, row: Expr, column: Expr
    ) -> EpilogueValue | None:
        """The epilogue of a tile that begins at a row and column of the matmul."""
        return value and shifted(value, self.batch_vars, row, column)


def _one_of(number: Var, full: int, whole: list[Stmt], last: list[Stmt]) -> list[Stmt]:
    """The statements of a whole block where its number is below `full`, else those of the last one."""
    if not whole or not last:
        return whole or last
    is_whole = number < t.as_expr(full)
    return [If(is_whole, Block(tuple(whole)), Block(tuple(last)))]


def scoped(before: list[Stmt], matmuls: list[Stmt]) -> list[Stmt]:
    """Return matmuls after the copy of their left operand, whose scope they are; the matmuls alone if there is
    no copy."""
    return [Block((*before, *matmuls))] if before else matmuls


def over_panels(n: int, columns: int, matmul: Callable[[Expr, Expr, int], Stmt]) -> list[Stmt]:
    """Return one matmul per panel of `columns`, the last one narrower."""
    full, rest = divmod(n, columns)
    var = Var("nb")
    body: list[Stmt] = []
    if full:
        loop = matmul(var, var * columns, columns)
        body.append(For(var, t.as_expr(0), t.as_expr(full), loop))
    if rest:
        body.append(matmul(t.as_expr(full), t.as_expr(full * columns), rest))
    return body
