"""Loop nest of a batched matrix product around the `brgemm` microkernel.

    for each batch, group of panels, block of rows (parallel):
      for each block of k:
        for each panel of B (as wide as the register tile):
          C[rows, panel] (+)= A[rows, k block] x B[k block, panel]        one Brgemm
    the last block of k runs the epilogue on the accumulators.

A is read in place, or converted to the type of the sums once per block of rows. B comes packed in panels, is read in
place when few rows share it, or is packed on the fly into a local panel. Where C cannot hold the sums, all blocks of k
of one panel follow each other, and the sums wait in a local block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...base.contraction import Microkernel
from ...base.dims import bounds, is_known
from ...base.dtypes import F32, DType
from ...base.records import dataclass
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
from ...tensor_ir.sizes import number_or_expr
from ..ir.computation import Index
from ..schedule.matmul_tile import MatmulBlocking, reads_in_place, rows_for
from ..schedule.product import worth_threads
from .operand import Operand, offset_of
from .packing import convert_rows, loop, pack, panel_elements

EpilogueValue = Callable[[Index, Expr], tuple[list[Let], Expr]]
"""(plain output index, accumulated value) -> (bindings, value to store)."""


def storing(epilogue: EpilogueValue | None, sums: DType, result: DType) -> EpilogueValue | None:
    """The epilogue, or where there is none a cast to the result's type; None for sums that are stored as they are."""
    if epilogue is not None or sums == result:
        return epilogue
    return lambda index, acc: ([], t.cast(acc, result))


@dataclass(frozen=True)
class MatmulProblem:
    """Sizes and operands of one product; `batch` are the sizes of the output's batch axes.

    They, m, n and k may be expressions of sizes that are known when the model runs (`matmul_rows`).
    """

    batch: tuple[Any, ...]
    m: Any
    n: Any
    k: Any
    a: Operand
    b: Operand
    c: Operand


@dataclass(frozen=True)
class RowBlock:
    """`count` rows from `first` on, which are the rows from `a_first` on of `a`; their sums wait from `kept` on."""

    first: Expr
    count: int | Expr
    a: Operand
    a_first: Expr
    kept: Expr = t.ZERO

    def part(self, at: Expr, count: int) -> RowBlock:
        """`count` of the rows, from row `at` of them on."""
        firsts = (first + at for first in (self.first, self.a_first, self.kept))
        first, a_first, kept = firsts
        return RowBlock(first, count, self.a, a_first, kept)


