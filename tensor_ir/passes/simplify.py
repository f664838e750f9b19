"""Fold what is known at compile time: index arithmetic, constants, loops of no or one trip, dead bindings.

before   for i in range(0, 1): t = a[(i * 16 + j) // 16]; if 3 < 4: b[j % 16] = t
after    t = a[0]; b[j] = t                                                   (for 0 <= j < 16)
Ensures: names are unique within a function; index arithmetic is in the normal form of `analysis`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ...base.dtypes import F32, F64, S64, DType
from ...targets.isa import Target
from .. import arithmetic
from ..analysis import INDEX_OPS, IndexAlgebra
from ..builder import const
from ..dead_code import without_dead_code
from ..names import Names
from ..nodes import (
    Allocate,
    Binary,
    Block,
    Broadcast,
    Buffer,
    Cast,
    Compare,
    Const,
    Expr,
    For,
    Function,
    If,
    Let,
    Module,
    Ramp,
    Select,
    Stmt,
    Unary,
    Var,
    While,
)
from ..visitor import Rewriter, bound_names, map_functions


def simplify(module: Module, target: Target) -> Module:
    """Simplify every function."""
    with np.errstate(all="ignore"):
        return map_functions(
            module, lambda function: without_dead_code(_Simplifier(function).function(function))
        )


class _Simplifier(Rewriter):
    """One top-down walk, so that the ranges of enclosing loops are known."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self.seen = {param.name for param in function.params}
        self.algebra = IndexAlgebra(super().expr)
        self.renamed: dict[str, Expr] = {}
        self.rounded: dict[str, Cast] = {}  # variables that hold a rounded number in a wider type
        self.buffers: dict[str, Buffer] = {}

    @cached_property
    def names(self) -> Names:
        """All names of the function; most functions need no fresh one."""
        return Names(bound_names(self._function))

    # expressions

    def expr(self, e: Expr) -> Expr:
        if type(e) is Binary and e.op in INDEX_OPS and e.lanes == 1 and e.dtype == S64:
            return self.algebra.simplify(self._renamed_vars(e))
        return super().expr(e)

    def _renamed_vars(self, e: Expr) -> Expr:
        """Index arithmetic with the variables under their current names."""
        if type(e) is Var:
            return self.renamed.get(e.name, e)
        if type(e) is Binary and e.op in INDEX_OPS:
            left, right = self._renamed_vars(e.left), self._renamed_vars(e.right)
            return e if left is e.left and right is e.right else Binary(e.op, left, right)
        return e

    def var(self, e: Var) -> Expr:
        return self.renamed.get(e.name, e)

    def buffer(self, buffer: Buffer) -> Buffer:
        return self.buffers.get(buffer.name, buffer)

    def unary(self, e: Unary) -> Expr:
        new = super().unary(e)
        value = _known(new.operand) if type(new) is Unary else None
        return (
            _literal(arithmetic.UNARY[e.op](value), e.dtype, e.lanes) if value is not None else new
        )

    def binary(self, e: Binary) -> Expr:
        new = super().binary(e)
        if type(new) is not Binary:
            return new
        left, right = _known(new.left), _known(new.right)
        if left is not None and right is not None:
            return _literal(arithmetic.BINARY[e.op](left, right), new.dtype, new.lanes)
        if right is not None and _is_identity(e.op, right):
            return new.left
        return self._lane_index(new) if new.lanes > 1 and new.dtype == S64 else new

    def _lane_index(self, e: Binary) -> Expr:
        """Index arithmetic on vectors: the part that all lanes share is computed once."""
        if e.op not in INDEX_OPS or not isinstance(e.right, Broadcast):
            return e
        if isinstance(e.left, Broadcast):
            return Broadcast(self.expr(Binary(e.op, e.left.operand, e.right.operand)), e.lanes)
        if isinstance(e.left, Ramp) and e.op in ("add", "sub"):
            return Ramp(self.expr(Binary(e.op, e.left.base, e.right.operand)), e.lanes)
        return e

    def compare(self, e: Compare) -> Expr:
        new = super().compare(e)
        if type(new) is not Compare:
            return new
        if new.lanes == 1 and new.left.dtype == S64:
            return self._compare_index(new)
        left, right = _known(new.left), _known(new.right)
        if left is None or right is None:
            return new
        return _literal(arithmetic.COMPARE[e.op](left, right), new.dtype, new.lanes)

    def _compare_index(self, e: Compare) -> Expr:
        """Decide a comparison whose sides never overlap."""
        (a, b), (c, d) = self.algebra.range_of(e.left), self.algebra.range_of(e.right)
        low, high = self.algebra.difference(e.left, e.right)
        below, above = b < c or high < 0, d < a or low > 0
        at_most, at_least = b <= c or high <= 0, d <= a or low >= 0
        same = low == high == 0
        truth = {
            "lt": (below, at_least),
            "le": (at_most, above),
            "gt": (above, at_most),
            "ge": (at_least, below),
            "eq": (same, below or above),
            "ne": (below or above, same),
        }[e.op]
        return const(truth[0], e.dtype) if any(truth) else e

    def select(self, e: Select) -> Expr:
        new = super().select(e)
        value = _known(new.condition) if type(new) is Select else None
        if type(new) is not Select or value is None:
            return new
        return new.then if value else new.otherwise

    def cast(self, e: Cast) -> Expr:
        new = super().cast(e)
        if type(new) is not Cast:
            return new
        if new.operand.dtype == new.dtype:
            return new.operand
        operand = new.operand
        rounded = self.rounded.get(operand.name) if type(operand) is Var else _rounded(operand)
        if rounded is not None and rounded.dtype == new.dtype:
            return rounded
        value = _known(operand)
        return (
            new
            if value is None
            else _literal(arithmetic.cast(value, new.dtype), new.dtype, new.lanes)
        )

    def broadcast(self, e: Broadcast) -> Expr:
        new = super().broadcast(e)
        return new.operand if type(new) is Broadcast and new.lanes == 1 else new

    def ramp(self, e: Ramp) -> Expr:
        new = super().ramp(e)
        return new.base if type(new) is Ramp and new.lanes == 1 else new

    # statements

    def block(self, s: Block) -> Block:
        renamed, buffers = dict(self.renamed), dict(self.buffers)
        body: list[Stmt] = []
        for inner in s.body:
            new = self.stmt(inner)
            for piece in new if isinstance(new, tuple) else (new,):
                body.extend(piece.body if isinstance(piece, Block) else (piece,))
        self.renamed, self.buffers = renamed, buffers
        same = len(body) == len(s.body) and all(a is b for a, b in zip(body, s.body, strict=True))
        return s if same else Block(tuple(body))

    def function(self, f: Function) -> Function:
        body = self.block(f.body)
        return f if body is f.body else replace(f, body=body)

    def _bind(self, var: Var) -> Var:
        """The variable under a name that is unique in the function."""
        name = self._unique(var.name)
        self.renamed.pop(var.name, None)
        if name == var.name:
            return var
        new = Var(name, var.dtype, var.lanes)
        self.renamed[var.name] = new
        return new

    def _unique(self, name: str) -> str:
        """The name itself the first time, a fresh one after that."""
        if name not in self.seen:
            self.seen.add(name)
            return name
        return self.names.fresh(name)

    def let(self, s: Let) -> Stmt | tuple[Stmt, ...]:
        value = self.expr(s.value)
        if type(value) in (Const, Var) or (
            type(value) is Broadcast and type(value.operand) in (Const, Var)
        ):
            self.renamed[s.var.name] = value
            return ()
        var = self._bind(s.var)
        if (rounded := _rounded(value)) is not None:
            self.rounded[var.name] = rounded
        if var.dtype == S64 and var.lanes == 1:
            self.algebra.ranges[var.name] = self.algebra.range_of(value)
        return s if value is s.value and var is s.var else Let(var, value)

    def allocate(self, s: Allocate) -> Stmt:
        old = s.buffer
        name = self._unique(old.name)
        self.buffers.pop(old.name, None)
        if name == old.name:
            return s
        self.buffers[old.name] = Buffer(name, old.dtype, old.shape, old.storage)
        return Allocate(self.buffers[old.name])

    def for_(self, s: For) -> Stmt | tuple[Stmt, ...]:
        begin, end = self.expr(s.begin), self.expr(s.end)
        low, high = self.algebra.difference(end, begin)
        if high <= 0:
            return ()
        if low > 0 and high <= s.step:
            return self._single_trip(s, begin)
        var = self._bind(s.var)
        self.algebra.bind_loop(For(var, begin, end, s.body, s.kind, s.step))
        body = self.body(s.body)
        same = begin is s.begin and end is s.end and body is s.body and var is s.var
        return s if same else For(var, begin, end, body, s.kind, s.step)

    def _single_trip(self, s: For, begin: Expr) -> Stmt:
        """The body with the variable replaced by its initial value."""
        outer = self.renamed.get(s.var.name)
        self.renamed[s.var.name] = begin
        body = self.body(s.body)
        if outer is None:
            self.renamed.pop(s.var.name, None)
        else:
            self.renamed[s.var.name] = outer
        return body

    def if_(self, s: If) -> Stmt | tuple[Stmt, ...]:
        condition = self.expr(s.condition)
        value = _known(condition)
        if value is not None:
            taken = s.then if value else s.otherwise
            return () if taken is None else self.body(taken)
        then = self.body(s.then)
        otherwise = None if s.otherwise is None else self.body(s.otherwise)
        same = condition is s.condition and then is s.then and otherwise is s.otherwise
        return s if same else If(condition, then, otherwise)

    def while_(self, s: While) -> Stmt | tuple[Stmt, ...]:
        condition = self.expr(s.condition)
        if _known(condition) is not None and not _known(condition):
            return ()
        body = self.body(s.body)
        return s if condition is s.condition and body is s.body else While(condition, body)


