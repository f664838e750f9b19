"""Expressions as closures over an environment: the arithmetic half of the interpreter.

A scalar s64 is a Python int (index arithmetic is most of the work), any other scalar a NumPy scalar, a vector a NumPy
array. A buffer is its flat NumPy array.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..base.dtypes import S64
from ..base.errors import InternalError
from . import arithmetic
from .builder import wrap_s64
from .index_code import flat_index_function, index_function
from .intrinsics import INTRINSICS
from .nodes import (
    Binary,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Load,
    Ramp,
    Select,
    Shuffle,
    Unary,
    Var,
)
from .sizes import elements_of

Env = dict[str, Any]
Evaluate = Callable[[Env], Any]
FlatIndex = Callable[[Env], Any]
"""An environment -> flat index, or array of flat indices."""


def _shift_left(a: int, b: int) -> int:
    return wrap_s64(a << b) if 0 <= b < 64 else 0


def _shift_right(a: int, b: int) -> int:
    return a >> b if 0 <= b < 64 else a >> 63


_INDEX_OPS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: wrap_s64(a + b),
    "sub": lambda a, b: wrap_s64(a - b),
    "mul": lambda a, b: wrap_s64(a * b),
    "div": lambda a, b: wrap_s64(a // b) if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shl": _shift_left,
    "shr": _shift_right,
}
_INDEX_COMPARE: dict[str, Callable[[int, int], bool]] = {
    name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}


def compile_expr(e: Expr) -> Evaluate:
    """A closure that gives the value of `e` in an environment."""
    return _COMPILERS[type(e)](e)


def compile_size(size: int | Expr) -> Evaluate:
    """A closure that gives a size of a buffer or a count."""
    return (lambda env: size) if isinstance(size, int) else compile_expr(size)


def compile_index(buffer: Buffer, indices: Sequence[Expr], touched: int) -> FlatIndex:
    """A closure that gives the flat index of the element at `indices`, from which `touched` elements are in the buffer.

    With an index of lanes: the flat indices of the first `touched`.
    """
    if len(indices) != len(buffer.shape):
        raise InternalError(
            f"buffer '{buffer.name}' of shape {list(buffer.shape)} is indexed by {len(indices)} numbers"
        )
    if indices and indices[-1].lanes > 1:
        return _compile_lane_indices(buffer, indices, touched)
    slow: list[FlatIndex] = []

    def checked(env: Env) -> Any:
        if not slow:  # compiled only if it is needed
            slow.append(_compile_checked_index(buffer, indices, touched))
        return slow[0](env)

    return flat_index_function(buffer.shape, indices, touched, checked) or checked


def _compile_checked_index(buffer: Buffer, indices: Sequence[Expr], touched: int) -> FlatIndex:
    """Compile an index, like `compile_index`, of any expressions; raise InternalError for an index outside."""
    extents = [compile_size(size) for size in buffer.shape]
    axes = list(zip([compile_expr(i) for i in indices], extents, strict=True))
    whole = compile_size(elements_of(buffer.shape))

    def flat_index(env: Env) -> int:
        at, size = 0, whole(env)
        for index, length in axes:
            i, extent = index(env), length(env)
            if i < 0 or (touched and i >= extent):
                raise _out_of_bounds(buffer, [index(env) for index, _ in axes])
            at = at * extent + i
        if at + touched > size:
            raise _out_of_bounds(buffer, [index(env) for index, _ in axes], touched)
        return at

    return flat_index


def _compile_lane_indices(buffer: Buffer, indices: Sequence[Expr], touched: int) -> FlatIndex:
    rows = Buffer(buffer.name, buffer.dtype, (*buffer.shape[:-1], 1))
    outer = compile_index(rows, (*indices[:-1], Const(0, S64)), 1)
    last, length = compile_expr(indices[-1]), compile_size(buffer.shape[-1])

    def offsets(env: Env) -> Any:
        lanes, extent = last(env)[:touched], length(env)
        if np.any((lanes < 0) | (lanes >= extent)):
            raise _out_of_bounds(buffer, lanes.tolist())
        return outer(env) * extent + lanes

    return offsets


def _out_of_bounds(buffer: Buffer, at: list[int], touched: int = 1) -> InternalError:
    what = f"index {at}" if touched == 1 else f"{touched} elements from index {at} on"
    return InternalError(
        f"buffer '{buffer.name}' of shape {list(buffer.shape)}: {what} is out of bounds"
    )


def _is_index(e: Expr) -> bool:
    return e.lanes == 1 and e.dtype == S64


def _const(e: Const) -> Evaluate:
    value = int(e.value) if e.dtype == S64 else arithmetic.literal(e.value, e.dtype)
    return lambda env: value


def _var(e: Var) -> Evaluate:
    return operator.itemgetter(e.name)


def _load(e: Load) -> Evaluate:
    active, dtype, name = e.active or e.lanes, e.dtype.numpy, e.buffer.name
    flat_index = compile_index(e.buffer, e.indices, active)
    if e.lanes == 1:
        if e.dtype == S64:
            return lambda env: int(env[name][flat_index(env)])
        return lambda env: env[name][flat_index(env)]
    is_gather = bool(e.indices) and e.indices[-1].lanes > 1
    if active == e.lanes and not is_gather:

        def load_all(env: Env) -> Any:
            at = flat_index(env)
            return env[name][at : at + active].copy()

        return load_all

    def load(env: Env) -> Any:
        at = flat_index(env)
        result = np.zeros(e.lanes, dtype)
        result[:active] = env[name][at] if is_gather else env[name][at : at + active]
        return result

    return load


def _unary(e: Unary) -> Evaluate:
    operand, function = compile_expr(e.operand), arithmetic.UNARY[e.op]
    if _is_index(e):
        return lambda env: int(function(np.int64(operand(env))))
    return lambda env: function(operand(env))


def _binary(e: Binary) -> Evaluate:
    if _is_index(e) and (found := index_function(e)):
        return found
    left, right = compile_expr(e.left), compile_expr(e.right)
    function: Callable[[Any, Any], Any] = (
        _INDEX_OPS[e.op] if _is_index(e) else arithmetic.BINARY[e.op]
    )
    return lambda env: function(left(env), right(env))


def _compare(e: Compare) -> Evaluate:
    left, right = compile_expr(e.left), compile_expr(e.right)
    function: Callable[[Any, Any], Any] = (
        _INDEX_COMPARE[e.op] if _is_index(e.left) else arithmetic.COMPARE[e.op]
    )
    wrap = np.bool_ if e.lanes == 1 else np.asarray
    return lambda env: wrap(function(left(env), right(env)))


def _select(e: Select) -> Evaluate:
    condition, then, otherwise = (
        compile_expr(e.condition),
        compile_expr(e.then),
        compile_expr(e.otherwise),
    )
    if e.lanes == 1:

        def select(env: Env) -> Any:
            # Both are evaluated, so that an invalid access in either is found.
            arms = (
                otherwise(env),
                then(env),
            )
            return arms[bool(condition(env))]

        return select
    return lambda env: np.where(condition(env), then(env), otherwise(env))


def _cast(e: Cast) -> Evaluate:
    operand, dtype = compile_expr(e.operand), e.dtype
    if e.lanes > 1:
        return lambda env: arithmetic.cast(operand(env), dtype)
    if _is_index(e.operand):
        inner = operand
        operand = lambda env: np.int64(inner(env))  # noqa: E731
    if dtype == S64:
        return lambda env: int(arithmetic.cast(operand(env), dtype))
    return lambda env: arithmetic.cast(operand(env), dtype)


def _broadcast(e: Broadcast) -> Evaluate:
    operand, lanes, dtype = compile_expr(e.operand), e.lanes, e.dtype.numpy
    return lambda env: np.full(lanes, operand(env), dtype)


def _ramp(e: Ramp) -> Evaluate:
    base, dtype = compile_expr(e.base), e.dtype.numpy
    steps = np.arange(e.lanes).astype(dtype)
    return lambda env: steps + dtype.type(base(env))


def _shuffle(e: Shuffle) -> Evaluate:
    left, right, pattern = compile_expr(e.left), compile_expr(e.right), list(e.pattern)
    return lambda env: np.concatenate([left(env), right(env)])[pattern]


def _call(e: Call) -> Evaluate:
    args, meaning, dtype = (
        [compile_expr(a) for a in e.args],
        INTRINSICS[e.name].meaning,
        e.dtype.numpy,
    )
    if INTRINSICS[e.name].reduces and e.args[0].lanes == 1:
        return args[0]
    if INTRINSICS[e.name].retypes:
        meaning = _to_dtype(meaning, e.args[0].dtype.numpy, dtype, e.lanes)
    if INTRINSICS[e.name].narrows:
        meaning = partial(meaning, dtype=dtype)

    def call(env: Env) -> Any:
        result = np.asarray(meaning(*[a(env) for a in args])).astype(dtype)
        return result[()] if result.ndim else dtype.type(result)

    if _is_index(e):
        return lambda env: int(call(env))
    return call


def _to_dtype(
    meaning: Callable[..., Any], source: np.dtype, target: np.dtype, lanes: int
) -> Callable[..., Any]:
    """The meaning of a retyping intrinsic; an index, which is a Python integer, gets its dtype first."""
    shape = () if lanes == 1 else (lanes,)
    return lambda x: meaning(np.asarray(x, source), target).reshape(shape)


_COMPILERS: dict[type, Callable[[Any], Evaluate]] = {
    Const: _const,
    Var: _var,
    Load: _load,
    Unary: _unary,
    Binary: _binary,
    Compare: _compare,
    Select: _select,
    Cast: _cast,
    Broadcast: _broadcast,
    Ramp: _ramp,
    Shuffle: _shuffle,
    Call: _call,
}
