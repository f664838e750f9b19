"""The readable way to write loop nests: expression helpers that fold trivial index arithmetic, and `LoopBuilder`.

    b = LoopBuilder()
    with b.loop("i", 0, 128, "parallel") as i:
        with b.loop("j", 0, 64, "vector") as j:
            b.store(c, (i, j), a[i, j] * 2.0)
    function = b.function("double", (a, c))

A Python number may be passed wherever an expression is expected: it takes the type and lanes of the other operand, or
s64 if there is none.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..base.dtypes import F32, DType
from ..base.errors import InternalError
from .expressions import ONE as ONE
from .expressions import S64_MAX as S64_MAX
from .expressions import S64_MIN as S64_MIN
from .expressions import SIZE_PREFIX as SIZE_PREFIX
from .expressions import ZERO as ZERO
from .expressions import (
    Binary,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Compare,
    Expr,
    Load,
    Select,
    Unary,
    Var,
    agree,
)
from .expressions import Value as Value
from .expressions import as_expr as as_expr
from .expressions import const as const
from .expressions import maximum as maximum
from .expressions import minimum as minimum
from .expressions import size_expr as size_expr
from .expressions import wrap_s64 as wrap_s64
from .names import Names
from .nodes import (
    Allocate,
    Block,
    Brgemm,
    Epilogue,
    For,
    Function,
    If,
    Invoke,
    Let,
    LoopKind,
    Matrices,
    ParallelInvoke,
    PrefetchHint,
    Slice,
    Stmt,
    Store,
    Stride,
    While,
)


def larger(left: Value, right: Value) -> Expr:
    """The larger of two floats; the left one if either is NaN."""
    return Binary("larger", *agree(left, right))


_FOLDING: dict[str, Callable[[Any, Any], Expr]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.floordiv,
    "mod": operator.mod,
    "min": minimum,
    "max": maximum,
}


def binary(op: str, left: Value, right: Value) -> Expr:
    """Return `op` of `BINARY_OPS`, simplified like the operators, for an op chosen by a table."""
    a, b = agree(left, right)
    folding = _FOLDING.get(op)
    return folding(a, b) if folding else Binary(op, a, b)


def unary(op: str, operand: Expr) -> Expr:
    """Return `op` of `UNARY_OPS`, for an op chosen by a table or without a Python operator."""
    return Unary(op, operand)


def compare(op: str, left: Value, right: Value) -> Compare:
    """Return the comparison `op` of `COMPARE_OPS`."""
    return Compare(op, *agree(left, right))


def equal(left: Value, right: Value) -> Compare:
    """Return whether two values are equal at run time."""
    return compare("eq", left, right)


def unequal(left: Value, right: Value) -> Compare:
    """Return whether two values differ at run time."""
    return compare("ne", left, right)


def select(condition: Expr, then: Value, otherwise: Value) -> Expr:
    """`then` where `condition` holds, else `otherwise`."""
    return Select(condition, *agree(then, otherwise))


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


def exp_weight(x: Expr) -> Expr:
    """The same as a weight beside e ** 0: f32 results below the normal numbers may be 0, which takes less time."""
    return call("exp_weight" if x.dtype == F32 else "exp", x)


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
    """Return one statement for a sequence of statements: a single statement is returned unchanged."""
    body = tuple(statements)
    return body[0] if len(body) == 1 else Block(body)


def brgemm(
    c: Slice, a: Slice, b: Slice, m: Stride, n: int, k: Stride, batch: int, a_batch: Stride, a_row: Stride,
    a_col: Stride, b_batch: Stride, b_row: Stride, c_row: Stride, accumulate: bool, n_padded: int,
    epilogue: Epilogue | None = None, tile_rows: Stride = 4, prefetch: tuple[PrefetchHint, ...] = (), k_group: int = 1,
    multiply: str = "", a_tile: int = 0,
) -> Brgemm:  # fmt: skip
    """Return a `Brgemm` from the numbers that its text names."""
    left, right = Matrices(a, a_row, a_col, a_batch, a_tile), Matrices(b, b_row, 1, b_batch)
    return Brgemm(
        Matrices(c, c_row), left, right, m, n, k, batch, accumulate, n_padded, tile_rows, k_group, epilogue, prefetch,
        multiply,
    )  # fmt: skip


class LoopBuilder:
    """Collects statements; `with` opens a loop or branch. Names it makes are unique in the builder.

    `reserved` are names from elsewhere that must not be handed out, such as those of parameters.
    """

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._open: list[list[Stmt]] = [[]]
        self.names = Names(reserved)

    def emit(self, *statements: Stmt) -> None:
        """Append statements made elsewhere."""
        self._open[-1] += statements

    @contextmanager
    def loop(
        self, name: str, begin: Value, end: Value, kind: LoopKind = "serial", step: int = 1
    ) -> Iterator[Var]:
        """Open a loop `for name in range(begin, end, step)` around the statements made inside `with`."""
        var = Var(self.names.fresh(name))
        self._open.append([])
        yield var
        body = block_of(self._open.pop())
        self.emit(For(var, as_expr(begin), as_expr(end), body, kind, step))

    def tiles(self, name: str, size: int, step: int) -> Iterator[tuple[Expr, int]]:
        """Yield (number, elements) of the whole tiles of `size` elements, in a loop, then of the remainder.

        `for number, count in b.tiles("tile", 10, 4)` runs twice: in a loop over tiles 0 and 1 of 4 elements, and for
        tile 2 of 2.
        """
        full, rest = divmod(size, step)
        if full:
            with self.loop(name, 0, full) as number:
                yield number, step
        if rest:
            yield as_expr(full), rest

    def tile_sizes(self, number: Expr, size: int, step: int) -> Iterator[int]:
        """Yield the elements of tile `number` of `size` elements: of a whole one, and in another branch of the last."""
        full, rest = divmod(size, step)
        if not (full and rest):
            yield step if full else rest
            return
        with self.when(number < full):
            yield step
        with self.otherwise():
            yield rest

    @contextmanager
    def when(self, condition: Expr | bool) -> Iterator[None]:
        """Open a branch `if condition` around the statements made inside `with`; none where the condition is True."""
        if condition is True:
            yield
            return
        self._open.append([])
        yield
        self.emit(If(as_expr(condition), block_of(self._open.pop())))

    @contextmanager
    def repeat(self, condition: Expr) -> Iterator[None]:
        """while condition: the statements made inside `with`."""
        self._open.append([])
        yield
        self.emit(While(condition, block_of(self._open.pop())))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """else: of the `when` just closed. Raise InternalError if the previous statement is not a `when`."""
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

    def statements(self) -> list[Stmt]:
        """Return all statements made so far. InternalError while a loop or branch is not finished."""
        if len(self._open) != 1:
            raise InternalError(
                "LoopBuilder: its body was requested while a loop or branch is open"
            )
        return self._open[0]

    def body(self) -> Block:
        """Return all statements made so far as a block. InternalError while a loop or branch is not finished."""
        return Block(tuple(self.statements()))

    def function(self, name: str, params: Sequence[Buffer | Var], note: str = "") -> Function:
        """Return all statements made so far as a function."""
        return Function(name, tuple(params), self.body(), note)


def _argument(arg: Slice | Buffer | Value) -> Slice | Expr:
    if isinstance(arg, Buffer):
        return slice_of(arg)
    if isinstance(arg, Slice):
        return arg
    return as_expr(arg)
