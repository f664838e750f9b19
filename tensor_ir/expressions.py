"""Expressions of Tensor IR: nodes, Python operators that build them, and the index arithmetic they simplify.

    row * stride + col      x // 16 % 4      i < n      x & mask      -x      buffer[i, j]

Index arithmetic (s64) folds constants and drops neutral elements while it is built. `==` compares the structure of
two expressions; `equal` and `unequal` build comparisons of their values. `/` is `//` of integers and the IEEE
division of floats.

A Python number or a `Dim` may be an operand wherever the other one is an expression: it takes the dtype and lanes of
the other operand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import Any, Literal, Union

from ..base.dims import Atom, Dim, Minimum, Quotient, Size
from ..base.dtypes import BOOL, F32, F64, S64, DType
from ..base.errors import InternalError
from ..base.records import dataclass
from ..base.scaled_sizes import Scaled

UNARY_OPS = ("neg", "not", "abs", "sqrt", "floor", "ceil", "trunc", "round_even")
BINARY_OPS = ("add", "sub", "mul", "div", "mod", "min", "max", "larger", "and", "or", "xor", "shl", "shr")  # fmt: skip
COMPARE_OPS = ("eq", "ne", "lt", "le", "gt", "ge")

Storage = Literal["param", "local"]


class Operators:
    """Python operators of expressions: each builds a node, or the simpler expression it equals."""

    __slots__ = ()

    def __add__(self: Any, other: Value) -> Expr:
        a, b = self, _operand(other, self)
        if is_index(b):
            if type(a) is Const:
                return Const(wrap_s64(int(a.value) + int(b.value)), S64)
            if b.value == 0:
                return a
            if type(a) is Binary and a.op == "add" and type(a.right) is Const:
                return a.left + Const(wrap_s64(int(a.right.value) + int(b.value)), S64)
        elif is_index(a):
            return b + a
        return Binary("add", a, b)

    def __sub__(self: Any, other: Value) -> Expr:
        b = _operand(other, self)
        if is_index(b) and b.value != S64_MIN:
            return self + Const(-int(b.value), S64)
        return Binary("sub", self, b)

    def __mul__(self: Any, other: Value) -> Expr:
        a, b = self, _operand(other, self)
        if is_index(b):
            if type(a) is Const:
                return Const(wrap_s64(int(a.value) * int(b.value)), S64)
            if b.value == 1:
                return a
            if b.value == 0:
                return ZERO
        elif is_index(a):
            return b * a
        return Binary("mul", a, b)

    def __floordiv__(self: Any, other: Value) -> Expr:
        a, b = self, _operand(other, self)
        if is_index(b):
            if b.value == 1:
                return a
            if type(a) is Const:
                return Const(wrap_s64(int(a.value) // int(b.value)) if b.value else 0, S64)
        return Binary("div", a, b)

    __truediv__ = __floordiv__

    def __mod__(self: Any, other: Value) -> Expr:
        a, b = self, _operand(other, self)
        if is_index(b):
            if b.value == 1:
                return ZERO
            if type(a) is Const:
                return Const(int(a.value) % int(b.value) if b.value else 0, S64)
        return Binary("mod", a, b)

    def __radd__(self: Any, other: Value) -> Expr:
        return _operand(other, self) + self

    def __rsub__(self: Any, other: Value) -> Expr:
        return _operand(other, self) - self

    def __rmul__(self: Any, other: Value) -> Expr:
        return _operand(other, self) * self

    def __rfloordiv__(self: Any, other: Value) -> Expr:
        return _operand(other, self) // self

    __rtruediv__ = __rfloordiv__

    def __rmod__(self: Any, other: Value) -> Expr:
        return _operand(other, self) % self

    def __and__(self: Any, other: Value) -> Expr:
        return Binary("and", self, _operand(other, self))

    def __or__(self: Any, other: Value) -> Expr:
        return Binary("or", self, _operand(other, self))

    def __xor__(self: Any, other: Value) -> Expr:
        return Binary("xor", self, _operand(other, self))

    def __lshift__(self: Any, other: Value) -> Expr:
        return Binary("shl", self, _operand(other, self))

    def __rshift__(self: Any, other: Value) -> Expr:
        return Binary("shr", self, _operand(other, self))

    def __neg__(self: Any) -> Expr:
        return Unary("neg", self)

    def __invert__(self: Any) -> Expr:
        return Unary("not", self)

    def __abs__(self: Any) -> Expr:
        return Unary("abs", self)

    def __lt__(self: Any, other: Value) -> Expr:
        return Compare("lt", self, _operand(other, self))

    def __le__(self: Any, other: Value) -> Expr:
        return Compare("le", self, _operand(other, self))

    def __gt__(self: Any, other: Value) -> Expr:
        return Compare("gt", self, _operand(other, self))

    def __ge__(self: Any, other: Value) -> Expr:
        return Compare("ge", self, _operand(other, self))


@dataclass(frozen=True)
class Buffer:
    """A dense row-major array. Locals are 64-byte aligned."""

    name: str
    dtype: DType
    shape: tuple[Any, ...]
    storage: Storage = "param"

    def __getitem__(self, index: Value | Sequence[Value]) -> Load:
        """Return the scalar load of the element at `index`, one expression per axis."""
        return Load(self, tuple(map(as_expr, index if isinstance(index, Sequence) else (index,))))

    __iter__ = None  # a buffer is indexed, not iterated

    @property
    def elements(self) -> int:
        """Number of elements of a buffer whose sizes are numbers, as those of all locals are."""
        return math.prod(size for size in self.shape if isinstance(size, int))


@dataclass(frozen=True, slots=True)
class Const(Operators):
    """A literal of a scalar type."""

    value: int | float | bool
    dtype: DType
    lanes: int = field(default=1, init=False)


@dataclass(frozen=True, slots=True)
class Var(Operators):
    """A loop variable, a scalar parameter, or the name bound by a `Let`."""

    name: str
    dtype: DType = S64
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class Load(Operators):
    """Elements of a buffer, from the one at `indices` (one per axis)."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    lanes: int = 1
    active: int | None = None

    @property
    def dtype(self) -> DType:
        """The buffer's element type."""
        return self.buffer.dtype


