"""The readable way to write loop nests: expression helpers that fold trivial index arithmetic, and `LoopBuilder`.

    b = LoopBuilder()
    with b.loop("i", 0, 128, "parallel") as i:
        with b.loop("j", 0, 64, "vector") as j:
            b.store(c, (i, j), mul(load(a, (i, j)), 2.0))
    function = b.function("double", (a, c))

A Python number may be passed wherever an expression is expected: it takes the type and lanes of the other operand, or
s64 if there is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from ..base.dims import Atom, Dim, Minimum, Quotient, Size
from ..base.dtypes import F32, S64, DType
from ..base.errors import InternalError
from .names import Names
from .nodes import (
    Allocate,
    Binary,
    Block,
    Brgemm,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Compare,
    Const,
    Epilogue,
    Expr,
    For,
    Function,
    If,
    Invoke,
    Let,
    Load,
    LoopKind,
    ParallelInvoke,
    PrefetchHint,
    Select,
    Slice,
    Stmt,
    Store,
    Unary,
    Var,
    While,
)

Value = Expr | Dim | int | float | bool

SIZE_PREFIX = "size_"
"""How the names of scalar parameters begin that are sizes."""

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
            term = mul(_atom_expr(atom), term)
        total = term if total is None else add(total, term)
    return ZERO if total is None else total


def _atom_expr(atom: Atom) -> Expr:
    if isinstance(atom, Quotient):
        return floordiv(size_expr(atom.numerator), atom.divisor)
    if isinstance(atom, Minimum):
        return minimum(*map(size_expr, atom.operands))
    return Var(SIZE_PREFIX + atom.name)


def _agree(left: Value, right: Value) -> tuple[Expr, Expr]:
    """Give a Python number the type and lanes of the other operand."""
    if isinstance(left, Dim):
        left = size_expr(left)
    if isinstance(right, Dim):
        right = size_expr(right)
    if isinstance(left, _NUMBERS):
        if isinstance(right, _NUMBERS):
            return as_expr(left), as_expr(right)
        return const(left, right.dtype, right.lanes), right
    if isinstance(right, _NUMBERS):
        return left, const(right, left.dtype, left.lanes)
    return left, right


def wrap_s64(value: int) -> int:
    """The s64 that the integer wraps to."""
    return (
        value
        if S64_MIN <= value <= S64_MAX
        else ((value - S64_MIN) & 0xFFFF_FFFF_FFFF_FFFF) + S64_MIN
    )


def is_index_const(expr: Expr) -> bool:
    """Whether `expr` is an s64 literal."""
    return type(expr) is Const and expr.dtype is S64


def add(left: Value, right: Value) -> Expr:
    """left + right."""
    a, b = _agree(left, right)
    if type(b) is Const and b.dtype is S64:
        if type(a) is Const:
            return Const(wrap_s64(int(a.value) + int(b.value)), S64)
        if b.value == 0:
            return a
        if type(a) is Binary and a.op == "add" and type(a.right) is Const:
            return add(a.left, Const(wrap_s64(int(a.right.value) + int(b.value)), S64))
    elif type(a) is Const and a.dtype is S64:
        return add(b, a)
    return Binary("add", a, b)


def sub(left: Value, right: Value) -> Expr:
    """left - right."""
    a, b = _agree(left, right)
    if type(b) is Const and b.dtype is S64 and b.value != S64_MIN:
        return add(a, Const(-int(b.value), S64))
    return Binary("sub", a, b)


def mul(left: Value, right: Value) -> Expr:
    """left * right."""
    a, b = _agree(left, right)
    if type(b) is Const and b.dtype is S64:
        if type(a) is Const:
            return Const(wrap_s64(int(a.value) * int(b.value)), S64)
        if b.value == 1:
            return a
        if b.value == 0:
            return ZERO
    elif type(a) is Const and a.dtype is S64:
        return mul(b, a)
    return Binary("mul", a, b)


def floordiv(left: Value, right: Value) -> Expr:
    """left / right: rounded towards minus infinity for integers, IEEE for floats."""
    a, b = _agree(left, right)
    if type(b) is Const and b.dtype is S64:
        if b.value == 1:
            return a
        if type(a) is Const:
            return Const(wrap_s64(int(a.value) // int(b.value)) if b.value else 0, S64)
    return Binary("div", a, b)


div = floordiv


def mod(left: Value, right: Value) -> Expr:
    """left - right * floor(left / right)."""
    a, b = _agree(left, right)
    if type(b) is Const and b.dtype is S64:
        if b.value == 1:
            return ZERO
        if type(a) is Const:
            return Const(int(a.value) % int(b.value) if b.value else 0, S64)
    return Binary("mod", a, b)


def minimum(left: Value, right: Value) -> Expr:
    """The smaller operand, NaN if either is NaN."""
    a, b = _agree(left, right)
    if is_index_const(a) and is_index_const(b):
        return a if a.value <= b.value else b  # type: ignore[union-attr]
    return Binary("min", a, b)


def maximum(left: Value, right: Value) -> Expr:
    """The larger operand, NaN if either is NaN."""
    a, b = _agree(left, right)
    if is_index_const(a) and is_index_const(b):
        return a if a.value >= b.value else b  # type: ignore[union-attr]
    return Binary("max", a, b)


def larger(left: Value, right: Value) -> Expr:
    """The larger of two floats; the left one if either is NaN."""
    return Binary("larger", *_agree(left, right))


_FOLDING = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "div": floordiv,
    "mod": mod,
    "min": minimum,
    "max": maximum,
}


def binary(op: str, left: Value, right: Value) -> Expr:
    """`op` of `BINARY_OPS`, folded where it is trivial index arithmetic."""
    folding = _FOLDING.get(op)
    return folding(left, right) if folding else Binary(op, *_agree(left, right))


def unary(op: str, operand: Expr) -> Expr:
    """`op` of `UNARY_OPS`."""
    return Unary(op, operand)


def compare(op: str, left: Value, right: Value) -> Expr:
    """`op` of `COMPARE_OPS`, giving bool."""
    return Compare(op, *_agree(left, right))


def select(condition: Expr, then: Value, otherwise: Value) -> Expr:
    """`then` where `condition` holds, else `otherwise`."""
    return Select(condition, *_agree(then, otherwise))


def cast(operand: Expr, dtype: DType) -> Expr:
    """`operand` converted to `dtype`; itself when it has that type already."""
    return operand if operand.dtype == dtype else Cast(operand, dtype)


def broadcast(operand: Expr, lanes: int) -> Expr:
    """`operand` in every lane; itself when `lanes` is 1."""
    return operand if lanes == 1 else Broadcast(operand, lanes)


def call(name: str, *args: Expr) -> Expr:
    """An intrinsic; `reduce_*` give a scalar, the others the lanes of their first argument."""
    lanes = 1 if name.startswith("reduce_") else args[0].lanes
    return Call(name, tuple(args), args[0].dtype, lanes)


def bitcast(operand: Expr, dtype: DType) -> Expr:
    """The bits of `operand` as `dtype`, in as many lanes as they fill; itself when it has that type already."""
    lanes = operand.dtype.bits * operand.lanes // dtype.bits
    return operand if operand.dtype == dtype else Call("bitcast", (operand,), dtype, lanes)


def fma(a: Expr, b: Expr, c: Expr) -> Expr:
    """a * b + c, rounded once."""
    return call("fma", a, b, c)


def exp_nonpositive(x: Expr) -> Expr:
    """e ** x where x is at most 0 or NaN: `exp`, in fewer instructions where the type has them."""
    return call("exp_nonpositive" if x.dtype == F32 else "exp", x)


def load(
    buffer: Buffer, indices: Sequence[Value], lanes: int = 1, active: int | None = None
) -> Load:
    """`lanes` elements of `buffer` from the one at `indices`."""
    return Load(buffer, tuple(as_expr(i) for i in indices), lanes, active)


def slice_of(buffer: Buffer, indices: Sequence[Value] | None = None) -> Slice:
    """The address of the element at `indices` (default: the first)."""
    return Slice(
        buffer,
        tuple(as_expr(i) for i in indices) if indices is not None else (ZERO,) * len(buffer.shape),
    )


def block_of(statements: Iterable[Stmt]) -> Stmt:
    """The statements as one: a single one stays as it is."""
    body = tuple(statements)
    return body[0] if len(body) == 1 else Block(body)


class LoopBuilder:
    """Collects statements; `with` opens a loop or branch. Names it makes are unique in the builder.

    `reserved` are names from elsewhere that must not be handed out, such as those of parameters.
    """

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._open: list[list[Stmt]] = [[]]
        self.names = Names(reserved)

    def emit(self, statement: Stmt) -> None:
        """Append a statement made elsewhere."""
        self._open[-1].append(statement)

    @contextmanager
    def loop(
        self, name: str, begin: Value, end: Value, kind: LoopKind = "serial", step: int = 1
    ) -> Iterator[Var]:
        """for name in range(begin, end, step): the statements made inside `with`."""
        var = Var(self.names.fresh(name))
        self._open.append([])
        yield var
        body = block_of(self._open.pop())
        self.emit(For(var, as_expr(begin), as_expr(end), body, kind, step))

    @contextmanager
    def when(self, condition: Expr) -> Iterator[None]:
        """if condition: the statements made inside `with`."""
        self._open.append([])
        yield
        self.emit(If(condition, block_of(self._open.pop())))

    @contextmanager
    def repeat(self, condition: Expr) -> Iterator[None]:
        """while condition: the statements made inside `with`."""
        self._open.append([])
        yield
        self.emit(While(condition, block_of(self._open.pop())))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """else: of the `when` just closed. InternalError if the previous statement is not a `when`."""
        self._open.append([])
        yield
        body = block_of(self._open.pop())
        previous = self._open[-1].pop() if self._open[-1] else None
        if not isinstance(previous, If) or previous.otherwise is not None:
            raise InternalError("LoopBuilder: otherwise() must follow when() directly")
        self.emit(If(previous.condition, previous.then, body))

    @contextmanager
    def block(self) -> Iterator[None]:
        """A nested block: the lifetime of what is allocated and bound inside `with`."""
        self._open.append([])
        yield
        self.emit(Block(tuple(self._open.pop())))

    def store(
        self, buffer: Buffer, indices: Sequence[Value], value: Value, active: int | None = None
    ) -> None:
        """buffer[indices] = value."""
        self.emit(
            Store(buffer, tuple(as_expr(i) for i in indices), as_expr(value, buffer.dtype), active)
        )

    def load(self, buffer: Buffer, indices: Sequence[Value], lanes: int = 1) -> Load:
        """The same as `builder.load`."""
        return load(buffer, indices, lanes)

    def let(self, name: str, value: Value) -> Var:
        """Bind a fresh name to `value`."""
        expr = as_expr(value)
        var = Var(self.names.fresh(name), expr.dtype, expr.lanes)
        self.emit(Let(var, expr))
        return var

    def allocate(self, name: str, dtype: DType, shape: Sequence[int]) -> Buffer:
        """A local buffer, undefined at first."""
        buffer = Buffer(self.names.fresh(name), dtype, tuple(shape), "local")
        self.emit(Allocate(buffer))
        return buffer

    def invoke(self, function: str, *args: Slice | Buffer | Value) -> None:
        """Call a function of the module; a `Buffer` argument means its first element."""
        self.emit(Invoke(function, tuple(_argument(a) for a in args)))

    def parallel_invoke(
        self, function: str, count: int | Expr, *args: Slice | Buffer | Value
    ) -> None:
        """Call `function(*args, i)` for 0 <= i < count."""
        self.emit(ParallelInvoke(function, tuple(_argument(a) for a in args), count))

    def brgemm(
        self,
        c: Slice,
        a: Slice,
        b: Slice,
        sizes: tuple[int, int, int],
        *,
        a_row: int,
        b_row: int,
        c_row: int,
        a_col: int = 1,
        batch: int = 1,
        a_batch: int = 0,
        b_batch: int = 0,
        accumulate: bool = False,
        n_padded: int = 1,
        epilogue: Epilogue | None = None,
        tile_rows: int = 4,
        prefetch: tuple[PrefetchHint, ...] = (),
        k_group: int = 1,
    ) -> None:
        """C (+)= sum of A_b x B_b for `sizes` = (m, n, k); strides in elements (see `nodes.Brgemm`)."""
        m, n, k = sizes
        self.emit(
            Brgemm(
                c, a, b, m, n, k, batch, a_batch, a_row, a_col, b_batch, b_row, c_row, accumulate, n_padded, epilogue,
                tile_rows, prefetch, k_group,
            )
        )  # fmt: skip

    def body(self) -> Block:
        """Everything made so far. InternalError while a loop or branch is open."""
        if len(self._open) != 1:
            raise InternalError("LoopBuilder: body() was asked for while a loop or branch is open")
        return Block(tuple(self._open[0]))

    def function(self, name: str, params: Sequence[Buffer | Var], note: str = "") -> Function:
        """Everything made so far as a function."""
        return Function(name, tuple(params), self.body(), note)


def _argument(arg: Slice | Buffer | Value) -> Slice | Expr:
    if isinstance(arg, Buffer):
        return slice_of(arg)
    if isinstance(arg, Slice):
        return arg
    return as_expr(arg)
