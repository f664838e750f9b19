"""The values of each element type at which conversions and operators change their mind."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from graphc.base.dtypes import BOOL, DType

Array = np.ndarray[Any, Any]

_FLOATS = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.3, -0.7, 3.0, -7.0, 126.9, 127.5, -128.5, 255.5, 32767.5,
    65504.0, 65520.0, -65536.0, 2.0**23 - 0.5, 2.0**31, -(2.0**31), 2.0**32 - 256, 2.0**53, 2.0**63,
    -(2.0**63), 2.0**64, 1e-5, 6.1e-5, 3e-8, 2.9e-8, -5.97e-8, 1e-30, 1e-40, 1e30, -3e38, np.inf, -np.inf, np.nan,
)  # fmt: skip


def special_values(dtype: DType) -> Array:
    """A few dozen values of `dtype`."""
    if dtype == BOOL:
        return np.array([False, True])
    if dtype.is_float:
        with np.errstate(over="ignore", invalid="ignore"):
            exact = np.array(_FLOATS)
            return exact.astype(np.float32).astype(dtype.numpy) if dtype.bits < 64 else exact
    limits = np.iinfo(dtype.numpy)
    near = [0, 1, 2, 3, 5, 7, 8, 31, 63, 64, 100, limits.max - 1, limits.max, limits.max // 3]
    if dtype.is_signed:
        near += [-1, -2, -3, -7, -8, -64, limits.min, limits.min + 1]
    return np.array(near, dtype.numpy)


def pairs(dtype: DType, multiple: int = 64) -> tuple[Array, Array]:
    """Every special value beside every other, repeated up to a multiple of `multiple` elements."""
    left, right = zip(*itertools.product(special_values(dtype), repeat=2), strict=True)
    return _padded(np.array(left, dtype.numpy), multiple), _padded(
        np.array(right, dtype.numpy), multiple
    )


def singles(dtype: DType, multiple: int = 64) -> Array:
    """The special values, repeated up to a multiple of `multiple` elements."""
    return _padded(special_values(dtype), multiple)


def _padded(values: Array, multiple: int) -> Array:
    return np.resize(values, -(-values.size // multiple) * multiple)
