from __future__ import annotations

import numpy as np
import pytest

from graphc.tensor_ir.intrinsics import INTRINSICS
from support.vector_math import check, check_native, f32_inputs, near, through_numpy

FMA = (True, False)
exact = INTRINSICS["gelu_tanh"].meaning


@pytest.mark.parametrize(("has_fma", "bound"), [(True, 3.0), (False, 300)])
def test_error_is_within_the_promised_bound(has_fma: bool, bound: float) -> None:
    steps = np.linspace(-10.9, 5, 200_001).astype(np.float32)
    # About -4.91 the exponential is 2**24 times a fraction, to which adding 1 in the wrong order cost a whole unit.
    x = np.concatenate([f32_inputs(), near(1e-30, 1.0, 4.91238, 5.3, 10.0), steps])
    check("gelu_tanh", exact, bound, x, has_fma=has_fma)


@pytest.mark.parametrize("has_fma", FMA)
@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
def test_native_code_gives_the_same_bits(lanes: int, has_fma: bool) -> None:
    check_native("gelu_tanh", lanes, has_fma, f32_inputs(65521))


@pytest.mark.parametrize("scalef", [True, False])
@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (np.nan, np.nan),
        (np.inf, np.inf),
        (-np.inf, np.nan),
        (3e38, 3e38),
        (-3e38, -0.0),
        (0.0, 0.0),
        (-0.0, -0.0),
        (1e-45, 0.0),
    ],
)
def test_special_values(x: float, expected: float, scalef: bool) -> None:
    got = through_numpy("gelu_tanh", np.array([x], np.float32), has_scalef=scalef)
    np.testing.assert_array_equal(got, np.array([expected], np.float32))
    assert np.signbit(got[0]) == np.signbit(expected) or np.isnan(expected)
