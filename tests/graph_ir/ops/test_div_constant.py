"""The quotient by way of two parts of the reciprocal: the rounded one, special values as in a division."""

import numpy as np
import pytest

from graphc.graph_ir.ops.div_constant import reciprocal_parts
from support.check_op import check_op, random_array


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
def test_every_float_type(dtype: str) -> None:
    x = random_array(dtype, (5, 7), 0)
    exact = x.astype(np.float64) / 3.0
    check_op("div_constant", [x], {"divisor": 3.0}, expected=exact.astype(x.dtype))


@pytest.mark.parametrize("divisor", [3.0, -9.797959, 11.313708, 0.1, 7e20, 1.0000001])
def test_quotients_are_the_rounded_ones(divisor: float) -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 1 << 18, dtype=np.uint64).astype(np.uint32)
    x = bits.view(np.float32)
    x[:6] = (0.0, -0.0, np.inf, -np.inf, np.nan, divisor)
    high, low = (np.float64(part) for part in reciprocal_parts(float(np.float32(divisor))))
    with np.errstate(all="ignore"):
        expected = x / np.float32(divisor)
        small = (x.astype(np.float64) * low).astype(np.float32).astype(np.float64)
        got = (x.astype(np.float64) * high + small).astype(np.float32)
    normal = (np.abs(expected) > 2.0**-102) | ~np.isfinite(expected)
    np.testing.assert_array_equal(got[normal], expected[normal])
    np.testing.assert_array_equal(np.signbit(got[:2]), np.signbit(expected[:2]))
    same = np.isnan(got) == np.isnan(expected)
    assert same.all()
