"""The transforms of both forms: as matrices, as code, and that the points are what the docstring says of them."""

import numpy as np
import pytest

from graphc.graph_ir.ops.winograd_form import F2, F4, FORMS, WinogradForm


def multiply_add(factor: float, x: float, y: float | None) -> float:
    return factor * x + (0.0 if y is None else y)


@pytest.mark.parametrize("form", [F2, F4], ids=lambda form: form.name)
def test_they_convolve(form: WinogradForm) -> None:
    rng = np.random.default_rng(0)
    d, w = rng.standard_normal(form.elements), rng.standard_normal(3)
    products = (form.weight_matrix() @ w) * (form.input_matrix() @ d)
    expected = [d[i : i + 3] @ w for i in range(form.results)]
    np.testing.assert_allclose(form.output_matrix() @ products, expected)


@pytest.mark.parametrize("form", [F2, F4], ids=lambda form: form.name)
def test_code_and_matrices_agree(form: WinogradForm) -> None:
    values = np.random.default_rng(1).standard_normal(form.elements)
    made = form.transform_input(list(values), multiply_add, lambda x: x)  # type: ignore[arg-type]
    np.testing.assert_allclose(made, form.input_matrix() @ values)  # type: ignore[arg-type]
    made = form.transform_output(list(values), multiply_add, lambda x: x)  # type: ignore[arg-type]
    np.testing.assert_allclose(made, form.output_matrix() @ values)  # type: ignore[arg-type]


@pytest.mark.parametrize("form", [F2, F4], ids=lambda form: form.name)
def test_coefficients_of_input_and_output_are_exact_in_f32(form: WinogradForm) -> None:
    for matrix in (form.input_matrix(), form.output_matrix()):
        assert (matrix.astype(np.float32) == matrix).all()


def test_forms_by_results() -> None:
    assert [(form.results, form.elements, form.products) for form in FORMS.values()] == [
        (2, 4, 16),
        (4, 6, 36),
    ]


def rounding_error(form: WinogradForm) -> float:
    """Root mean square error of a channel sum in f32, relative to the result's, products summed in order."""
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