class MatmulTemplate:
    """Builds the loop nest of one problem under one blocking."""

    def __init__(
        self,
        problem: MatmulProblem,
        blocking: MatmulBlocking,
        kernel: Microkernel,
        target: Target,
        epilogue: EpilogueValue | None,
    ):
        self.problem = problem
        self.blocking = blocking
        self.kernel = kernel
        self.target = target
        self.accumulator = kernel.accumulator
        self.columns = blocking.tile.columns(target, self.accumulator)
        self.k_block = -(-blocking.k_block // kernel.k_group) * kernel.k_group
        self.m_block = blocking.m_block
        self.most_a_bytes = target.machine.most_local_bytes // 2  # sums and a panel lie beside them
        if kernel.converts_a:
            tile_bytes = problem.k * kernel.copied_a.size * blocking.tile.rows
            self.m_block = min(
                self.m_block, max(1, self.most_a_bytes // tile_bytes) * blocking.tile.rows
            )
        work = bounds(math.prod(problem.batch) * problem.m * problem.n * problem.k)[1]
        self.kind: LoopKind = "parallel" if worth_threads(work, target) else "serial"
        result = problem.c.buffer.dtype
        self.sums: Buffer | None = None
        if result != self.accumulator:
            epilogue = storing(epilogue, self.accumulator, result)
            if is_known(problem.k) and self.k_block < problem.k:
                size = self._most_rows() * self.columns
                self.sums = Buffer("sums", self.accumulator, (size,), "local")
        self.epilogue = epilogue
        self.batch_vars = tuple(Var(f"b{axis}") for axis in range(len(problem.batch)))

    def _most_rows(self) -> int:
        """RowBlock of the largest block."""
        return int(min(self.m_block, self.problem.m))

    def function(self, name: str, params: tuple[Buffer, ...], note: str) -> Function:
        """The whole product as a function."""
        body = self.nest()
        return Function(name, params, body if isinstance(body, Block) else Block((body,)), note)

    def nest(self) -> Stmt:
        """The loops alone."""
        return nested(self.batch_vars, self.problem.batch, self._panel_groups(), self.kind)

    def _panel_groups(self) -> Stmt:
        full, rest = divmod(self.problem.n, self.columns)
        groups = self.blocking.n_groups
        size = math.ceil((full + bool(rest)) / groups)
        if groups == 1:
            return self._row_blocks(t.as_expr(0), t.as_expr(full), bool(rest), None)
        group = Var("ng")
        begin = group * size
        end = t.minimum((group + 1) * size, t.as_expr(full))
        groups = math.ceil((full + bool(rest)) / size)
        last = t.equal(group, t.as_expr(groups - 1))
        # Outside the blocks of rows: those form a nest only with the loop directly around them.
        return loop(group, groups, self._row_blocks(begin, end, bool(rest), last), self.kind)

    def _row_blocks(self, begin: Expr, end: Expr, has_rest: bool, is_last: Expr | None) -> Stmt:
        m, m_block = self.problem.m, self.m_block
        full, rest = divmod(m, m_block)
        panels = (begin, end, has_rest, is_last)
        if full + bool(rest) == 1:
            return self._panels(t.as_expr(0), m, *panels)
        var = Var("mb")
        whole = self._panels(var * m_block, m_block, *panels)
        if rest:
            tail = self._panels(t.as_expr(full * m_block), rest, *panels)
            whole = If(var < t.as_expr(full), whole, tail)
        return loop(var, full + bool(rest), whole, self.kind)

    def _panels(
        self,
        row: Expr,
        rows: int | Expr,
        begin: Expr,
        end: Expr,
        has_rest: bool,
        is_last: Expr | None,
    ) -> Stmt:
        """All blocks of k over panels [begin, end), and the narrow last panel if this task has it."""
        steps: list[Stmt] = []
        if not (self.problem.b.panel or self._in_place(rows)):
            steps.append(Allocate(self._local_panel()))  # one for all blocks: stacks are small
        if self.sums is not None:
            steps.append(Allocate(self.sums))
        block = self._rows(row, rows, steps)
        blocks = self._k_starts()
        for starts in [list(blocks)] if self.sums is not None else [[k0] for k0 in blocks]:
            panel = Var("nb")
            body = self._products(block, panel, self.columns, starts)
            steps.append(For(panel, begin, end, body))
            if has_rest:
                narrow = self._narrow_panel(block, starts)
                steps.append(If(is_last, narrow) if is_last is not None else narrow)
        return Block(tuple(steps))

    def _k_starts(self) -> Sequence[int]:
        """Where the blocks of k begin; a k that is known when the product runs is one block."""
        k = self.problem.k
        return range(0, k, self.k_block) if is_known(k) else (0,)

    def _narrow_panel(self, block: RowBlock, starts: Sequence[int]) -> Stmt:
        """The products of the last panel, which has fewer columns."""
        full, rest = divmod(self.problem.n, self.columns)
        return self._products(block, t.as_expr(full), rest, starts)

    def _rows(self, row: Expr, rows: int | Expr, steps: list[Stmt]) -> RowBlock:
        """The rows of A of a block: where they lie, or converted by `steps`, unless they are too long to keep."""
        p, dtype = self.problem, self.kernel.copied_a
        most = rows if isinstance(rows, int) else self._most_rows()
        if not self.kernel.converts_a or most * p.k * dtype.size > self.most_a_bytes:
            return RowBlock(row, rows, p.a, row)
        start = offset_of(p.a, self.batch_vars, row * p.a.row)
        local, copy = convert_rows(p.a, start, (rows, most), p.k, dtype, self.target.lanes(dtype))
        steps += [Allocate(local.buffer), copy]
        return RowBlock(row, rows, local, t.as_expr(0))

    def _products(self, block: RowBlock, panel: Expr, columns: int, starts: Sequence[int]) -> Stmt:
        """The products of one panel for the blocks of k that begin at `starts`."""
        products = [self._product(block, panel, columns, k0) for k0 in starts]
        if self.sums is not None:
            products.append(self._finish(block, panel * self.columns, columns, self.sums))
        return t.block_of(products)

    def _product(self, block: RowBlock, panel: Expr, columns: int, k0: int) -> Stmt:
        p = self.problem
        k = min(self.k_block, p.k - k0) if is_known(p.k) else p.k
        column = panel * self.columns
        if p.b.panel:
            place = panel * p.b.row + k0 * p.b.panel
            b_row = p.b.panel * self.kernel.k_group
            return self._brgemm(block, column, columns, k0, k, self._slice(p.b, place), b_row)
        start = column * p.b.col + p.b.row * k0
        if self._in_place(block.count):
            b = self._slice(p.b, start)
            return self._brgemm(block, column, columns, k0, k, b, p.b.row, columns)
        return self._packed_on_the_fly(block, column, columns, k0, k, start)

    def _in_place(self, rows: int | Expr) -> bool:
        """Reading B in place costs cache and TLB misses per row tile; packing costs one copy per block."""
        is_row_major = self.problem.b.col == 1 and self.kernel.k_group == 1
        few = isinstance(rows, int) and reads_in_place(rows, self.blocking.tile)
        return is_row_major and few

    def _packed_on_the_fly(
        self, block: RowBlock, column: Expr, columns: int, k0: int, k: Any, start: Expr
    ) -> Stmt:
        b, group, local = self.problem.b, self.kernel.k_group, self._local_panel()
        at = offset_of(b, self.batch_vars, start)
        copy = pack(b, at, local, k, columns, self.columns, self.kernel, self.target)
        place = Slice(local, (t.as_expr(0),))
        return Block(
            (*copy, self._brgemm(block, column, columns, k0, k, place, self.columns * group))
        )

    def _local_panel(self) -> Buffer:
        """The local buffer that a block of B is packed into: in groups of k as it is, else converted."""
        size = panel_elements(min(self.k_block, self.problem.k), self.columns, self.kernel)
        return Buffer("b_panel", self.kernel.copied_b, (size,), "local")

    def _brgemm(
        self,
        block: RowBlock,
        column: Expr,
        columns: int,
        k0: int,
        k: Any,
        b: Slice,
        b_row: Any,
        n_padded: int | None = None,
    ) -> Stmt:
        p, a = self.problem, block.a
        assert isinstance(block.count, int)
        ends = k0 + k == p.k and self.sums is None and self.epilogue is not None
        if self.sums is not None:
            c, c_row = Slice(self.sums, (block.kept * self.columns,)), self.columns
        else:
            c, c_row = self._slice(p.c, block.first * p.c.row + column), p.c.row
        a_place = self._slice(a, block.a_first * a.row + a.col * k0)
        depth, a_row, a_col, b_step, c_step = map(number_or_expr, (k, a.row, a.col, b_row, c_row))
        return Brgemm(
            c, a_place, b, block.count, columns, depth, 1, 0, a_row, a_col, 0, b_step, c_step, k0 > 0,
            self.columns if n_padded is None else n_padded,
            self._epilogue(block.first, column) if ends else None,
            self._tile_rows(columns), self._prefetch_hints(block.count, b, k), self.kernel.k_group,
        )  # fmt: skip

    def _tile_rows(self, columns: int) -> int:
        """Height of the register tiles of a panel of which `columns` are used."""
        return min(self.problem.m, rows_for(columns, self.blocking.tile, self.target, self.kernel))

    def _finish(self, block: RowBlock, column: Expr, columns: int, sums: Buffer) -> Stmt:
        """What is done to finished sums, from the local block to C."""
        assert self.epilogue is not None
        i, j, c = Var("fr"), Var("fc"), self.problem.c
        row, col = block.first + i, column + j
        sum_ = Var("sum", self.accumulator)
        lets, value = self.epilogue((*self.batch_vars, row, col), sum_)
        place = offset_of(c, self.batch_vars, row * c.row + col)
        first = Let(sum_, sums[i * self.columns + j])
        body = Block((first, *lets, Store(c.buffer, (place,), value)))
        return loop(i, block.count, loop(j, columns, body, "vector"), "serial")

    def _prefetch_hints(self, rows: int, b: Slice, k: int) -> tuple[PrefetchHint, ...]:
        """Prefetch hints for the next panel, if it is not in L2 and there is time to fetch it.

        Without hints, the first tile of a panel causes all its memory traffic and the others none: 5 % on
        128x1024x1024. With few rows, memory is busy all the time, and the hardware prefetchers do equally well.
        """
        p = self.problem
        if not is_known(p.k, p.n):
            return ()
        far = p.k * p.n * p.b.buffer.dtype.size > self.target.l2_bytes // 2
        if not (far and p.b.panel and rows >= self._least_prefetching()):
            return ()
        return (PrefetchHint(Slice(b.buffer, (b.indices[0] + p.b.row,)), k * p.b.panel),)

    def _least_prefetching(self) -> int:
        """The rows of a product from which on it has time to fetch the next panel."""
        return self.blocking.tile.rows

    def _epilogue(self, row: Expr, column: Expr) -> Epilogue:
        assert self.epilogue is not None
        return make_epilogue(self.epilogue, self.batch_vars, row, column, self.accumulator)

    def _slice(self, operand: Operand, offset: Expr) -> Slice:
        return Slice(operand.buffer, (offset_of(operand, self.batch_vars, offset),))


def make_epilogue(
    value: EpilogueValue, batch: Sequence[Var], row: Expr, column: Expr, sums: DType = F32
) -> Epilogue:
    """The epilogue of a Brgemm whose C starts at (batch, row, column) of the plain output; the type of its `sums`."""
    i, j, acc = Var("er"), Var("ec"), Var("acc", sums)
    lets, result = value((*batch, row + i, column + j), acc)
    return Epilogue(i, j, acc, result, tuple(lets))


def nested(batch: Sequence[Var], sizes: Sequence[int], body: Stmt, kind: LoopKind) -> Stmt:
    """Loops over the batch axes around `body`."""
    for var, size in reversed(list(zip(batch, sizes, strict=True))):
        body = loop(var, size, body, kind)
    return body
