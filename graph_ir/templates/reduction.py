"""Loop nests of one reduction with pointwise ops before and after it, in any layout.

terms, result   for every output index: acc = identity; for r: acc = combine(acc, f(in[map(i, r)])); out[i] = g(acc)
                vectors lie along the last of the reduced axes, or along that of the result
columns         for every block of columns of the result: a row of accumulators in L1;
                for a few rows of terms at once: acc[j] = combine(acc[j], their terms of column j), in vectors

Neighboring axes through which all operands run as through one are merged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...base.dims import is_known
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Allocate,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    Function,
    Let,
    Load,
    Stmt,
    Store,
    Var,
)
from ..ir.computation import Index
from ..ir.graph import GraphTensor
from ..ir.group_values import GroupValues, narrow, stored_at
from .loops import Tasks, clamped, loop_nest, reduction_of
from .merged_axes import MergedAxes, flat_buffers, merged_axes
from .partial_sums import SERIAL_BLOCK, blocked_sum, compensated, cut_of, sums_in_blocks

ROWS = 8
"""Rows of terms that are combined before the accumulators are stored."""

UNIT = 16
"""Columns of a block are a multiple of it, as many f32 as a cache line has."""


@dataclass(frozen=True)
class ReductionLoops:
    """`tasks` of the outermost loop, along what vectors lie (terms, result or columns), columns of a block."""

    tasks: Tasks
    vector: str
    columns: int = 0


def reduction_loops(
    name: str,
    buffers: Mapping[GraphTensor, Buffer],
    reduced: GraphTensor,
    outputs: Sequence[GraphTensor],
    loops: ReductionLoops,
    note: str,
) -> Function:
    """The function of one reduction op with a pointwise prologue before it and a pointwise epilogue after it."""
    flat = flat_buffers(buffers)
    nest = _Reduction(flat, reduced, outputs, loops).nest()
    return Function(name, tuple(flat.values()), Block((nest,)), note)


def column_block(result: GraphTensor, tasks: int, l1_bytes: int) -> int:
    """Columns of a block: three rows of accumulators take a quarter of L1; at least a block for each task."""
    dims = result.details.physical_dims
    if not dims or not is_known(*dims):
        return 0
    most = l1_bytes // 12 // result.details.dtype.accumulator.size
    columns = max(int(dims[-1]), 1)
    blocks = max(-(-columns // most), tasks if math.prod(dims[:-1]) == 1 else 1)
    return -(-columns // blocks // UNIT) * UNIT


class _Reduction:
    """The parts of the nest."""

    def __init__(
        self,
        buffers: Mapping[GraphTensor, Buffer],
        reduced: GraphTensor,
        outputs: Sequence[GraphTensor],
        loops: ReductionLoops,
    ) -> None:
        self.in_memory = {x: b for x, b in buffers.items() if x not in outputs}
        self.buffers, self.reduced, self.outputs, self.loops = buffers, reduced, outputs, loops
        self.reduction = reduction_of(reduced)
        self.result, self.terms = self._axes()

    def _axes(self) -> tuple[MergedAxes, MergedAxes]:
        """The axes of the result and those of the terms, merged as far as all operands allow."""
        dims, extents = self.outputs[0].details.physical_dims, self.reduction.extents
        index = tuple(Var(f"i{axis}") for axis in range(len(dims)))
        r = tuple(Var(f"r{axis}") for axis in range(len(extents)))
        term, value = self.term(index, r, "")
        stores = self.stores(index, Var("finished", value.dtype))
        seen = [*term, Let(Var("term"), value)], [*term, Let(Var("term"), value), *stores]
        may = is_known(*dims[1:], *extents[1:]) and not self.outputs[0].details.format.is_padded(
            self.outputs[0].details.plain_dims
        )
        return merged_axes(index, dims, seen[1] if may else None), merged_axes(
            r, extents, seen[0] if may else None
        )

    def nest(self) -> Stmt:
        """The loops over the result."""
        index, sizes = self.result.loops, self.result.sizes
        if self.loops.vector == "columns":
            width = self.loops.columns
            block = Var("block")
            body = _Columns(self).blocks(block * width, width)
            dims = (*sizes[:-1], -(-sizes[-1] // width))
            return loop_nest((*index[:-1], block), dims, body, False, self.loops.tasks)
        along_result = self.loops.vector == "result"
        sums, finished = self._chain(not along_result)
        body = Block((*sums, *self.stores(self.result.index, finished)))
        return loop_nest(index, sizes, body, along_result, self.loops.tasks)

    def plain(self, index: Index) -> Index:
        """The plain index of an element of the result."""
        details = self.outputs[0].details
        padded = details.format.is_padded(details.plain_dims)
        return clamped(details.format.plain_index(index), details.plain_dims, padded)

    def term(self, index: Index, r: Index, suffix: str) -> tuple[list[Let], Expr]:
        """(bindings, value) of term `r` of an element of the result."""
        values = GroupValues(self.in_memory, suffix=suffix)
        inputs = [values.read(x) for x in self.reduced.producer_owner.inputs]
        value = values.bind(self.reduction.element(inputs, self.plain(index), r), "term")
        return values.lets, value

    def stores(self, index: Index, acc: Expr) -> list[Stmt]:
        """The epilogue of an element of the result whose terms are combined in `acc`."""
        finished = self.reduction.finish(acc)
        values = GroupValues(self.in_memory, {self.reduced: lambda _: finished})
        stores: list[Stmt] = []
        for y in self.outputs:
            value = narrow(values.read(y)(self.plain(index)), y.details.dtype)
            stores.append(Store(self.buffers[y], stored_at(self.buffers[y], y, index), value))
        return [*values.lets, *stores]

    def _chain(self, vector: bool) -> tuple[list[Stmt], Expr]:
        """(statements that combine all terms of an element in a local, what they give)."""
        reduction, r = self.reduction, self.terms.loops
        extents: tuple[Any, ...] = self.terms.sizes
        lets, value = self.term(self.result.index, self.terms.index, "")
        if sums_in_blocks(reduction.combine, value, extents, vector):
            return blocked_sum(r, extents, lets, value, vector)
        acc = Buffer("acc", value.dtype, (1,), "local")
        here = (t.as_expr(0),)
        update = Store(acc, here, t.binary(reduction.combine, Load(acc, here), value))
        loops = loop_nest(r, extents, Block((*lets, update)), vector, 1)
        start = Store(acc, here, Const(reduction.identity, value.dtype))
        return [Allocate(acc), start, loops], Load(acc, here)


class _Columns:
    """A block of columns of the result."""

    def __init__(self, whole: _Reduction) -> None:
        self.whole = whole
        self.extents, self.r = [int(x) for x in whole.terms.sizes], whole.terms.loops
        self.size = int(whole.result.sizes[-1])
        self.column = Var("j")
        probe = whole.term(whole.result.index, whole.terms.index, "")[1]
        self.dtype = probe.dtype
        self.is_blocked = sums_in_blocks(whole.reduction.combine, probe, self.extents, False)

    def blocks(self, low: Expr, width: int) -> Stmt:
        """The block from column `low` on, narrower if it is the last."""
        size = self.size
        rest = size % width
        if not rest or size < width:
            return self._block(low, min(width, size))
        b = t.LoopBuilder()
        with b.when(low + width <= size):
            b.emit(self._block(low, width))
        with b.otherwise():
            b.emit(self._block(low, rest))
        return b.body()

    def _block(self, low: Expr, width: int) -> Stmt:
        self.low, self.width = low, width
        names = ("total", "lost", "acc") if self.is_blocked else ("acc",)
        self.rows = [Buffer(name, self.dtype, (width,), "local") for name in names]
        acc, total = self.rows[-1], self.rows[0]
        here = (self.column,)
        start = [Store(b, here, self._identity()) for b in self.rows]
        nest = self._pieces() if self.is_blocked else [self._nest(0, t.as_expr(0), self.extents[0])]
        last = self._result_index(Load(total if self.is_blocked else acc, here))
        return Block((*map(Allocate, self.rows), self._loop(start), *nest, self._loop(last)))

    def _identity(self) -> Expr:
        return Const(self.whole.reduction.identity, self.dtype)

    def _result_index(self, acc: Expr) -> list[Stmt]:
        return self.whole.stores(self._index(), acc)

    def _index(self) -> Index:
        """The index of the column in the result."""
        return self.whole.result.replaced(self.low + self.column)

    def _loop(self, body: Sequence[Stmt]) -> Stmt:
        return For(self.column, t.as_expr(0), t.as_expr(self.width), Block(tuple(body)), "vector")

    def _pieces(self) -> list[Stmt]:
        """Chains of at most a block of terms, added up with compensation."""
        cut = cut_of(self.extents, SERIAL_BLOCK)
        piece = max(1, SERIAL_BLOCK // math.prod(self.extents[cut + 1 :]))
        total, lost, acc = self.rows
        here = (self.column,)

        def chain(begin: Expr, count: int) -> Stmt:
            clear = self._loop([Store(acc, here, self._identity())])
            added = self._loop(compensated(total, lost, acc, here))
            return Block((clear, self._nest(cut, begin, count), added))

        full, rest = divmod(self.extents[cut], piece)
        number = Var(f"{self.r[cut].name}_block")
        inner: list[Stmt] = []
        if full:
            body = chain(number * piece, piece)
            inner.append(For(number, t.as_expr(0), t.as_expr(full), body))
        if rest:
            inner.append(chain(t.as_expr(full * piece), rest))
        nest: Stmt = Block(tuple(inner))
        for axis in reversed(range(cut)):
            nest = For(self.r[axis], t.as_expr(0), t.as_expr(self.extents[axis]), nest)
        return [nest]

    def _nest(self, axis: int, begin: Expr, count: int) -> Stmt:
        """Combine `count` terms along an axis from `begin` on, and all along those behind it."""
        if axis + 1 < len(self.extents):
            inner = self._nest(axis + 1, t.as_expr(0), self.extents[axis + 1])
            return For(self.r[axis], begin, begin + count, inner)
        full, rest = divmod(count, ROWS)
        group = Var("group")
        stmts: list[Stmt] = []
        if full:
            body = self._rows(begin + group * ROWS, ROWS)
            stmts.append(For(group, t.as_expr(0), t.as_expr(full), body))
        if rest:
            stmts.append(self._rows(begin + full * ROWS, rest))
        return Block(tuple(stmts))

    def _rows(self, begin: Expr, count: int) -> Stmt:
        """Combine `count` rows of terms, in order."""
        acc, here = self.rows[-1], (self.column,)
        lets: list[Stmt] = []
        value: Expr = Load(acc, here)
        for number in range(count):
            r = self.whole.terms.replaced(begin + number)
            bound, term = self.whole.term(self._index(), r, f"n{number}")
            lets += bound
            value = t.binary(self.whole.reduction.combine, value, term)
        return self._loop([*lets, Store(acc, here, value)])
