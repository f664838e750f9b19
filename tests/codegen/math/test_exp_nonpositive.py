from __future__ import annotations

import math

import numpy as np
import pytest

from support.vector_math import check_native, f32_inputs, near, through_numpy

INPUTS = np.concatenate([f32_inputs(), near(1e-30, 87.33655, 103.97208, 0.3465736, 1.0)])
NOT_POSITIVE = INPUTS[~(INPUTS > 0)]  # NaN too


@pytest.mark.parametrize("has_scalef", [True, False])
@pytest.mark.parametrize("has_fma", [True, False])
def test_gives_the_bits_of_exp(has_fma: bool, has_scalef: bool) -> None:
    found, expected = (
        through_numpy(name, NOT_POSITIVE, has_fma=has_fma, has_scalef=has_scalef)
        for name in ("exp_nonpositive", "exp")
    )
    np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))


@pytest.mark.parametrize("has_scalef", [True, False])
@pytest.mark.parametrize("has_fma", [True, False])
def test_weights_are_the_same_or_zero_below_the_normal_numbers(
    has_fma: bool, has_scalef: bool
) -> None:
    found, expected = (
        through_numpy(name, NOT_POSITIVE, has_fma=has_fma, has_scalef=has_scalef)
        for name in ("exp_weight", "exp")
    )
    is_normal = ~(expected < 2.0**-126)
    np.testing.assert_array_equal(
        found[is_normal].view(np.int32), expected[is_normal].view(np.int32)
    )
    far = -126.5 * math.log(2) - 1e-5 > NOT_POSITIVE
    assert far.any() and not found[far].any()


@pytest.mark.parametrize("name", ["exp_nonpositive", "exp_weight"])
@pytest.mark.parametrize("has_fma", [True, False])
@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
def test_native_code_gives_the_same_bits(lanes: int, has_fma: bool, name: str) -> None:
    x = f32_inputs(65521)
    check_native(name, lanes, has_fma, x[~(x > 0)])
