import math
from fractions import Fraction

import numpy as np
import pytest

from graphc.base.dtypes import by_name
from graphc.base.errors import UserError
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ops.activation import ROWS, SELU_ALPHA, SELU_GAMMA
from support.check_op import (
    FLOATS,
    INTEGERS,
    NUMBERS,
    check_op,
    make_op,
    random_array,
    special_values,
)
from support.expressions import graph_from


def _erf(x):
    return np.vectorize(math.erf, otypes=[float])(x)


def _softplus(x):
    return np.where(x > 30, x, np.log1p(np.exp(np.minimum(x, 30))))


FORMULAS = [
    ("leaky_relu", {}, lambda x: np.maximum(x, 0) + 0.01 * np.minimum(x, 0)),
    ("leaky_relu", {"alpha": 0.25}, lambda x: np.maximum(x, 0) + 0.25 * np.minimum(x, 0)),
    ("elu", {}, lambda x: np.where(x > 0, x, np.exp(x) - 1)),
    ("elu", {"alpha": 0.5}, lambda x: np.where(x > 0, x, 0.5 * (np.exp(x) - 1))),
    ("selu", {}, lambda x: SELU_GAMMA * np.where(x > 0, x, SELU_ALPHA * (np.exp(x) - 1))),
    ("hard_sigmoid", {"alpha": 0.2}, lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
    ("hard_sigmoid", {"alpha": 1 / 6, "beta": 0.25}, lambda x: np.clip(x / 6 + 0.25, 0, 1)),
    ("hard_swish", {}, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    ("silu", {}, lambda x: x * 0.5 * (1 + np.tanh(x / 2))),
    ("gelu", {}, lambda x: x / 2 * (1 + _erf(x / np.sqrt(2)))),
    ("gelu", {"approximate": "tanh"},
     lambda x: x / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x * x * x)))),
    ("softplus", {}, _softplus),
    ("mish", {}, lambda x: x * np.tanh(_softplus(x))),
    ("softsign", {}, lambda x: x / (np.abs(x) + 1)),
    ("clamp", {"min": -1.5, "max": 2.0}, lambda x: np.minimum(np.maximum(x, -1.5), 2.0)),
    ("clamp", {"min": 0.0}, lambda x: np.maximum(x, 0)),
    ("clamp", {"max": 6.0}, lambda x: np.minimum(x, 6)),
    ("clamp", {}, lambda x: x),
]  # fmt: skip


def test_every_op_of_the_family_is_checked():
    assert {name for name, _, _ in FORMULAS} | {"prelu"} == {*(row.name for row in ROWS), "clamp"}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("name", "attrs", "formula"), FORMULAS)
def test_float(name, attrs, formula, dtype):
    check_op(name, [random_array(dtype, (4, 9))], attrs, formula, factor=4)
    finite = special_values(dtype)
    finite = finite[np.isfinite(finite)]
    check_op(name, [finite], attrs, factor=8)


@pytest.mark.parametrize("name", ["leaky_relu", "elu", "selu", "softplus", "clamp"])
def test_nan_stays_nan_and_infinity_stays(name):
    x = np.array([np.nan, np.inf], np.float32)
    result = check_op(name, [x])
    assert np.isnan(result[0]) and result[1] == np.inf


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("alpha", [1 / 6, -1 / 6, 0.2, 0.3])
def test_hard_sigmoid_is_exactly_0_at_its_corner_and_1_at_infinity(dtype, alpha):
    numpy = by_name(dtype).numpy
    x = np.array([-0.5 / alpha, np.copysign(np.inf, alpha), -np.copysign(np.inf, alpha)], numpy)
    y = compile_model(graph_from(f"hard_sigmoid(x, alpha={alpha!r})", dtype, x=(3,)))(x)
    assert y[1:].tolist() == [1, 0]
    assert y[0] == 0 or alpha == 0.3, "5 / 3 is not a float"


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_hard_swish_is_exactly_0_at_its_corner_and_infinite_at_infinity(dtype):
    x = np.array([-3, 0, 3, np.inf], by_name(dtype).numpy)
    y = compile_model(graph_from("hard_swish(x)", dtype, x=(4,)))(x)
    assert y.tolist() == [0, 0, 3, np.inf]


def test_the_reference_of_hard_swish_does_not_cancel_next_to_its_corner():
    x = np.nextafter(np.float64(-3), 0)
    reference = make_op("hard_swish", [np.array([x])]).reference([np.array([x])])[0]
    exact = Fraction(x) * (Fraction(x) + 3) / 6
    assert abs(Fraction(float(reference[0])) - exact) <= abs(exact) * Fraction(2) ** -52


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_clamp(dtype):
    x = special_values(dtype)
    exact = [min(max(int(i), 1), 7) for i in x]
    check_op("clamp", [x], {"min": 0.5, "max": 7.9}, expected=np.array(exact, x.dtype))
    check_op("clamp", [x], {"min": -1e30, "max": 1e30}, expected=x)
    check_op("clamp", [x], {"min": -math.inf, "max": math.inf}, expected=x)


def test_a_clamp_whose_bounds_cross_gives_the_upper_one():
    check_op("clamp", [np.array([-5, 5], np.float32)], {"min": 3.0, "max": 1.0}, expected=[1, 1])


@pytest.mark.parametrize("dtype", NUMBERS)
def test_prelu_broadcasts_its_slope(dtype):
    x, slope = random_array(dtype, (2, 3, 4)), random_array(dtype, (3, 1), 1)
    check_op("prelu", [x, slope], expected=lambda x, s: np.maximum(x, 0) + s * np.minimum(x, 0))


@pytest.mark.parametrize(
    ("name", "dtype", "attrs", "message"),
    [
        ("gelu", "f32", {"approximate": "fast"}, "gelu 'x': approximate must be one of none, tanh, got 'fast'"),
        ("clamp", "f32", {"min": math.nan}, "clamp 'x': min must be a number or none, got nan"),
        ("hard_sigmoid", "f32", {}, "hard_sigmoid 'x': attribute 'alpha' must be given, got no attributes"),
        ("elu", "f32", {"beta": 1.0}, "elu 'x': unknown attribute 'beta'; its attributes are alpha"),
        ("silu", "s8", {}, "silu 'x': input dtype must be a float, got s8; insert a cast"),
    ],
)  # fmt: skip
def test_rejects(name, dtype, attrs, message):
    with pytest.raises(UserError) as error:
        make_op(name, [random_array(dtype, (2,))], attrs)
    assert str(error.value) == message


@pytest.mark.parametrize("dtype", NUMBERS)
def test_clamp_takes_every_number(dtype):
    check_op("clamp", [random_array(dtype, (5,))], {"min": 0, "max": 3})
