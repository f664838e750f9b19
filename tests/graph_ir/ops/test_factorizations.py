"""householder, householder_product, svd and eigh: references against NumPy, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.errors import UserError
from support.check_op import make_op

RNG = np.random.default_rng(5)
Array = np.ndarray


def run(name: str, *arrays: Array) -> list[Array]:
    return make_op(name, list(arrays)).reference(list(arrays))


def transposed(x: Array) -> Array:
    return x.swapaxes(-1, -2)


@pytest.mark.parametrize("dims", [(2, 5, 3), (4, 4), (3, 6), (1, 1), (2, 0, 3), (0, 3, 2)])
def test_factors_have_the_signs_of_lapack(dims: tuple[int, ...]) -> None:
    a = RNG.standard_normal(dims)
    packed, scales = run("householder", a)
    count = min(dims[-2:])
    (q,) = run("householder_product", packed[..., :count], scales)
    wanted_q, wanted_r = np.linalg.qr(a)
    np.testing.assert_allclose(q, wanted_q, atol=1e-12)
    np.testing.assert_allclose(np.triu(packed[..., :count, :]), wanted_r, atol=1e-12)


def test_columns_that_need_no_reflection() -> None:
    a = np.array([[-2.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    packed, scales = run("householder", a)
    np.testing.assert_array_equal(packed, a)
    assert scales.tolist() == [0, 0]


@pytest.mark.parametrize("dims", [(2, 3, 5), (4, 4), (1, 6), (2, 0, 3)])
def test_singular_values(dims: tuple[int, ...]) -> None:
    a = RNG.standard_normal(dims)
    left, values, right = run("svd", a)
    np.testing.assert_allclose(values, np.linalg.svd(a, compute_uv=False), atol=1e-12)
    np.testing.assert_allclose(transposed(left) @ (values[..., None] * right), a, atol=1e-12)
    for x in (left, right):
        np.testing.assert_allclose(
            x @ transposed(x) + np.zeros(dims[-2]),
            np.eye(dims[-2]) + 0 * x[..., :1, :1],
            atol=1e-12,
        )


def test_rows_of_lost_values_are_0() -> None:
    a = np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 0.0]])
    _, values, right = run("svd", a)
    assert values.tolist() == [5, 0]
    np.testing.assert_allclose(right, [[0.6, 0.8, 0], [0, 0, 0]])


@pytest.mark.parametrize("dims", [(2, 4, 4), (1, 1), (0, 3, 3), (2, 0, 0)])
def test_eigenvalues_of_the_lower_half(dims: tuple[int, ...]) -> None:
    a = RNG.standard_normal(dims)
    vectors, values = run("eigh", a)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(a, UPLO="L"), atol=1e-12)
    whole = np.tril(a) + transposed(np.tril(a, -1))
    np.testing.assert_allclose(
        transposed(vectors) @ (values[..., None] * vectors), whole, atol=1e-12
    )


@pytest.mark.parametrize(
    ("name", "dims", "message"),
    [
        ("svd", [(5, 3)], r"no more rows than columns, got f64\[5,3\]; transpose it"),
        ("eigh", [(5, 3)], "a must have square matrices"),
        ("householder", [(5,)], "a must have matrices as its last axes"),
        ("householder_product", [(5, 3), (4,)], "at most as many scales as columns"),
        ("householder_product", [(2, 3), (2,)], "as columns as rows"),
        ("householder_product", [(2, 5, 3), (3,)], "the type and the batch of packed"),
    ],
)
def test_what_is_refused(name: str, dims: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_op(name, [RNG.standard_normal(shape) for shape in dims])
