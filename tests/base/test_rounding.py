from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from graphc.base.dtypes import BF16, F16
from graphc.base.rounding import to_small_float


def nearest(value: Fraction, fraction_bits: int) -> Fraction:
    """`value` rounded to `fraction_bits` after the first, ties to even; no exponent is too large or small."""
    size = abs(value)
    exponent = 0
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while size < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (exponent - fraction_bits)
    return round(value / unit) * unit  # of a Fraction: to the even one


@pytest.mark.parametrize(("dtype", "fraction_bits"), [(BF16, 7), (F16, 10)])
def test_f64_is_rounded_once(dtype, fraction_bits):
    rng = np.random.default_rng(0)
    middles = np.round(rng.uniform(1, 2, 300) * 2**fraction_bits) / 2**fraction_bits
    middles += 2.0 ** -(fraction_bits + 1)
    x = np.concatenate([middles * (1 + s * 2.0**-k) for s in (-1, 0, 1) for k in (28, 40, 50)])
    x = np.concatenate([x, -x, rng.standard_normal(300)])
    got = to_small_float(x, dtype).astype(np.float64)
    assert [Fraction(v) for v in got] == [nearest(Fraction(v), fraction_bits) for v in x]


@pytest.mark.parametrize("kind", [np.int32, np.uint32, np.int64, np.uint64])
def test_integers_are_rounded_once(kind):
    bits = np.iinfo(kind).bits
    exact = [(1 << e) + (1 << e - 8) + d for e in range(26, bits - 1) for d in (-1, 0, 1)]
    exact += [-v for v in exact] if np.iinfo(kind).min else []
    got = to_small_float(np.array(exact, kind), BF16).astype(np.float64)
    assert [Fraction(v) for v in got] == [nearest(Fraction(v), 7) for v in exact]


def test_what_is_not_finite_stays_so_and_zeros_keep_their_sign():
    x = np.array([np.inf, -np.inf, np.nan, 1e300, -1e300, 0.0, -0.0, 1e-320])
    got = to_small_float(x, BF16).astype(np.float64)
    np.testing.assert_array_equal(got, [np.inf, -np.inf, np.nan, np.inf, -np.inf, 0, 0, 0])
    assert list(np.signbit(got[5:])) == [False, True, False]