def _rounded(e: Expr) -> Cast | None:
    """Return the rounded number that an expression widens without loss: rounding it again changes no bit."""
    if type(e) is not Cast or e.dtype not in (F32, F64) or type(e.operand) is not Cast:
        return None
    inner = e.operand
    return inner if type(inner.operand) is Var and inner.dtype.bits <= 16 else None


def _known(e: Expr) -> Any:
    """The NumPy value of a constant, also of one in every lane; None for anything else."""
    if type(e) is Broadcast:
        e = e.operand
    return arithmetic.literal(e.value, e.dtype) if type(e) is Const else None


def _literal(value: Any, dtype: DType, lanes: int) -> Expr:
    """The constant in its shortest decimal form: 0.1 instead of 0.10000000149011612 for an f32."""
    return const(float(str(value)) if dtype.is_float else value.item(), dtype, lanes)


def _is_identity(op: str, right: Any) -> bool:
    """Return whether x op right is x for every x, NaN and -0.0 included."""
    one = op in ("mul", "div") and right == 1
    is_float = right.dtype.kind not in "iub"
    zero_minus = op == "sub" and right == 0 and (not is_float or not np.signbit(right))
    zero = not is_float and op in ("add", "or", "xor", "shl", "shr") and right == 0
    return bool(one or zero_minus or zero)
