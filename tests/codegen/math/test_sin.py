from __future__ import annotations

import numpy as np
import pytest

from support.vector_math import check, check_native, f32_inputs, native, near, through_numpy

FMA = (True, False)


@pytest.mark.parametrize("has_fma", FMA)
def test_error_is_within_the_promised_bound(has_fma: bool) -> None:
    x = np.concatenate(
        [
            f32_inputs(16411),
            near(
                1e-30,
                0.78539816,
                1.5707964,
                3.1415927,
                9.0071993e15,
                2.4178516e24,
                6.4903711e32,
                3.4e38,
            ),
        ]
    )
    check("sin", np.sin, 0.8, x, has_fma=has_fma)


@pytest.mark.parametrize("has_fma", FMA)
@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
def test_native_code_gives_the_same_bits(lanes: int, has_fma: bool) -> None:
    check_native("sin", lanes, has_fma, f32_inputs(65521))


def test_large_angles_do_not_change_their_neighbours() -> None:
    x = near(0.7853982, 2.3561945, 33554432.0, count=200)
    mixed = np.repeat(x, 8)
    mixed[7::8] = 1e30  # in each vector, as wide as they are
    alone = native("sin", 8, True)(np.repeat(x, 8))
    np.testing.assert_array_equal(native("sin", 8, True)(mixed)[::8], alone[::8])


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (0.0, 0.0),
        (-0.0, -0.0),
        (np.nan, np.nan),
        (1e-45, 1e-45),
        (-1e-45, -1e-45),
        (-np.inf, np.nan),
        (np.inf, np.nan),
    ],
)
def test_special_values(x: float, expected: float) -> None:
    got = through_numpy("sin", np.array([x], np.float32))
    np.testing.assert_array_equal(got, np.array([expected], np.float32))
    assert np.signbit(got[0]) == np.signbit(expected) or np.isnan(expected)
