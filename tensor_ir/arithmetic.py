"""The meaning of every operator on NumPy values, as `nodes` states it.

The interpreter runs these on scalars and vectors; `simplify` folds constants with them. Both silence NumPy's warnings
(`np.errstate`) once around many operations, as it costs more than an operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.dtypes import BOOL, DType, from_numpy
from ..base.errors import InternalError
from ..base.rounding import to_small_float

Array = Any
"""A NumPy scalar or array of one graphc dtype."""


def _shift_left(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    amount, fits = _amount(b, bits)
    return np.where(fits, np.left_shift(a, amount.astype(a.dtype)), np.zeros_like(a))[()]


def _shift_right(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    amount, fits = _amount(b, bits)
    beyond = (
        np.right_shift(a, np.asarray(bits - 1, dtype=a.dtype))
        if a.dtype.kind == "i"
        else np.zeros_like(a)
    )
    return np.where(fits, np.right_shift(a, amount.astype(a.dtype)), beyond)[()]


def _amount(b: Array, bits: int) -> tuple[Array, Array]:
    """The shift amount where it is below `bits`, and where it is. A negative amount counts as a huge one."""
    fits = (b >= 0) & (b < bits)
    return np.where(fits, b, np.zeros_like(b)), fits


def _divide(a: Array, b: Array) -> Array:
    return a // b if a.dtype.kind in "iu" else a / b


def _larger(a: Array, b: Array) -> Array:
    chosen: Array = np.where(b > a, b, a)
    return chosen[()]


BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _divide,
    "mod": np.mod,
    "min": np.minimum,
    "max": np.maximum,
    "larger": _larger,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": _shift_left,
    "shr": _shift_right,
}
UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "not": np.invert,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round_even": np.rint,
}
COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def cast(a: Array, dtype: DType) -> Array:
    """Conversion by value, rounded once."""
    source = from_numpy(a.dtype)
    if source == dtype:
        return a
    if source.is_storage:
        return cast(a.astype(source.accumulator.numpy), dtype)
    if source.is_float and dtype.kind in ("int", "uint"):
        return _saturate(a, dtype)
    if dtype == BOOL:
        return a != 0
    if dtype.is_float and dtype.is_storage:
        return to_small_float(a, dtype)
    return a.astype(dtype.numpy)


def _saturate(a: Array, dtype: DType) -> Array:
    wide = np.trunc(np.asarray(a).astype(np.float64))
    first, last = dtype.limits
    low, high = float(first), float(last + 1)  # exact, unlike the 64-bit maximum
    inside = (wide >= low) & (wide < high)
    result = np.where(inside, wide, 0.0).astype(dtype.accumulator.numpy)
    result = np.where(wide >= high, result.dtype.type(last), result)
    result = np.where(wide < low, result.dtype.type(first), result)
    return result.astype(dtype.numpy)[()]


_SMALL = 1 << 14
"""Up to this no float overflows that has infinities, so that NumPy has nothing to warn of."""


def literal(value: int | float | bool, dtype: DType) -> Array:
    """The NumPy scalar of a `Const`. Raise InternalError if the dtype cannot hold the value."""
    try:
        if abs(value) <= _SMALL:
            return dtype.numpy.type(value)
        with np.errstate(all="ignore"):
            return dtype.numpy.type(value)
    except OverflowError as error:
        raise InternalError(f"constant {value} does not fit {dtype}") from error
