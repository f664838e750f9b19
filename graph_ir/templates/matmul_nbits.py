"""Loop nest of a product whose weights stay packed: unpacked in registers for few rows, into panels for many.

    registers   for each panel: for each group of k: sums of X * Q, then acc += (sums - zero * sum of X) * scale
    panel       for each panel, block of k: a local panel of (Q - zero) * scale, then one Brgemm for all rows
    bytes       for each panel: a local panel of Q, then as in registers

In registers each word of weights is read once, so that few rows take as long as memory takes to deliver it. Rows of
bytes are multiplied by dot products, and the sums of a group are exact; where one zero point serves all weights, they
begin at -zero * sum of X, so that nothing is subtracted from them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base.contraction import Microkernel
from ...base.dtypes import F32, S8, S32, U8, U32
from ...base.target import Target
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Allocate,
    Block,
    Broadcast,
    Buffer,
    Expr,
    For,
    Let,
    Load,
    Ramp,
    Slice,
    Stmt,
    Store,
    Var,
)
from ...tensor_ir.tiling import k_splits, split_rows
from ..schedule.matmul_tile import MatmulBlocking
from .matmul import EpilogueValue, MatmulProblem, MatmulTemplate, RowBlock
from .operand import offset_of
from .packed_weights import WORD, PackedWeights, WeightPanel
from .packing import loop

MOST_UNROLLED = 4
"""Words of a column that one iteration multiplies: enough to hide its counter."""


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
    ):
        super().__init__(problem, blocking, kernel, target, epilogue)
        self.weights = weights
        self.x_scale = x_scale
        self.unpack = unpack
        self.groups = problem.k // weights.group
        self.lanes = target.lanes(F32)
        self.has_starts = x_scale is not None and weights.has_one_zero
        one_pass = problem.m <= blocking.tile.rows  # another pass finds the panel in L2
        self.fetches = one_pass and weights.words.elements > target.l2_bytes
        kind = S32 if self.has_starts else F32
        self.sums_of_x = Buffer("x_sums", kind, (self.m_block * self.groups,), "local")
        self.k_block = problem.k if unpack != "panel" else aligned_block(self.k_block, weights)

    def _rows(self, row: Expr, rows: int | Expr, steps: list[Stmt]) -> RowBlock:
        assert isinstance(rows, int)
        block = super()._rows(row, rows, steps)
        if self.unpack != "panel":
            steps += [Allocate(self.sums_of_x), self._sum_groups(row, rows)]
        return block

    @staticmethod
    def _count(block: RowBlock) -> int:
        assert isinstance(block.count, int)
        return block.count

    def _sum_groups(self, first: Expr, rows: int) -> Stmt:
        """The sum of each group of each row, which zero points are multiplied by; their product where it is known."""
        x, group, zero = self.problem.a, self.weights.group, (t.as_expr(0),)
        r, g, i = Var("sr"), Var("sg"), Var("si")
        kind = self.sums_of_x.dtype
        total = Buffer("x_sum", kind, (1,), "local")
        at = t.add(t.mul(t.add(first, r), x.row), t.add(t.mul(g, group), i))
        new = t.add(t.load(total, zero), t.cast(t.load(x.buffer, (at,)), kind))
        place = t.add(t.mul(r, self.groups), g)
        found: Expr = t.load(total, zero)
        if self.has_starts:
            middle = t.cast(t.load(self.weights.zero, zero), kind)
            found = t.sub(t.const(0, kind), t.mul(middle, found))
        body = Block((
            Allocate(total),
            Store(total, zero, t.const(0, kind)),
            loop(i, group, Store(total, zero, new), "vector"),
            Store(self.sums_of_x, (place,), found),
        ))  # fmt: skip
        return loop(r, rows, loop(g, self.groups, body, "serial"), "serial")

    def _products(self, block: RowBlock, panel: Expr, columns: int, starts: Sequence[int]) -> Stmt:
        """The products of one panel: tile by tile in registers, or as those of floats."""
        if self.unpack == "panel":
            return super()._products(block, panel, columns, starts)
        tiles: list[Stmt] = []
        vectors = -(-columns // self.lanes)
        weights = WeightPanel(self.weights, panel, self.columns, self.problem.k, self.lanes)
        if self.unpack == "bytes":
            local = Buffer("w_bytes", U8, (self.problem.k * self.columns,), "local")
            weights, copy = weights.as_bytes(local, vectors)
            tiles += [Allocate(local), copy]
        for first, count, rows in split_rows(self._count(block), self.blocking.tile.rows):
            row = Var("wr")
            tile = _RegisterTile(self, row, rows, weights, vectors)
            body = Block((*tile.sums(block), *self._results(block, tile, columns)))
            end = t.as_expr(first + count * rows)
            tiles.append(For(row, t.as_expr(first), end, body, "serial", rows))
        return t.block_of(tiles)

    def _results(self, block: RowBlock, tile: _RegisterTile, columns: int) -> list[Stmt]:
        """Every vector of sums through the epilogue to C."""
        return [
            self._result(t.add(block.first, t.add(tile.row, r)), r, v, tile, columns)
            for r in range(tile.rows)
            for v in range(tile.vectors)
        ]

    def _result(self, row: Expr, r: int, v: int, tile: _RegisterTile, columns: int) -> Stmt:
        begin, end = v * self.lanes, min((v + 1) * self.lanes, columns)
        col, sum_, c = Var("fc"), Var("sum", F32), self.problem.c
        column = t.add(t.mul(tile.weights.panel, self.columns), col)
        lets: list[Let] = []
        value: Expr = sum_
        if self.epilogue is not None:
            lets, value = self.epilogue((*self.batch_vars, row, column), sum_)
        place = offset_of(c, self.batch_vars, t.add(t.mul(row, c.row), column))
        first = Let(sum_, Load(tile.acc, (t.as_expr(r), col)))
        body = Block((first, *lets, Store(c.buffer, (place,), value)))
        return For(col, t.as_expr(begin), t.as_expr(end), body, "vector")

    def _packed_on_the_fly(
        self, block: RowBlock, column: Expr, columns: int, k0: int, k: int, start: Expr
    ) -> Stmt:
        """A panel is unpacked once for all rows of the block."""
        local, panel = self._local_panel(), t.floordiv(column, self.columns)
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


class _RegisterTile:
    """The sums of `rows` rows, from `row` of a block on, times one panel of `vectors` vectors."""

    def __init__(
        self, template: NBitsTemplate, row: Var, rows: int, weights: WeightPanel, vectors: int
    ) -> None:
        self.template = template
        self.row = row
        self.rows = rows
        self.weights = weights
        self.vectors = vectors
        self.lanes = template.lanes
        self.fused = template.target.table.has_fma
        shape = (rows, vectors * self.lanes)
        self.acc = Buffer("nb_acc", F32, shape, "local")
        self.splits = k_splits(rows, vectors)  # sums of one vector wait for each other
        self.part = Buffer(
            "nb_part",
            F32 if template.x_scale is None else S32,
            (self.splits * rows, vectors * self.lanes),
            "local",
        )

    def sums(self, block: RowBlock) -> list[Stmt]:
        """Statements that leave the sums in `acc`."""
        group = Var("wg")
        body = Block((
            Allocate(self.part),
            *(self._starts(group) if self.template.has_starts else self._zeros(self.part, self.splits)),
            self._products_of(block, group),
            *self._scaled(block, group),
        ))  # fmt: skip
        groups = loop(group, self.template.groups, body, "serial")
        return [Allocate(self.acc), *self._zeros(self.acc), groups]

    def _zeros(self, buffer: Buffer, splits: int = 1) -> list[Stmt]:
        zero = t.const(0, buffer.dtype, self.lanes)
        return [
            Store(buffer, self._at(r, v), zero)
            for r in range(splits * self.rows)
            for v in range(self.vectors)
        ]

    def _starts(self, group: Expr) -> list[Stmt]:
        """The products of zero points in the first part of each sum, zero in the others."""
        body = self._zeros(self.part, self.splits)[self.rows * self.vectors :]
        for r in range(self.rows):
            start = Broadcast(self._sum_of_x(r, group), self.lanes)
            body += [Store(self.part, self._at(r, v), start) for v in range(self.vectors)]
        return body

    def _sum_of_x(self, r: int, group: Expr) -> Expr:
        place = t.add(t.mul(t.add(self.row, r), self.template.groups), group)
        return t.load(self.template.sums_of_x, (place,))

    def _at(self, r: int, v: int) -> tuple[Expr, ...]:
        return t.as_expr(r), t.as_expr(v * self.lanes)

    def _products_of(self, block: RowBlock, group: Expr) -> Stmt:
        """part += X * Q over the words of a group."""
        words = self.weights.weights.group // self.weights.weights.numbers
        step = max(d for d in range(1, MOST_UNROLLED + 1) if not words % d)
        word, body = Var("ww"), list[Stmt]()
        for i in range(step):
            body += self._word(block, group, t.add(word, i), i)
        return For(word, t.as_expr(0), t.as_expr(words), Block(tuple(body)), "serial", step)

    def _word(self, block: RowBlock, group: Expr, word: Expr, number: int) -> list[Stmt]:
        weights = self.weights.weights
        words = weights.group // weights.numbers
        body: list[Stmt] = []
        packed = [Var(f"wp{number}_{v}", U32, self.lanes) for v in range(self.vectors)]
        at = t.add(t.mul(group, words), word)
        if self.template.fetches:
            body += self.weights.fetched(at)
        body += [Let(var, self.weights.word(at, v)) for v, var in enumerate(packed)]
        size = 1 if self.template.x_scale is None else WORD
        for i in range(weights.numbers // size):
            k = t.add(t.mul(at, weights.numbers), i * size)
            x = [
                self._let(body, f"wx{number}_{i}_{r}", self._x(block, r, k))
                for r in range(self.rows)
            ]
            for v, var in enumerate(packed):
                value = self._number(var, i) if size == 1 else self.weights.quad(var, i)
                q = self._let(body, f"wq{number}_{i}_{v}", value)
                for r in range(self.rows):
                    place = self._at(i % self.splits * self.rows + r, v)
                    old = Load(self.part, place, self.lanes)
                    new = self._fma(q, x[r], old) if size == 1 else self._dot(old, q, x[r])
                    body.append(Store(self.part, place, new))
        return body

    def _number(self, word: Expr, index: int) -> Expr:
        """A number of each word; those of 4 bits are lanes of a table where a vector has 16."""
        if 1 << self.weights.weights.bits != self.lanes:
            return self.weights.number(word, index)
        table = t.cast(Ramp(t.const(0, S32), self.lanes), F32)
        return self.weights.picked(word, index, table)

    def _dot(self, old: Expr, q: Expr, x: Expr) -> Expr:
        return t.call("dot4", old, q, x)

    def _x(self, block: RowBlock, r: int, k: Expr) -> Expr:
        """X[row, k] in all lanes, or the four from k on."""
        a = self.template.problem.a
        at = t.add(t.mul(t.add(block.first, t.add(self.row, r)), a.row), k)
        if self.template.x_scale is None:
            return Broadcast(t.load(a.buffer, (at,)), self.lanes)
        word = t.bitcast(Load(a.buffer, (at,), WORD), S32)
        return t.bitcast(Broadcast(word, self.lanes), S8)

    def _scaled(self, block: RowBlock, group: Expr) -> list[Stmt]:
        """acc += (part - zero * sum of X) * scale."""
        template, body = self.template, list[Stmt]()
        for v in range(self.vectors):
            scale = self._let(body, f"ws{v}", self.weights.scale(group, v))
            zero = self._let(body, f"wz{v}", self.weights.zero(group, v))
            for r in range(self.rows):
                value: Expr = t.cast(self._sum(r, v), F32)
                if not template.has_starts:
                    total = Broadcast(self._sum_of_x(r, group), self.lanes)
                    value = t.sub(value, t.mul(zero, total))
                factor = scale
                if template.x_scale is not None:
                    row = t.add(block.first, t.add(self.row, r))
                    at = t.add(t.mul(row, template.groups), group)
                    factor = t.mul(scale, Broadcast(t.load(template.x_scale, (at,)), self.lanes))
                old = Load(self.acc, self._at(r, v), self.lanes)
                body.append(Store(self.acc, self._at(r, v), self._fma(value, factor, old)))
        return body

    def _sum(self, r: int, v: int) -> Expr:
        """The parts of one vector, joined."""
        found: Expr = Load(self.part, self._at(r, v), self.lanes)
        for split in range(1, self.splits):
            place = self._at(split * self.rows + r, v)
            found = t.add(found, Load(self.part, place, self.lanes))
        return found

    def _fma(self, a: Expr, b: Expr, c: Expr) -> Expr:
        return t.fma(a, b, c) if self.fused else t.add(c, t.mul(a, b))

    @staticmethod
    def _let(body: list[Stmt], name: str, value: Expr) -> Expr:
        var = Var(name, value.dtype, value.lanes)
        body.append(Let(var, value))
        return var
