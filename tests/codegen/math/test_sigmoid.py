from __future__ import annotations

import numpy as np
import pytest

from graphc.tensor_ir.intrinsics import INTRINSICS
from support.vector_math import check, check_native, f32_inputs, near, through_numpy

FMA = (True, False)
exact = INTRINSICS["sigmoid"].meaning


@pytest.mark.parametrize(("has_fma", "bound"), [(True, 2.0), (False, 2.0)])
def test_error_is_within_the_promised_bound(has_fma: bool, bound: float) -> None:
    steps = np.linspace(-105, 20, 200_001).astype(np.float32)
    x = np.concatenate([f32_inputs(), near(1e-30, 1.0, 87.3365, 88.7228), steps])
    check("sigmoid", exact, bound, x, has_fma=has_fma)


@pytest.mark.parametrize("has_fma", FMA)
@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
def test_native_code_gives_the_same_bits(lanes: int, has_fma: bool) -> None:
    check_native("sigmoid", lanes, has_fma, f32_inputs(65521))


@pytest.mark.parametrize("scalef", [True, False])
@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (np.nan, np.nan),
        (np.inf, 1.0),
        (-np.inf, 0.0),
        (3e38, 1.0),
        (-3e38, 0.0),
        (0.0, 0.5),
        (-0.0, 0.5),
        (-103.0, 1e-45),
    ],
)
def test_special_values(x: float, expected: float, scalef: bool) -> None:
    got = through_numpy("sigmoid", np.array([x], np.float32), has_scalef=scalef)
    np.testing.assert_array_equal(got, np.array([expected], np.float32))
    assert np.signbit(got[0]) == np.signbit(expected) or np.isnan(expected)