class _LikeOperand(Operators):
    """An expression with the dtype and lanes of its operand, where it has no field of that name."""

    __slots__ = ()
    operand: Expr

    @property
    def dtype(self) -> DType:
        """The operand's type."""
        return self.operand.dtype

    @property
    def lanes(self) -> int:
        """The operand's lanes."""
        return self.operand.lanes


class _LikeLeft(Operators):
    """An expression with the dtype and lanes of its left operand, where it has no field of that name."""

    __slots__ = ()
    left: Expr

    @property
    def dtype(self) -> DType:
        """The operands' type."""
        return self.left.dtype

    @property
    def lanes(self) -> int:
        """The operands' lanes."""
        return self.left.lanes


@dataclass(frozen=True, slots=True)
class Unary(_LikeOperand):
    """`op` of `UNARY_OPS`; `not` is bitwise (logical for bool); the rounding ops take floats."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(_LikeLeft):
    """`op` of `BINARY_OPS`; `div` of integers is the floor; `larger` is `max` of floats, but the left one at NaN."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Compare(_LikeLeft):
    """`op` of `COMPARE_OPS`, giving bool; every comparison with NaN is false but `ne`."""

    op: str
    left: Expr
    right: Expr
    dtype: DType = field(default=BOOL, init=False)

    def __bool__(self) -> bool:
        raise InternalError(
            f"a comparison of expressions has no truth value while code is built: {self}"
        )


@dataclass(frozen=True, slots=True)
class Select(Operators):
    """`then` where `condition` holds, else `otherwise`; both are evaluated."""

    condition: Expr
    then: Expr
    otherwise: Expr

    @property
    def dtype(self) -> DType:
        """The type of both arms."""
        return self.then.dtype

    @property
    def lanes(self) -> int:
        """The lanes of both arms."""
        return self.then.lanes


@dataclass(frozen=True, slots=True)
class Cast(_LikeOperand):
    """Conversion by value, lane by lane."""

    operand: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Broadcast(_LikeOperand):
    """A scalar copied to every lane."""

    operand: Expr
    lanes: int


@dataclass(frozen=True)
class Ramp(Operators):
    """base, base + 1, ..., base + lanes - 1 of an integer scalar."""

    base: Expr
    lanes: int

    @property
    def dtype(self) -> DType:
        """The base's type."""
        return self.base.dtype


