"""Loop nest of a batched f32 matrix product around the `brgemm` microkernel.

    for each batch, group of panels, block of rows (parallel):
      for each block of k:
        for each panel of B (as wide as the register tile):
          C[rows, panel] (+)= A[rows, k block] x B[k block, panel]        one Brgemm
    the last block of k runs the epilogue on the accumulators.

A is read in place. B comes packed in panels, is read in place when few rows share it, or is packed on the fly into a
local panel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...base.dtypes import F32
from ...base.target import Target
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Allocate,
    Block,
    Brgemm,
    Buffer,
    Epilogue,
    Expr,
    For,
    Function,
    If,
    Let,
    LoopKind,
    PrefetchHint,
    Slice,
    Stmt,
    Store,
    Var,
)
from ..ir.computation import Index
from ..schedule.matmul_tile import MatmulBlocking, rows_for, worth_threads

EpilogueValue = Callable[[Index, Expr], tuple[list[Let], Expr]]
"""(plain output index, accumulated value) -> (bindings, value to store)."""


@dataclass(frozen=True)
class Operand:
    """A matrix per batch in a flat buffer: element (batch, i, j) is at sum(batch * strides) + i * row + j * col.

    With `panel` > 0 the matrix lies in panels of that many columns: (batch, k, n) is at
    batch part + (n // panel) * row_of_panels + k * panel + n % panel, where `row` is the size of one panel.
    """

    buffer: Buffer
    batch_strides: tuple[int, ...]
    row: int
    col: int
    panel: int = 0


@dataclass(frozen=True)
class MatmulProblem:
    """Sizes and operands of one product; `batch` are the sizes of the output's batch axes."""

    batch: tuple[int, ...]
    m: int
    n: int
    k: int
    a: Operand
    b: Operand
    c: Operand


class MatmulTemplate:
    """Builds the loop nest of one problem under one blocking."""

    def __init__(
        self,
        problem: MatmulProblem,
        blocking: MatmulBlocking,
        target: Target,
        epilogue: EpilogueValue | None,
    ):
        self.problem = problem
        self.blocking = blocking
        self.target = target
        self.columns = blocking.tile.columns(target)
        work = math.prod(problem.batch) * problem.m * problem.n * problem.k
        self.kind: LoopKind = "parallel" if worth_threads(work) else "serial"
        self.epilogue = epilogue
        self.batch_vars = tuple(Var(f"b{axis}") for axis in range(len(problem.batch)))

    def function(self, name: str, params: tuple[Buffer, ...], note: str) -> Function:
        """The whole product as a function."""
        body = nested(self.batch_vars, self.problem.batch, self._panel_groups(), self.kind)
        return Function(name, params, body if isinstance(body, Block) else Block((body,)), note)

    def _panel_groups(self) -> Stmt:
        full, rest = divmod(self.problem.n, self.columns)
        groups = self.blocking.n_groups
        size = math.ceil((full + bool(rest)) / groups)
        if groups == 1:
            return self._row_blocks(t.as_expr(0), t.as_expr(full), bool(rest), None)
        group = Var("ng")
        begin = t.mul(group, size)
        end = t.binary("min", t.mul(t.add(group, 1), size), t.as_expr(full))
        groups = math.ceil((full + bool(rest)) / size)
        last = t.compare("eq", group, t.as_expr(groups - 1))
        # Outside the blocks of rows: those form a nest only with the loop directly around them.
        return _loop(group, groups, self._row_blocks(begin, end, bool(rest), last), self.kind)

    def _row_blocks(self, begin: Expr, end: Expr, has_rest: bool, is_last: Expr | None) -> Stmt:
        m, m_block = self.problem.m, self.blocking.m_block
        full, rest = divmod(m, m_block)
        panels = (begin, end, has_rest, is_last)
        if full + bool(rest) == 1:
            return self._panels(t.as_expr(0), m, *panels)
        var = Var("mb")
        whole = self._panels(t.mul(var, m_block), m_block, *panels)
        if rest:
            tail = self._panels(t.as_expr(full * m_block), rest, *panels)
            whole = If(t.compare("lt", var, t.as_expr(full)), whole, tail)
        return _loop(var, full + bool(rest), whole, self.kind)

    def _panels(
        self, row: Expr, rows: int, begin: Expr, end: Expr, has_rest: bool, is_last: Expr | None
    ) -> Stmt:
        """All blocks of k over panels [begin, end), and the narrow last panel if this task has it."""
        steps: list[Stmt] = []
        if not (self.problem.b.panel or self._in_place(rows)):
            steps.append(Allocate(self._local_panel()))  # one for all blocks: stacks are small
        for k0 in range(0, self.problem.k, self.blocking.k_block):
            panel = Var("nb")
            steps.append(For(panel, begin, end, self._product(row, rows, panel, self.columns, k0)))
            if has_rest:
                full, rest = divmod(self.problem.n, self.columns)
                narrow = self._product(row, rows, t.as_expr(full), rest, k0)
                steps.append(If(is_last, narrow) if is_last is not None else narrow)
        return Block(tuple(steps))

    def _product(self, row: Expr, rows: int, panel: Expr, columns: int, k0: int) -> Stmt:
        p = self.problem
        k = min(self.blocking.k_block, p.k - k0)
        column = t.mul(panel, self.columns)
        if p.b.panel:
            place = t.add(t.mul(panel, p.b.row), k0 * p.b.panel)
            return self._brgemm(
                row, rows, column, columns, k0, k, self._slice(p.b, place), p.b.panel
            )
        start = t.add(t.mul(column, p.b.col), k0 * p.b.row)
        if self._in_place(rows):
            return self._brgemm(
                row, rows, column, columns, k0, k, self._slice(p.b, start), p.b.row, columns
            )
        return self._packed_on_the_fly(row, rows, column, columns, k0, k, start)

    def _in_place(self, rows: int) -> bool:
        """Reading B in place costs cache and TLB misses per row tile; packing costs one copy per block."""
        return self.problem.b.col == 1 and rows <= 4 * self.blocking.tile.rows

    def _packed_on_the_fly(
        self, row: Expr, rows: int, column: Expr, columns: int, k0: int, k: int, start: Expr
    ) -> Stmt:
        b = self.problem.b
        local = self._local_panel()
        copy = pack_panels(b, offset_of(b, self.batch_vars, start), local, k, columns, self.columns)
        product = self._brgemm(
            row, rows, column, columns, k0, k, Slice(local, (t.as_expr(0),)), self.columns
        )
        return Block((*copy, product))

    def _local_panel(self) -> Buffer:
        """The local buffer that a block of B is packed into."""
        depth = min(self.blocking.k_block, self.problem.k)
        return Buffer("b_panel", F32, (depth * self.columns,), "local")

    def _brgemm(
        self,
        row: Expr,
        rows: int,
        column: Expr,
        columns: int,
        k0: int,
        k: int,
        b: Slice,
        b_row: int,
        n_padded: int | None = None,
    ) -> Brgemm:
        p = self.problem
        is_last = k0 + k == p.k
        a = self._slice(p.a, t.add(t.mul(row, p.a.row), k0 * p.a.col))
        c = self._slice(p.c, t.add(t.mul(row, p.c.row), column))
        return Brgemm(
            c, a, b, rows, columns, k, 1, 0, p.a.row, p.a.col, 0, b_row, p.c.row, k0 > 0,
            self.columns if n_padded is None else n_padded,
            self._epilogue(row, column) if is_last and self.epilogue else None,
            min(p.m, rows_for(columns, self.blocking.tile, self.target)), self._prefetch_hints(rows, b, k),
        )  # fmt: skip

    def _prefetch_hints(self, rows: int, b: Slice, k: int) -> tuple[PrefetchHint, ...]:
        """Prefetch hints for the next panel, if it is not in L2 and there is time to fetch it.

        Without hints, the first tile of a panel causes all its memory traffic and the others none: 5 % on
        128x1024x1024. With few rows, memory is busy all the time, and the hardware prefetchers do equally well.
        """
        p = self.problem
        far = p.k * p.n * F32.size > self.target.l2_bytes // 2
        if not (far and p.b.panel and rows >= self.blocking.tile.rows):
            return ()
        return (PrefetchHint(Slice(b.buffer, (t.add(b.indices[0], p.b.row),)), k * p.b.panel),)

    def _epilogue(self, row: Expr, column: Expr) -> Epilogue:
        assert self.epilogue is not None
        return make_epilogue(self.epilogue, self.batch_vars, row, column)

    def _slice(self, operand: Operand, offset: Expr) -> Slice:
        return Slice(operand.buffer, (offset_of(operand, self.batch_vars, offset),))


def make_epilogue(value: EpilogueValue, batch: Sequence[Var], row: Expr, column: Expr) -> Epilogue:
    """The epilogue of a Brgemm whose C starts at (batch, row, column) of the plain output."""
    i, j, acc = Var("er"), Var("ec"), Var("acc", F32)
    lets, result = value((*batch, t.add(row, i), t.add(column, j)), acc)
    return Epilogue(i, j, acc, result, tuple(lets))


def offset_of(operand: Operand, batch: Sequence[Var], offset: Expr) -> Expr:
    """The address of element `offset` of the matrix of a batch index in the operand's buffer."""
    for var, stride in zip(batch, operand.batch_strides, strict=True):
        offset = t.add(offset, t.mul(var, stride))
    return offset


def pack_panels(
    source: Operand, start: Expr, local: Buffer, k: int, n: int, columns: int
) -> list[Stmt]:
    """Copy the k x n matrix at `start` into panels of `columns`; unused columns of the last one become zero."""
    full, rest = divmod(n, columns)
    i, j, panel = Var("pk"), Var("pj"), Var("pp")

    def copy(first: Expr, width: int) -> Stmt:
        column = t.add(t.mul(first, columns), j)
        offset = t.add(t.mul(i, source.row), t.mul(column, source.col))
        value = t.load(source.buffer, (t.add(start, offset),))
        place = t.add(t.mul(first, k * columns), t.add(t.mul(i, columns), j))
        return _loop(j, width, Store(local, (place,), value), "vector")

    row: list[Stmt] = [_loop(panel, full, copy(panel, columns), "serial")] if full else []
    row += [copy(t.as_expr(full), rest)] if rest else []
    # Row by row, so that the source is read in memory order, which prefetchers follow.
    body: list[Stmt] = [_loop(i, k, Block(tuple(row)), "serial")]
    if rest:  # whole vectors of the last panel are read, so all of it must be defined
        z = Var("pz")
        zero = Store(local, (t.add(z, full * k * columns),), t.const(0.0, F32))
        body.insert(0, _loop(z, k * columns, zero, "vector"))
    return body


def nested(batch: Sequence[Var], sizes: Sequence[int], body: Stmt, kind: LoopKind) -> Stmt:
    """Loops over the batch axes around `body`."""
    for var, size in reversed(list(zip(batch, sizes, strict=True))):
        body = _loop(var, size, body, kind)
    return body


def _loop(var: Var, size: int, body: Stmt, kind: LoopKind) -> For:
    return For(var, t.as_expr(0), t.as_expr(size), body, kind)
