"""When a result counts as right."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from graphc.base.dtypes import ALL, F8E8M0FNU, USUAL
from graphc.graph_ir.inspect.compare import TOLERANCE, Difference, difference


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_equal_arrays_agree_in_every_dtype(dtype) -> None:  # type: ignore[no-untyped-def]
    array = np.array([[0, 1], [1, 0]]).astype(dtype.numpy)
    assert difference(array, array.copy(), exact=True) == Difference(0.0, 0.0, True)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_a_wrong_element_is_found_in_every_dtype(dtype) -> None:  # type: ignore[no-untyped-def]
    numbers = np.array([0, 1, 1]) if dtype != F8E8M0FNU else np.array([1, 2, 2])
    expected, actual = numbers.astype(dtype.numpy), numbers[[0, 1, 0]].astype(dtype.numpy)
    found = difference(actual, expected)
    assert found.absolute == 1.0 and found.ok == (dtype == F8E8M0FNU)  # an ulp of 2 is 1


@pytest.mark.parametrize("name", [d.name for d in USUAL if d.is_float])
def test_floats_may_differ_by_a_share_of_the_largest_value(name: str) -> None:
    (dtype,) = [d.numpy for d in ALL if d.name == name]
    bound = TOLERANCE[name]
    expected = np.array([1.0, 512.0]).astype(dtype)
    near = (expected.astype(float) + [512 * bound * 0.5, 0]).astype(dtype)
    far = (expected.astype(float) + [512 * bound * 2, 0]).astype(dtype)
    assert difference(near, expected).ok
    assert not difference(far, expected).ok
    assert not difference(near, expected, exact=True).ok
    assert difference(far, expected).relative == pytest.approx(2 * bound, rel=0.1)


F = np.float32


@pytest.mark.parametrize(
    ("actual", "expected", "ok"),
    [
        ([np.nan, 1], [np.nan, 1], True),
        ([np.inf, 1], [np.inf, 1], True),
        ([-np.inf, 1], [np.inf, 1], False),
        ([np.nan, 1], [np.inf, 1], False),
        ([0, 1], [np.nan, 1], False),
        ([np.nan, 1], [0, 1], False),
        ([np.inf, 1], [3e38, 1], False),
        ([-0.0, 1], [0.0, 1], True),
        ([1e-5, 0], [0, 0], True),
        ([1e-3, 0], [0, 0], False),
    ],
)
def test_special_values(actual: list[float], expected: list[float], ok: bool) -> None:
    assert difference(np.array(actual, F), np.array(expected, F)).ok is ok


def test_integers_must_be_equal_even_where_float64_cannot_tell() -> None:
    big = np.array([2**62], np.int64)
    found = difference(big + 1, big)
    assert found == Difference(0.0, 0.0, False)


def test_another_shape_or_dtype_never_agrees() -> None:
    one = np.ones((2, 1), F)
    for other in (np.ones((1, 2), F), np.ones(2, F), np.ones((2, 1)), np.ones((2, 1), np.int32)):
        assert difference(one, other) == Difference(np.inf, np.inf, False)
    assert not difference(np.ones(1, np.float16), np.ones(1, ml_dtypes.bfloat16)).ok


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_nothing_agrees_with_nothing(shape: tuple[int, ...]) -> None:
    assert difference(np.empty(shape, F), np.empty(shape, F)).ok


def test_a_scalar_is_compared_too() -> None:
    assert difference(np.array(2, F), np.array(2, F)).ok
    assert not difference(np.array(2, F), np.array(3, F)).ok


def test_text() -> None:
    found = difference(np.array([1, 3], F), np.array([1, 2], F))
    assert str(found) == "max error 1 (0.5 of the largest value)"
