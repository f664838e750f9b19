"""The transforms of both forms: as matrices, as code, and that the points are what the docstring says of them."""

import numpy as np
import pytest

from graphc.base.dtypes import S8, U8
from graphc.graph_ir.ops.winograd_form import (
    BYTE_FORMS,
    BYTES_F2,
    BYTES_F4,
    F2,
    F4,
    FORMS,
    WinogradForm,
    holds,
)

ALL = pytest.mark.parametrize(
    "form", [F2, F4, BYTES_F2, BYTES_F4], ids=["f2", "f4", "bytes f2", "bytes f4"]
)


def multiply_add(factor: float, x: float, y: float | None) -> float:
    return factor * x + (0.0 if y is None else y)


@ALL
def test_they_convolve(form: WinogradForm) -> None:
    rng = np.random.default_rng(0)
    d, w = rng.standard_normal(form.elements), rng.standard_normal(3)
    multiplied = (form.weight_matrix() @ w) * (form.input_matrix() @ d)
    expected = [d[i : i + 3] @ w for i in range(form.results)]
    found = form.output_matrix() @ multiplied / form.multiple
    np.testing.assert_allclose(found, expected)


@ALL
def test_code_and_matrices_agree(form: WinogradForm) -> None:
    values = np.random.default_rng(1).standard_normal(form.elements)
    made = form.transform_input(list(values), multiply_add, lambda x: x)  # type: ignore[arg-type]
    np.testing.assert_allclose(made, form.input_matrix() @ values)  # type: ignore[arg-type]
    made = form.transform_output(list(values), multiply_add, lambda x: x)  # type: ignore[arg-type]
    np.testing.assert_allclose(made, form.output_matrix() @ values)  # type: ignore[arg-type]


@ALL
def test_coefficients_of_input_and_output_are_exact_in_f32(form: WinogradForm) -> None:
    for matrix in (form.input_matrix(), form.output_matrix()):
        assert (matrix.astype(np.float32) == matrix).all()


def test_forms_by_results() -> None:
    assert [(form.results, form.elements, form.matmuls) for form in FORMS.values()] == [
        (2, 4, 16),
        (4, 6, 36),
    ]


@pytest.mark.parametrize("form", BYTE_FORMS.values(), ids=lambda form: form.name)
def test_bytes_fit_16_bits(form: WinogradForm) -> None:
    """Both transforms of any bytes, in integers, and two matmuls in s32."""
    matrices = form.input_matrix(), form.weight_matrix(), form.output_matrix()
    assert all((matrix == np.rint(matrix)).all() for matrix in matrices)
    both = [np.kron(matrix, matrix) for matrix in matrices[:2]]
    image = max(255 * np.maximum(sign * both[0], 0).sum(1).max() for sign in (1, -1))
    signed, weights = (128 * np.abs(matrix).sum(1).max() for matrix in both)
    assert max(image, signed, weights) < 2**15
    assert 2 * max(image, signed) * weights < 2**31


@pytest.mark.parametrize("form", BYTE_FORMS.values(), ids=lambda form: form.name)
def test_results_are_divided_exactly(form: WinogradForm) -> None:
    most = (1 << 31 - form.shift) - 1
    y = np.array([0, 1, -1, 4711, -4711, most, -most], np.int64)
    total = (y * form.multiple**2).astype(np.int32)
    np.testing.assert_array_equal((total * np.int32(form.inverse)) >> form.shift, y)


def test_weights_prove_what_results_may_be() -> None:
    """The largest sum of either sign: bytes of one sign count more than those of both."""
    w = np.full((1, 100, 3, 3), 127, np.int8)
    w[:, ::2] = -127
    assert holds(BYTES_F4, w[:, :2], U8)
    assert holds(BYTES_F4, np.tile(w, (1, 2, 1, 1)), U8), "half of 2,057,400 weights times 255"
    assert not holds(BYTES_F4, np.abs(np.tile(w, (1, 2, 1, 1))), U8)
    assert not holds(BYTES_F4, np.tile(w, (1, 3, 1, 1)), S8), "all of them times 128"


def rounding_error(form: WinogradForm) -> float:
    """Root mean square error of a channel sum in f32, relative to the result's, terms added in order."""
    rng = np.random.default_rng(2)
    bt, at, g = form.input_matrix(), form.output_matrix(), form.weight_matrix()
    d = rng.standard_normal((64, 128, form.elements, form.elements)).astype(np.float32)
    w = rng.standard_normal((128, 3, 3)).astype(np.float32)
    exact = at @ np.einsum("tcij,cij->tij", bt @ d.astype(np.float64) @ bt.T, g @ w @ g.T) @ at.T
    narrow = [matrix.astype(np.float32) for matrix in (bt, at)]
    v, u = narrow[0] @ d @ narrow[0].T, (g @ w.astype(np.float64) @ g.T).astype(np.float32)
    found = narrow[1] @ np.einsum("tcij,cij->tij", v, u) @ narrow[1].T
    return float(np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2)))


def test_the_points_of_f4_halve_the_error_of_the_usual_ones() -> None:
    assert rounding_error(F4) < 0.6 * rounding_error(WinogradForm("usual", (1.0, 2.0)))
    assert rounding_error(F2) < 0.6 * rounding_error(F4)
