from __future__ import annotations

import itertools

import numpy as np
import pytest

from support.vector_math import check, check_native, near, through_numpy

FMA = (True, False)
BOUND = 0.6

SPECIALS = np.array(
    [0, 1e-45, 1e-38, 0.5, 1, np.nextafter(np.float32(1), np.float32(2)), 1.5, 2, 3, 4, 0.25]
    + [255, 1e10, 2.0**23 + 1, 2.0**24 - 1, 2.0**24, 2.0**30, 3e38, np.inf, np.nan],
    np.float32,
)


def special_pairs() -> tuple[np.ndarray, np.ndarray]:
    values = np.concatenate([SPECIALS, -SPECIALS])
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    return x, y


def random_pairs(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Bases of all magnitudes, and exponents for which most powers neither overflow nor underflow."""
    x = rng.integers(0, 1 << 31, 150_000).astype(np.uint32).view(np.float32)
    close = np.exp2(rng.standard_normal(50_000) * np.exp2(-rng.uniform(1, 24, 50_000)))
    close = close.astype(np.float32)
    with np.errstate(all="ignore"):
        y = rng.uniform(-155, 135, x.size) / np.log2(x.astype(np.float64))
        far = rng.uniform(-155, 135, close.size) / np.log2(close.astype(np.float64))
    small = rng.standard_normal(50_000).astype(np.float32)
    whole = rng.integers(-20, 20, small.size)
    with np.errstate(all="ignore"):
        return np.concatenate([x, close, small]), np.concatenate([y, far, whole]).astype(np.float32)


@pytest.mark.parametrize("has_fma", FMA)
def test_error_is_within_the_promised_bound(has_fma: bool, rng: np.random.Generator) -> None:
    check("pow", np.float_power, BOUND, *random_pairs(rng), has_fma=has_fma)


def test_error_next_to_one() -> None:
    x = np.abs(near(1.0))
    for y in (3.0, -1e7, 1.2e9):
        check("pow", np.float_power, BOUND, x, np.full_like(x, y))


def test_special_pairs_have_c99_values() -> None:
    x, y = special_pairs()
    with np.errstate(all="ignore"):
        expected = np.float_power(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
    got = through_numpy("pow", x, y)
    np.testing.assert_array_equal(got, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]))


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (np.nan, 0.0, 1.0),
        (1.0, np.nan, 1.0),
        (-1.0, np.inf, 1.0),
        (-0.0, -3.0, -np.inf),
        (-0.0, -2.0, np.inf),
        (-0.0, 0.5, 0.0),
        (-np.inf, 3.0, -np.inf),
        (-np.inf, 0.5, np.inf),
        (-np.inf, -3.0, -0.0),
        (-8.0, 1 / 3, np.nan),
        (-2.0, 3.0, -8.0),
    ],
)
def test_special_values(x: float, y: float, expected: float) -> None:
    got = through_numpy("pow", np.array([x], np.float32), np.array([y], np.float32))
    np.testing.assert_array_equal(got, np.array([expected], np.float32))
    assert np.signbit(got[0]) == np.signbit(expected) or np.isnan(expected)


@pytest.mark.parametrize(("lanes", "has_fma"), list(itertools.product([1, 4, 8, 16], FMA)))
def test_native_code_gives_the_same_bits(
    lanes: int, has_fma: bool, rng: np.random.Generator
) -> None:
    x, y = random_pairs(rng)
    check_native("pow", lanes, has_fma, x[::4], y[::4])
    check_native("pow", lanes, has_fma, *special_pairs())
