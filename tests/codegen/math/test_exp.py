from __future__ import annotations

import numpy as np
import pytest

from support.vector_math import check, check_native, f32_inputs, near, through_numpy

FMA = (True, False)


@pytest.mark.parametrize("has_fma", FMA)
def test_error_is_within_the_promised_bound(has_fma: bool) -> None:
    x = np.concatenate([f32_inputs(), near(1e-30, 88.72284, 87.33655, 103.97208, 0.3465736, 1.0)])
    check("exp", np.exp, 1.2, x, has_fma=has_fma)


@pytest.mark.parametrize("has_fma", FMA)
@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
def test_native_code_gives_the_same_bits(lanes: int, has_fma: bool) -> None:
    check_native("exp", lanes, has_fma, f32_inputs(65521))


def test_scaling_in_one_instruction_gives_the_same_bits() -> None:
    x = np.concatenate([f32_inputs(), near(1e-30, 88.72284, 87.33655, 103.97208)])
    ours, theirs = (through_numpy("exp", x, has_scalef=has) for has in (True, False))
    np.testing.assert_array_equal(ours.view(np.int32), theirs.view(np.int32))


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (-np.inf, 0.0),
        (np.inf, np.inf),
        (np.nan, np.nan),
        (0.0, 1.0),
        (-0.0, 1.0),
        (88.72284, np.inf),
        (-104.0, 0.0),
        (-103.97, 1e-45),
        (1e-45, 1.0),
    ],
)
def test_special_values(x: float, expected: float) -> None:
    got = through_numpy("exp", np.array([x], np.float32))
    np.testing.assert_array_equal(got, np.array([expected], np.float32))
    assert np.signbit(got[0]) == np.signbit(expected) or np.isnan(expected)
