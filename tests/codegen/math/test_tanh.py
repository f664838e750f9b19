from __future__ import annotations

import numpy as np
import pytest

from support.vector_math import check, check_native, f32_inputs, near, through_numpy

FMA = (True, False)


@pytest.mark.parametrize("has_fma", FMA)
def test_error_is_within_the_promised_bound(has_fma: bool) -> None:
    x = np.concatenate([f32_inputs(), near(1e-30, 0.625, 1.0, 9.010913, 9.1, 0.17328680)])
    check("tanh", np.tanh, 2.0, x, has_fma=has_fma)


@pytest.mark.parametrize("has_fma", FMA)
@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
def test_native_code_gives_the_same_bits(lanes: int, has_fma: bool) -> None:
    check_native("tanh", lanes, has_fma, f32_inputs(65521))


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (0.0, 0.0),
        (-0.0, -0.0),
        (np.nan, np.nan),
        (1e-45, 1e-45),
        (-1e-45, -1e-45),
        (np.inf, 1.0),
        (-np.inf, -1.0),
        (1e30, 1.0),
        (-20.0, -1.0),
    ],
)
def test_special_values(x: float, expected: float) -> None:
    got = through_numpy("tanh", np.array([x], np.float32))
    np.testing.assert_array_equal(got, np.array([expected], np.float32))
    assert np.signbit(got[0]) == np.signbit(expected) or np.isnan(expected)