@dataclass(frozen=True)
class Shuffle(Operators):
    """Lane i is lane pattern[i] of two vectors, the lanes of `right` counted after those of `left`."""

    left: Expr
    right: Expr
    pattern: tuple[int, ...]

    @property
    def dtype(self) -> DType:
        """The operands' type."""
        return self.left.dtype

    @property
    def lanes(self) -> int:
        """The number of lanes: that of the pattern."""
        return len(self.pattern)


@dataclass(frozen=True, slots=True)
class Call(Operators):
    """An intrinsic of `tensor_ir.intrinsics`: vector math, `fma`, dot products, horizontal reductions, bit casts."""

    name: str
    args: tuple[Expr, ...]
    dtype: DType
    lanes: int = 1


Expr = Union[Const, Var, Load, Unary, Binary, Compare, Select, Cast, Broadcast, Ramp, Shuffle, Call]

Value = Expr | Dim | int | float | bool

SIZE_PREFIX = "size_"
"""Prefix of the names of scalar parameters that are sizes."""

S64_MIN, S64_MAX = -(1 << 63), (1 << 63) - 1
ZERO, ONE = Const(0, S64), Const(1, S64)


def const(value: int | float | bool, dtype: DType = S64, lanes: int = 1) -> Expr:
    """A literal of `dtype`, in every lane."""
    if dtype.is_float:
        # One NaN, so that it equals itself.
        literal = Const(math.nan if value != value else float(value), dtype)
    else:
        literal = Const(bool(value) if dtype.kind == "bool" else int(value), dtype)
    return literal if lanes == 1 else Broadcast(literal, lanes)


_NUMBERS = (int, float)  # a bool is an int; made once, as operands are told apart very often


def as_expr(value: Value, dtype: DType = S64, lanes: int = 1) -> Expr:
    """`value` itself when it is an expression, else the literal of `dtype` and `lanes`."""
    if isinstance(value, _NUMBERS):
        return const(value, dtype, lanes)
    return size_expr(value) if isinstance(value, Dim) else value


def size_expr(value: Size) -> Expr:
    """A size as an index expression of the parameters that its symbols are."""
    if not isinstance(value, Dim):
        return const(value)
    total: Expr | None = None
    for monomial, factor in value.terms.items():
        term: Expr = Const(factor, S64)
        for atom in monomial:
            term = _atom_expr(atom) * term
        total = term if total is None else total + term
    return ZERO if total is None else total


def _atom_expr(atom: Atom) -> Expr:
    if isinstance(atom, Quotient):
        return size_expr(atom.numerator) // atom.divisor
    if isinstance(atom, Minimum):
        return minimum(*map(size_expr, atom.operands))
    if isinstance(atom, Scaled):
        value, factor, bits = atom.operands
        dtype = F64 if bits == 64 else F32
        return Cast(Unary("floor", Cast(size_expr(value), dtype) * factor), S64)
    return Var(SIZE_PREFIX + atom.name)


def _operand(value: Value, other: Expr) -> Any:
    """Return `value` as an operand beside `other`, whose dtype and lanes a Python number takes."""
    if isinstance(value, _NUMBERS):
        return const(value, other.dtype, other.lanes)
    return size_expr(value) if isinstance(value, Dim) else value


def agree(left: Value, right: Value) -> tuple[Expr, Expr]:
    """Give a Python number the type and lanes of the other operand."""
    if isinstance(left, Operators):
        return left, _operand(right, left)
    other = as_expr(right)
    return _operand(left, other), other


def wrap_s64(value: int) -> int:
    """The s64 that the integer wraps to."""
    return (
        value
        if S64_MIN <= value <= S64_MAX
        else ((value - S64_MIN) & 0xFFFF_FFFF_FFFF_FFFF) + S64_MIN
    )


def is_index(expr: Expr) -> bool:
    """Return whether `expr` is an s64 literal."""
    return type(expr) is Const and expr.dtype is S64


def minimum(left: Value, right: Value) -> Expr:
    """The smaller operand, NaN if either is NaN."""
    a, b = agree(left, right)
    if is_index(a) and is_index(b):
        return a if a.value <= b.value else b  # type: ignore[union-attr]
    return Binary("min", a, b)


def maximum(left: Value, right: Value) -> Expr:
    """The larger operand, NaN if either is NaN."""
    a, b = agree(left, right)
    if is_index(a) and is_index(b):
        return a if a.value >= b.value else b  # type: ignore[union-attr]
    return Binary("max", a, b)
