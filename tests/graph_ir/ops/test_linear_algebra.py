"""triangular_solve, cholesky and lu: values against NumPy's, and what is refused."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from graphc.base.errors import UserError
from support.check_op import make_op

RNG = np.random.default_rng(4)
A = RNG.standard_normal((2, 5, 5)) + 5 * np.eye(5)
B = RNG.standard_normal((2, 5, 3))


@pytest.mark.parametrize(
    ("lower", "transposed", "unit"), list(itertools.product([False, True], repeat=3))
)
def test_solutions(lower: bool, transposed: bool, unit: bool) -> None:
    attrs = {"lower": lower, "transpose_a": transposed, "unit_diagonal": unit}
    (x,) = make_op("triangular_solve", [A, B], attrs).reference([A, B])
    half = np.tril(A, -unit) if lower else np.triu(A, unit)
    half = half + np.eye(5) * unit
    np.testing.assert_allclose((half.swapaxes(1, 2) if transposed else half) @ x, B, atol=1e-10)


def test_the_factor_of_cholesky() -> None:
    square = A @ A.swapaxes(1, 2)
    (factor,) = make_op("cholesky", [square]).reference([np.tril(square) + np.triu(A, 1)])
    np.testing.assert_allclose(factor, np.linalg.cholesky(square))
    (factor,) = make_op("cholesky", [A]).reference([-square])
    assert np.isnan(factor[:, 0, 0]).all() and not np.triu(factor, 1).any()


@pytest.mark.parametrize("dims", [(2, 5, 5), (2, 4, 6), (6, 4), (2, 0, 3)])
def test_factors_with_pivots(dims: tuple[int, ...]) -> None:
    x = RNG.standard_normal(dims)
    op = make_op("lu", [x])
    steps, count = min(dims[-2:]), math.prod(dims[:-2])
    assert str(op.outputs[1].details) == f"s32[{','.join(map(str, (*dims[:-2], steps)))}]"
    factors, pivots, order = op.reference([x])
    flat = (y.reshape(count, *y.shape[len(dims) - 2 :]) for y in (factors, pivots, order, x))
    for matrix, chosen, rows, source in zip(*flat, strict=True):
        low = np.tril(matrix, -1)[:, :steps] + np.eye(dims[-2], steps)
        assert (np.abs(low) <= 1).all()
        exchanged = source.copy()
        for k, row in enumerate(chosen):
            exchanged[[k, row]] = exchanged[[row, k]]
        np.testing.assert_array_equal(exchanged, source[rows])
        np.testing.assert_allclose(low @ np.triu(matrix)[:steps], exchanged, atol=1e-12)


def test_pivots_of_0_and_nan() -> None:
    x = np.array([[0, 1], [0, 2]], np.float32)
    factors, pivots, order = make_op("lu", [x]).reference([x])
    assert order.tolist() == [0, 1]
    np.testing.assert_array_equal(factors, x)
    assert pivots.tolist() == [0, 1]
    x = np.array([[np.nan, 1], [3, 2]], np.float32)
    assert make_op("lu", [x]).reference([x])[1].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("name", "arrays", "message"),
    [
        ("cholesky", [A[:, :4]], r"a must have square matrices as its last axes, got f64\[2,4,5\]"),
        ("lu", [A[0, 0]], r"a must have matrices as its last axes, got f64\[5\]"),
        ("lu", [A.astype(np.float16)], "matrices must be f32 or f64, got f16; insert a cast"),
        ("triangular_solve", [A, B[:, :4]], "b must have the batch and the rows of a"),
        ("triangular_solve", [A, B[0]], "b must have the batch and the rows of a"),
        ("triangular_solve", [A, B.astype(np.float32)], "b must have the type of a"),
    ],
)
def test_what_is_refused(name: str, arrays: list[np.ndarray], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_op(name, arrays)
