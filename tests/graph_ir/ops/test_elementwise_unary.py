import math

import numpy as np
import pytest

from graphc import Graph
from graphc.base.dtypes import F32, F64, DType
from graphc.base.errors import UserError
from graphc.graph_ir.ir.computation import Pointwise
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.elementwise import Elementwise
from graphc.graph_ir.ops.elementwise_unary import ROWS, TRANSCENDENTAL
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.nodes import Call, Var
from support.check_op import (
    ALL,
    FLOATS,
    INTEGERS,
    NUMBERS,
    check_op,
    make_op,
    random_array,
    special_values,
)


def _erf(x):
    return np.vectorize(math.erf, otypes=[float])(x)


FLOAT_FORMULAS = {
    **{name: getattr(np, name) for name in TRANSCENDENTAL if hasattr(np, name)},
    "erf": _erf,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: np.power(x + 0.0, -0.5),
    "reciprocal": lambda x: np.divide(1.0, x),
    "sigmoid": lambda x: 0.5 * (1 + np.tanh(x / 2)),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": lambda x: np.round(x, 0),
    "isnan": np.isnan,
    "isinf": np.isinf,
}
NUMBER_FORMULAS = {
    "neg": lambda x: (0 - x).astype(x.dtype),
    "abs": np.abs,
    "square": lambda x: x * x,
    "sign": np.sign,
    "relu": lambda x: np.where(x < 0, x.dtype.type(0), x),
}


def _pattern(value):
    return np.binary_repr(int(value), 8 * value.itemsize)


BIT_COUNTS = {
    "popcount": lambda v: _pattern(v).count("1"),
    "count_leading_zeros": lambda v: len(_pattern(v)) - len(_pattern(v).lstrip("0")),
}


def test_every_op_of_the_family_is_checked():
    tested = set(FLOAT_FORMULAS) | set(NUMBER_FORMULAS) | set(BIT_COUNTS) | {"not"}
    assert tested == {row.name for row in ROWS}


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [*FLOAT_FORMULAS, *NUMBER_FORMULAS])
def test_float(name, dtype):
    formula = {**FLOAT_FORMULAS, **NUMBER_FORMULAS}[name]
    values = special_values(dtype)
    if name == "rsqrt":
        values = values[values != -np.inf]  # the formula of the test has no NaN there
        values = values[~((values == 0) & np.signbit(values))]
    check_op(name, [values], expected=formula)
    check_op(name, [random_array(dtype, (3, 5))], expected=formula)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", NUMBER_FORMULAS)
def test_integer(name, dtype):
    check_op(name, [special_values(dtype)], expected=NUMBER_FORMULAS[name])


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", BIT_COUNTS)
def test_bits_are_counted(name, dtype):
    values = special_values(dtype)
    expected = np.array([BIT_COUNTS[name](v) for v in values], values.dtype)
    check_op(name, [values], expected=expected)


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
def test_not(dtype):
    values = special_values(dtype)
    expected = ~values if dtype != "bool" else np.array([True, False])
    check_op("not", [values], expected=expected)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (2, 0, 3), (2, 1, 3)])
def test_shapes(shape):
    x = random_array("f32", shape)
    assert check_op("relu", [x], expected=np.maximum(x, np.float32(0))).shape == shape


def test_halves_round_to_even():
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)
    check_op("round", [x], expected=np.array([-2, -2, -0.0, 0, 2, 2], np.float32))


def test_sigmoid_saturates_without_nan():
    x = np.array([-1000.0, 1000.0, -np.inf, np.inf], np.float32)
    check_op("sigmoid", [x], expected=np.array([0, 1, 0, 1], np.float32))


def test_16_bit_floats_round_once():
    x = random_array("bf16", (64,))
    result = check_op("exp", [x])
    exact = np.exp(x.astype(np.float64))
    assert np.all(np.abs(result.astype(np.float64) - exact) <= exact * 2.0**-8 * 1.001)


