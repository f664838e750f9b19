from __future__ import annotations

import itertools

import numpy as np
import pytest

from support.vector_math import check, check_native, through_numpy

FMA = (True, False)
BOUND = 0.6

SPECIALS = np.array([0, 1e-45, 1e-38, 0.5, 1, 2, 3e38, np.inf, np.nan], np.float32)


def special_pairs() -> tuple[np.ndarray, np.ndarray]:
    values = np.concatenate([SPECIALS, -SPECIALS])
    y, x = (a.ravel() for a in np.meshgrid(values, values))
    return y, x


def random_pairs(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """All magnitudes, and pairs of like magnitude."""
    patterns = rng.integers(0, 1 << 32, (2, 100_000)).astype(np.uint32).view(np.float32)
    normal = rng.standard_normal((2, 100_000)).astype(np.float32)
    y, x = np.concatenate([patterns, normal], axis=1)
    return y, x


@pytest.mark.parametrize("has_fma", FMA)
def test_error_is_within_the_promised_bound(has_fma: bool, rng: np.random.Generator) -> None:
    check("atan2", np.arctan2, BOUND, *random_pairs(rng), has_fma=has_fma)


def test_special_pairs_have_c99_values() -> None:
    y, x = special_pairs()
    with np.errstate(all="ignore"):
        expected = np.arctan2(y.astype(np.float64), x.astype(np.float64)).astype(np.float32)
    got = through_numpy("atan2", y, x)
    np.testing.assert_array_equal(got, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]))


@pytest.mark.parametrize(
    ("y", "x", "expected"),
    [
        (0.0, -0.0, np.pi),
        (-0.0, -0.0, -np.pi),
        (-0.0, 0.0, -0.0),
        (1.0, 0.0, np.pi / 2),
        (-1e-45, -1.0, -np.pi),
        (np.inf, np.inf, np.pi / 4),
        (np.inf, -np.inf, 3 * np.pi / 4),
        (1.0, np.inf, 0.0),
        (np.nan, 1.0, np.nan),
        (1.0, np.nan, np.nan),
        (np.inf, np.nan, np.nan),
    ],
)
def test_special_values(y: float, x: float, expected: float) -> None:
    got = through_numpy("atan2", np.array([y], np.float32), np.array([x], np.float32))
    np.testing.assert_array_equal(got, np.array([expected], np.float32))
    assert np.signbit(got[0]) == np.signbit(expected) or np.isnan(expected)


@pytest.mark.parametrize(("lanes", "has_fma"), list(itertools.product([1, 4, 8, 16], FMA)))
def test_native_code_gives_the_same_bits(
    lanes: int, has_fma: bool, rng: np.random.Generator
) -> None:
    y, x = random_pairs(rng)
    check_native("atan2", lanes, has_fma, y[::4], x[::4])
    check_native("atan2", lanes, has_fma, *special_pairs())
