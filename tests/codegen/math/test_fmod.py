from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.codegen.math import MATH_F64
from graphc.codegen.numpy_vector_ops import NumpyVectorOps
from support.vector_math import check_native, through_numpy

SPECIALS = np.array([0, 1e-45, 1e-38, 0.5, 1, 3, 1e20, 3e38, np.inf, np.nan], np.float32)
Array = np.ndarray[Any, Any]


def pairs(rng: np.random.Generator, dtype: Any, count: int = 50_000) -> tuple[Array, Array]:
    """Every special value with every other, and any bit patterns, so that quotients have every magnitude."""
    values = np.concatenate([SPECIALS, -SPECIALS]).astype(dtype)
    bits = np.dtype(dtype).itemsize * 8
    patterns = rng.integers(0, 1 << bits, (2, count), np.dtype(f"u{bits // 8}")).view(dtype)
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    return np.concatenate([x, patterns[0]]), np.concatenate([y, patterns[1]])


def same(found: Array, wanted: Array) -> None:
    """Equal, signs of zeros included."""
    np.testing.assert_array_equal(found, wanted)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(wanted[numbers]))


@pytest.mark.parametrize("has_fma", [True, False])
def test_every_quotient_of_f32_is_exact(has_fma: bool, rng: np.random.Generator) -> None:
    x, y = pairs(rng, np.float32)
    with np.errstate(all="ignore"):
        same(through_numpy("fmod", x, y, has_fma=has_fma), np.fmod(x, y))


def test_every_quotient_of_f64_is_exact(rng: np.random.Generator) -> None:
    x, y = pairs(rng, np.float64)
    with np.errstate(all="ignore"):
        found = MATH_F64["fmod"](NumpyVectorOps(bits=64), x, y)
        same(found, np.fmod(x, y))


@pytest.mark.parametrize("has_fma", [True, False])
@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_native_code_gives_the_same_bits(
    lanes: int, has_fma: bool, rng: np.random.Generator
) -> None:
    x, y = (a[: len(a) // lanes * lanes] for a in pairs(rng, np.float32, 5000))
    check_native("fmod", lanes, has_fma, x, y)
