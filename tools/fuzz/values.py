"""Random arrays: what the inputs and constants of a random graph hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...base.dtypes import DType
from ...graph_ir.ir.graph import Array

SPECIAL = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, 1e-3, 1e-30, 1e-42, 3.75, -7.25, 30.0, -90.0, 1e30),
    *(np.inf, -np.inf, np.nan, 65504.0, 0.99999994, np.pi / 2),
)


def random_array(
    rng: np.random.Generator, dtype: DType, dims: Sequence[int], fill: str = "integers"
) -> Array:
    """An array of a fill (`plan.FILLS`); integers and bools take the fill as the range of their values."""
    if dtype.kind == "bool":
        return rng.integers(0, 2, dims).astype(bool)
    if not dtype.is_float:
        return _integers(rng, dtype, dims, fill)
    with np.errstate(all="ignore"):
        return _floats(rng, dims, fill).astype(dtype.numpy)


def _integers(rng: np.random.Generator, dtype: DType, dims: Sequence[int], fill: str) -> Array:
    least, largest = dtype.limits
    if dtype.bits < 8:
        return rng.integers(least, largest + 1, dims).astype(dtype.numpy)
    if fill == "special":  # the ends of the range among others
        ends = np.array([least, largest, 0, 1, largest - 1], dtype.numpy)
        any_bits = rng.integers(least, largest, dims, dtype.numpy, endpoint=True)
        return np.where(rng.random(dims) < 0.4, rng.choice(ends, dims), any_bits)
    low, high = (-4, 5) if fill == "integers" else (-100, 101)
    return rng.integers(low if dtype.is_signed else 0, high, dims).astype(dtype.numpy)


def _floats(rng: np.random.Generator, dims: Sequence[int], fill: str) -> Array:
    if fill == "integers":
        return rng.integers(-4, 5, dims).astype(np.float64)
    if fill == "normal":
        return rng.standard_normal(dims)
    plain = rng.random(dims) * 8 - 4
    if fill == "uniform":
        return plain
    return np.where(rng.random(dims) < 0.2, rng.choice(np.array(SPECIAL), dims), plain)
