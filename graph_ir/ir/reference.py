"""Numeric rules shared by the NumPy references: rounding of floats and conversion between types.

Floats are computed in float64 and rounded to the type the native code computes in (f32 for the 16-bit floats), then to
the type itself, so that the reference is never less accurate. Integers stay in their own type and wrap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.dtypes import BOOL, F64, DType, from_numpy
from ...base.rounding import to_half

Array = np.ndarray[Any, Any]


def widen(array: Array) -> Array:
    """Floats as float64, everything else as it is."""
    return array.astype(F64.numpy) if from_numpy(array.dtype).is_float else array


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
    with np.errstate(all="ignore"):
        if dtype == BOOL:
            return np.asarray(array != 0)
        if source.is_float and not dtype.is_float:
            return _saturate(array.astype(F64.numpy), dtype)
        if dtype.is_float and dtype.bits == 16:
            return to_half(array, dtype)
        return array.astype(dtype.numpy)


def _saturate(value: Array, dtype: DType) -> Array:
    """Truncate float64 values into an integer type. The bounds are powers of two, exact in float64."""
    below = -(2.0 ** (dtype.bits - 1)) if dtype.is_signed else 0.0
    above = 2.0 ** (dtype.bits - 1 if dtype.is_signed else dtype.bits)
    limits = np.iinfo(dtype.numpy)
    whole = np.trunc(value)
    inside = (whole >= below) & (whole < above)
    exact = np.where(inside, whole, 0.0).astype(dtype.numpy)
    edge = np.where(whole >= above, limits.max, np.where(whole < below, limits.min, 0))
    return np.where(inside, exact, edge.astype(dtype.numpy))
