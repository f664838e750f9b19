"""The vector form of loop bodies: several iterations of a loop at once, one per lane.

    c[i * 32 + j] = a[j * 4] + b[i]     for j in [base, base + 8) is
    c[i * 32 + base] = a[broadcast(base * 4, 8) + ramp(0, 8) * broadcast(4, 8)] + broadcast(b[i], 8)

Values shared by all lanes stay scalar. An index that advances by one per lane is a contiguous access, one that does not
change a scalar access, any other a gather or scatter. Locals of the body get an element per lane.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ..base.dtypes import S64, DType
from ..base.records import dataclass
from . import builder as t
from .analysis import IndexAlgebra, Range
from .names import Names
from .nodes import (
    REDUCE_OPS,
    Allocate,
    Binary,
    Block,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    For,
    If,
    Let,
    Load,
    Prefetch,
    Ramp,
    Select,
    Slice,
    Stmt,
    Store,
    Unary,
    Var,
)
from .substitution import substitute_expr
from .visitor import vars_in, walk

LANE, TRIP = "%lane", "%trip"  # names that no program uses


class NotVectorizable(Exception):
    """The body has no vector form; the loop runs one element at a time."""


@dataclass(frozen=True)
class Accumulator:
    """`x[slot] = op(x[slot], term)` summed up per lane in `lanes_buffer`: slot after slot, `lanes` elements each.

    `slots` are the indices of x in use; None for all of them, in order.
    """

    buffer: Buffer
    op: str
    slots: tuple[Expr, ...] | None
    lanes_buffer: Buffer
    lanes: int

    @property
    def count(self) -> int:
        """Number of slots."""
        return self.buffer.elements if self.slots is None else len(self.slots)

    def index(self, slot: Expr, copy: int = 0) -> Expr:
        """The index in `lanes_buffer` of the lanes of x[slot], in one of several independent copies."""
        number = slot if self.slots is None else t.as_expr(self.slots.index(slot))
        return (number + copy * self.count) * self.lanes


@dataclass(frozen=True)
class Chunk:
    """Iterations of a vectorized loop: `var` in [base, base + lanes), of which the first `active` exist (None: all).

    `model` is `var` as seen by the analysis, in terms of the variables TRIP and LANE with `ranges`. `copy` is the set
    of accumulators to use.
    """

    var: Var
    base: Expr
    lanes: int
    active: int | None
    model: Expr
    ranges: Mapping[str, Range]
    copy: int = 0


def accumulation(s: Store) -> tuple[str, tuple[Expr, ...]] | None:
    """(op, (term,)) if s is `x[c] = op(x[c], term)`, ("add", (a, b)) if it is `x[c] = fma(a, b, x[c])`."""
    old = Load(s.buffer, s.indices)
    value = s.value
    if isinstance(value, Binary) and value.op in REDUCE_OPS:
        if value.left == old:
            return value.op, (value.right,)
        if value.right == old:
            return value.op, (value.left,)
    if isinstance(value, Call) and value.name == "fma" and value.args[2] == old:
        return "add", value.args[:2]
    return None


def identity(op: str, dtype: DType) -> Expr:
    """The identity of `op` (of REDUCE_OPS)."""
    if op in ("add", "or"):
        return t.const(0, dtype)
    if op == "mul" or dtype.kind == "bool":
        return t.const(1, dtype)
    if op == "and":
        return t.const(-1 if dtype.kind == "int" else (1 << dtype.bits) - 1, dtype)
    if dtype.is_float:
        return t.const(math.inf if op == "min" else -math.inf, dtype)
    low, high = dtype.limits
    return t.const(high if op == "min" else low, dtype)


class BodyVectorizer:
    """Rewrites the body of one loop for one chunk of its iterations; `line`: bytes of a cache line."""

    def __init__(
        self,
        chunk: Chunk,
        algebra: IndexAlgebra,
        names: Names,
        accumulators: Mapping[str, Accumulator],
        line: int,
    ) -> None:
        self.chunk = chunk
        self.line = line
        self.algebra = algebra
        self.names = names
        self.accumulators = accumulators
        self.varying = {chunk.var.name, LANE}
        self.scalars: dict[str, Expr] = {chunk.var.name: chunk.base}
        self.vectors: dict[str, Var] = {}
        self.locals: dict[str, Buffer] = {}
        algebra.values.clear()
        algebra.values[chunk.var.name] = chunk.model
        for name, known in chunk.ranges.items():
            algebra.ranges[name] = known

    # expressions: scalar where all lanes agree, else as wide as the chunk

    def expr(self, e: Expr) -> Expr:
        """`e` in all lanes, scalar if they agree."""
        if e.lanes != 1:
            raise NotVectorizable("the body has vectors already")
        return _VECTORIZE[type(e)](self, e)

    def vector(self, e: Expr) -> Expr:
        """`e` in all lanes, always a vector."""
        return self._wide(self.expr(e))

    def _wide(self, e: Expr) -> Expr:
        return e if e.lanes == self.chunk.lanes else Broadcast(e, self.chunk.lanes)

    def _agree(self, *operands: Expr) -> list[Expr]:
        wide = [self.expr(e) for e in operands]
        return wide if all(e.lanes == 1 for e in wide) else [self._wide(e) for e in wide]

    def _var(self, e: Var) -> Expr:
        if e.name == self.chunk.var.name:
            return Ramp(self.chunk.base, self.chunk.lanes)
        return self.vectors.get(e.name) or self.scalars.get(e.name, e)

    def _load(self, e: Load) -> Expr:
        (index,) = e.indices
        if e.buffer.name in self.locals:
            return Load(self.locals[e.buffer.name], (self._local_index(index),), self.chunk.lanes)
        stride, at = self._stride(index)
        if stride == 0:
            return Load(e.buffer, (at,))
        if stride == 1:
            return Load(e.buffer, (at,), self.chunk.lanes, self.chunk.active)
        return Load(
            e.buffer, (self._lane_index(index, stride, at),), self.chunk.lanes, self.chunk.active
        )

    def _stride(self, index: Expr) -> tuple[int | None, Expr]:
        """(step of an index from lane to lane, or None if it is not a fixed step; the index in lane 0)."""
        form = self.algebra.affine(index)
        stride = 0
        for key, (atom, coefficient) in form.terms.items():
            if key == LANE:
                stride = coefficient
            elif not self.varying.isdisjoint(vars_in(atom)):
                return None, index
        at = substitute_expr(index, self.scalars)
        return (stride, at) if self.vectors.keys().isdisjoint(vars_in(at)) else (None, index)

    def _lane_index(self, index: Expr, stride: int | None, at: Expr) -> Expr:
        lanes = self.chunk.lanes
        if stride is None:
            return self.vector(index)
        steps = Binary("mul", Ramp(t.ZERO, lanes), Broadcast(t.as_expr(stride), lanes))
        return Binary("add", steps, Broadcast(at, lanes))

    def _local_index(self, index: Expr) -> Expr:
        stride, at = self._stride(index)
        if stride != 0:
            raise NotVectorizable("a local of the body is indexed by the loop variable")
        return at * self.chunk.lanes

    # statements

    def stmt(self, s: Stmt) -> Stmt:
        """The statement for all lanes."""
        vectorize = _VECTORIZE_STMT.get(type(s))
        if vectorize is None:
            raise NotVectorizable(f"{type(s).__name__} has no vector form")
        return vectorize(self, s)

    def _block(self, s: Block) -> Stmt:
        return Block(tuple([self.stmt(inner) for inner in s.body]))

    def _let(self, s: Let) -> Stmt:
        value = self.expr(s.value)
        new = Var(self.names.fresh(s.var.name), s.var.dtype, value.lanes)
        if value.lanes == 1:
            self.scalars[s.var.name] = new
            if new.dtype == S64:
                self.algebra.ranges[new.name] = self.algebra.ranges[s.var.name] = (
                    self.algebra.range_of(s.value)
                )
        else:
            self.vectors[s.var.name] = new
            self.varying.add(s.var.name)
            if s.var.dtype == S64 and not any(isinstance(n, Load) for n in walk(s.value)):
                # Indices are analyzed through it, so accesses may still be contiguous.
                self.algebra.values[s.var.name] = s.value
                self.scalars[s.var.name] = substitute_expr(s.value, self.scalars)
        return Let(new, value)

    def _allocate(self, s: Allocate) -> Stmt:
        old = s.buffer
        size = old.elements * self.chunk.lanes
        self.locals[old.name] = Buffer(self.names.fresh(old.name), old.dtype, (size,), "local")
        return Allocate(self.locals[old.name])

    def _store(self, s: Store) -> Stmt:
        (index,) = s.indices
        if s.buffer.name in self.accumulators:
            return self._accumulate(s, self.accumulators[s.buffer.name])
        if s.buffer.name in self.locals:
            return Store(
                self.locals[s.buffer.name], (self._local_index(index),), self.vector(s.value)
            )
        stride, at = self._stride(index)
        if stride == 0:
            raise NotVectorizable("iterations store to the same element")
        lane_index = at if stride == 1 else self._lane_index(index, stride, at)
        return Store(s.buffer, (lane_index,), self.vector(s.value), self.chunk.active)

    def _accumulate(self, s: Store, into: Accumulator) -> Stmt:
        (slot,) = s.indices
        _, at = self._stride(slot)
        index = into.index(at if into.slots is None else slot, self.chunk.copy)
        old = Load(into.lanes_buffer, (index,), self.chunk.lanes)
        found = accumulation(s)
        assert found is not None
        terms = [self.vector(term) for term in found[1]]
        if len(terms) == 1:
            new: Expr = Binary(found[0], old, terms[0])
        else:
            new = Call("fma", (*terms, old), old.dtype, old.lanes)
        if self.chunk.active is not None:  # inactive lanes keep their values
            lanes = self.chunk.lanes
            exists = Compare(
                "lt", Ramp(t.ZERO, lanes), Broadcast(t.as_expr(self.chunk.active), lanes)
            )
            new = Select(exists, new, old)
        return Store(into.lanes_buffer, (index,), new)

    def _for(self, s: For) -> Stmt:
        if s.kind not in ("serial", "unrolled"):
            raise NotVectorizable(f"a {s.kind} loop is inside")
        begin, end = self.expr(s.begin), self.expr(s.end)
        if begin.lanes != 1 or end.lanes != 1:
            raise NotVectorizable("the bounds of an inner loop vary")
        var = Var(self.names.fresh(s.var.name))
        self.scalars[s.var.name] = var
        self.algebra.bind_loop(s)
        self.algebra.ranges[var.name] = self.algebra.ranges[s.var.name]
        return For(var, begin, end, self.stmt(s.body), s.kind, s.step)

    def _prefetch(self, s: Prefetch) -> Stmt:
        """A hint for each cache line of contiguous lanes; none where lanes are apart."""
        (index,) = s.address.indices
        stride, at = self._stride(index)
        if stride not in (0, 1):
            return Block(())
        buffer, lanes = s.address.buffer, self.chunk.lanes if stride else 1
        starts = range(0, lanes, self.line // buffer.dtype.size)
        return Block(tuple([Prefetch(Slice(buffer, (at + x,)), s.level) for x in starts]))

    def _if(self, s: If) -> Stmt:
        condition = self.expr(s.condition)
        if condition.lanes != 1:
            # Its accesses may be in bounds only where it is taken.
            raise NotVectorizable("a branch varies")
        otherwise = None if s.otherwise is None else self.stmt(s.otherwise)
        return If(condition, self.stmt(s.then), otherwise)


def _unary(v: BodyVectorizer, e: Unary) -> Expr:
    return Unary(e.op, v.expr(e.operand))


def _binary(v: BodyVectorizer, e: Binary) -> Expr:
    return Binary(e.op, *v._agree(e.left, e.right))


def _compare(v: BodyVectorizer, e: Compare) -> Expr:
    return Compare(e.op, *v._agree(e.left, e.right))


def _select(v: BodyVectorizer, e: Select) -> Expr:
    return Select(*v._agree(e.condition, e.then, e.otherwise))


def _call(v: BodyVectorizer, e: Call) -> Expr:
    if e.name.startswith("reduce_"):
        raise NotVectorizable("a reduction of a vector is inside")
    args = v._agree(*e.args)
    return Call(e.name, tuple(args), e.dtype, args[0].lanes)


_VECTORIZE: dict[type, Callable[[BodyVectorizer, Any], Expr]] = {
    Const: lambda v, e: e,
    Var: BodyVectorizer._var,
    Load: BodyVectorizer._load,
    Unary: _unary,
    Binary: _binary,
    Compare: _compare,
    Select: _select,
    Cast: lambda v, e: Cast(v.expr(e.operand), e.dtype),
    Broadcast: lambda v, e: v.expr(e.operand),
    Ramp: lambda v, e: v.expr(e.base),
    Call: _call,
}
_VECTORIZE_STMT: dict[type, Callable[[BodyVectorizer, Any], Stmt]] = {
    Block: BodyVectorizer._block,
    Let: BodyVectorizer._let,
    Allocate: BodyVectorizer._allocate,
    Store: BodyVectorizer._store,
    For: BodyVectorizer._for,
    Prefetch: BodyVectorizer._prefetch,
    If: BodyVectorizer._if,
}
