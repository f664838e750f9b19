"""Conversion of NumPy arrays to floats of 16 bits or less, rounded once: ml_dtypes may round to f32 on the way."""

from __future__ import annotations

from typing import Any

import numpy as np

from .dtypes import F16, DType, from_numpy

Array = np.ndarray[Any, Any]

_DROPPED = 11  # bits of a 64-bit integer that f64 has no room for


def to_small_float(array: Array, dtype: DType) -> Array:
    """`array`, of any type, as a float of 16 bits or less: the nearest number, ties to even."""
    if from_numpy(array.dtype).is_storage:
        array = array.astype(from_numpy(array.dtype).accumulator.numpy)
    if dtype != F16 and array.dtype.itemsize >= 4 and array.dtype != np.float32:
        array = _odd_single(_double(array))
    with np.errstate(all="ignore"):
        return array.astype(dtype.numpy)


def _double(array: Array) -> Array:
    """f64; of integers beyond 2**53 the lowest bit that is kept says whether any below was set."""
    if array.dtype.kind == "f" or array.dtype.itemsize < 8:
        return array.astype(np.float64)
    low = array & array.dtype.type((1 << _DROPPED) - 1)
    kept = (array >> _DROPPED | (low != 0)) << _DROPPED
    with np.errstate(over="ignore"):
        far = (array >= 2**53) | (array < -(2**53) if array.dtype.kind == "i" else False)
    return np.where(far, kept, array).astype(np.float64)


def _odd_single(wide: Array) -> Array:
    """f32; what is not exact becomes the neighbor whose last bit is set, so that rounding again rounds once."""
    with np.errstate(all="ignore"):
        single = np.asarray(wide.astype(np.float32))
        back = single.astype(np.float64)
        inexact = (back != wide) & ~np.isnan(wide)
        towards_zero = single.view(np.int32) - (np.abs(back) > np.abs(wide))
        odd = towards_zero.astype(np.int32) | 1
    return np.where(inexact, odd, single.view(np.int32)).astype(np.int32).view(np.float32)