@pytest.mark.parametrize(
    ("name", "dtype", "message"),
    [
        ("exp", "s32", "exp 'x': input dtype must be a float, got s32; insert a cast"),
        ("neg", "bool", "neg 'x': input dtype must be a float or an integer, got bool; insert a cast"),
        ("not", "f32", "not 'x': input dtype must be an integer or bool, got f32; insert a cast"),
    ],
)  # fmt: skip
def test_rejected_dtypes(name, dtype, message):
    with pytest.raises(UserError) as error:
        make_op(name, [random_array(dtype, (2,))])
    assert str(error.value) == message


def test_rejects_wrong_inputs_and_attributes():
    x = random_array("f32", (2,))
    with pytest.raises(UserError, match=r"^exp 'x': inputs must be x, got 2 inputs$"):
        make_op("exp", [x, x])
    with pytest.raises(
        UserError, match=r"^exp 'x': unknown attribute 'alpha'; it has no attributes$"
    ):
        make_op("exp", [x], {"alpha": 1.0})


@pytest.mark.parametrize("dtype", ALL)
def test_every_dtype_has_an_accepting_op(dtype):
    check_op("not" if dtype == "bool" else "abs", [random_array(dtype, (4,))])
    assert dtype == "bool" or dtype in NUMBERS


@pytest.mark.parametrize(
    ("dtype", "same", "keep_dims", "called"),
    [
        (F32, True, True, "exp_nonpositive"),
        (F64, True, True, "exp"),
        (F32, False, True, "exp"),  # the largest element of something else may be the smaller one
        (F32, True, False, "exp"),  # the largest of a row is subtracted from a column
    ],
)
def test_exp_of_what_the_largest_was_subtracted_from_cannot_overflow(
    dtype: DType, same: bool, keep_dims: bool, called: str
) -> None:
    graph = Graph("g")
    x, y = (graph.make_input(LogicalTensor(dtype, (3, 3)), name) for name in "xy")
    attrs = {"axes": (1,), "keep_dims": keep_dims}
    largest = graph.make("reduce_max", [x if same else y], attrs).outputs
    shifted = graph.make("sub", [x, *largest]).outputs
    op = graph.make("exp", shifted)
    assert isinstance(op, Elementwise)
    computed = op.computation()
    assert isinstance(computed, Pointwise)
    zero = t.as_expr(0)
    value = computed.element([lambda _: Var("x", dtype)], (zero, zero))
    assert isinstance(value, Call) and value.name == called


def test_what_reads_exponentials_is_found_without_recursion() -> None:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, (3, 3)), "x")
    largest = graph.make("reduce_max", [x], {"axes": (1,), "keep_dims": True}).outputs
    op = graph.make("exp", graph.make("sub", [x, *largest]).outputs)
    y = op.outputs[0]
    for _ in range(2000):
        y = graph.make("cast", [y], {"dtype": F32}).outputs[0]
    assert isinstance(op, Elementwise) and isinstance(op.computation(), Pointwise)


@pytest.mark.parametrize("is_output", [False, True])
def test_exponentials_that_only_weigh_rows_of_a_matmul_may_be_zero(is_output: bool) -> None:
    graph = Graph("g")
    x, v = (graph.make_input(LogicalTensor(F32, (3, 3)), name) for name in "xv")
    row = {"axes": (1,), "keep_dims": True}
    largest = graph.make("reduce_max", [x], row).outputs
    op = graph.make("exp", graph.make("sub", [x, *largest]).outputs)
    total = graph.make("reduce_sum", op.outputs, row).outputs
    weights = graph.make("div", [*op.outputs, *total]).outputs
    graph.make("matmul_core", [*weights, v])
    if is_output:
        graph.make_output(*weights)
    assert isinstance(op, Elementwise)
    computed = op.computation()
    assert isinstance(computed, Pointwise)
    value = computed.element([lambda _: Var("x", F32)], (t.as_expr(0), t.as_expr(0)))
    assert isinstance(value, Call)
    assert value.name == ("exp_nonpositive" if is_output else "exp_weight")
