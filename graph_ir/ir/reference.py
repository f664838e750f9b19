"""Numeric rules shared by the NumPy references: rounding of floats and conversion between types.

Floats are computed in float64 and rounded to the type the native code computes in (f32 for small floats), then to the
type itself, so that the reference is never less accurate. Integers stay in their own type and wrap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.dtypes import BOOL, F64, DType, from_numpy
from ...base.rounding import to_small_float

Array = np.ndarray[Any, Any]


def widen(array: Array) -> Array:
    """Return floats as float64, 2- and 4-bit integers as bytes, and other arrays unchanged."""
    dtype = from_numpy(array.dtype)
    if dtype.is_float:
        return array.astype(F64.numpy)
    return array.astype(dtype.accumulator.numpy) if dtype.is_storage else array


def narrow(value: Any, dtype: DType) -> Array:
    """A computed value rounded, or wrapped, to `dtype`."""
    array = np.asarray(value)
    with np.errstate(all="ignore"):
        return array.astype(dtype.accumulator.numpy).astype(dtype.numpy)


def convert(array: Array, dtype: DType) -> Array:
    """Conversion by value as `tensor_ir.nodes.Cast` does it, rounded once.

    Float to integer truncates and saturates, NaN becomes 0; integers wrap; to bool tests for != 0.
    """
    source = from_numpy(array.dtype)
    if source.is_storage and source != dtype:
        return convert(array.astype(source.accumulator.numpy), dtype)
    with np.errstate(all="ignore"):
        if dtype == BOOL:
            return np.asarray(array != 0)
        if source.is_float and not dtype.is_float:
            return _saturate(array.astype(F64.numpy), dtype)
        if dtype.is_float and dtype.is_storage:
            return to_small_float(array, dtype)
        return array.astype(dtype.numpy)


def _saturate(value: Array, dtype: DType) -> Array:
    """Truncate float64 values into an integer type. The bounds are powers of two, exact in float64."""
    low, high = dtype.limits
    wide, whole = dtype.accumulator.numpy, np.trunc(value)
    inside = (whole >= float(low)) & (whole < float(high + 1))
    exact = np.where(inside, whole, 0.0).astype(wide)
    edge = np.where(whole >= float(high + 1), high, np.where(whole < float(low), low, 0))
    return np.where(inside, exact, edge.astype(wide)).astype(dtype.numpy)
