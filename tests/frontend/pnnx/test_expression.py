"""Expressions: what they parse to, what they compute, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.base.errors import UserError
from graphc.frontend import load
from graphc.frontend.pnnx.expression import Step, parse_expression
from graphc.graph_ir.ir.graph import Array
from support.pnnx_models import load_operator, run_operator, write_model
from support.tolerance import assert_close

X = np.array([[0.5, -1.25, 3.0], [2.0, 0.75, -0.5]], np.float32)
Y = np.array([[1.0, 2.0, -3.0]], np.float32)
I = np.array([[7, -7, 4]])  # noqa: E741


def value(text: str, folder: Path, *inputs: Array) -> Array:
    return run_operator(folder, f"pnnx.Expression expr={text}", inputs)[0]


def test_the_program_of_a_nested_expression() -> None:
    assert parse_expression("add(@0,[1,size(@1,-2)])") == [
        Step("input", 0),
        Step("literal", 1),
        Step("input", 1),
        Step("literal", -2),
        Step("call", "size", 2),
        Step("list", count=2),
        Step("call", "add", 2),
    ]
    assert parse_expression("[]") == [Step("list")]
    assert parse_expression("1e-3")[0].value == float(np.float32(1e-3))
    assert [s.value for s in parse_expression("[None,True,torch.float,-2.5,inf]")[:-1]] == [
        *(None, True, "torch.float", -2.5, float("inf"))
    ]


CASES: list[tuple[str, Any]] = [
    ("add(@0,mul(@1,2))", X + 2 * Y),
    ("sub(1.0,@0)", 1 - X),
    ("div(@0,@1)", X / Y),
    ("pow(@0,2)", X * X),
    ("floor_divide(@0,2.0)", np.floor(X / 2)),
    ("remainder(@0,-2.0)", np.remainder(X, -2)),
    ("fmod(@0,2.0)", np.fmod(X, 2)),
    ("maximum(@0,@1)", np.maximum(X, Y)),
    ("min(@0,@1)", np.minimum(X, Y)),
    ("atan2(@0,@1)", np.arctan2(X, Y)),
    ("logaddexp(@0,@1)", np.logaddexp(X, Y)),
    ("exp(neg(abs(@0)))", np.exp(-np.abs(X))),
    ("square(rsqrt(abs(@0)))", 1 / np.abs(X)),
    ("round(@0)", np.rint(X)),
    ("torch.long(@0)", X.astype(np.int64)),
    ("torch.float(torch.bool(@0))", (X != 0).astype(np.float32)),
    ("mul(@0,size(@0,1))", X * 3),
    ("mul(@0,sqrt(size(@0,-1)))", X * np.sqrt(3)),
    ("mul(@0,floor_divide(7,int(2.9)))", X * 3),
    ("reciprocal(log10(exp(@0)))", 1 / (X / np.log(10))),
    ("@0", X),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[c[0] for c in CASES])
def test_values(text: str, expected: Array, tmp_path: Path) -> None:
    y = value(text, tmp_path, X, Y) if "@1" in text else value(text, tmp_path, X)
    assert_close(y, np.asarray(expected).astype(y.dtype), 4)


def test_integers_and_bits(tmp_path: Path) -> None:
    np.testing.assert_array_equal(value("lshift(and(@0,7),2)", tmp_path, I), (I & 7) << 2)
    np.testing.assert_array_equal(value("rshift(xor(@0,-1),1)", tmp_path, I), (I ^ -1) >> 1)
    np.testing.assert_array_equal(value("floor_divide(@0,2)", tmp_path, I), I // 2)
    assert value("div(@0,2)", tmp_path, I).dtype == np.float32


SIZES = [
    ("pow(size(@0,0),0.5)", 7**0.5),
    ("pow(size(@0,0),-1)", 1 / 7),
    ("pow(size(@0,0),2)", 49),
    ("pow(2,size(@0,0))", 128),
    ("fmod(size(@0,0),2.5)", 2),
    ("atan2(size(@0,0),2.0)", np.arctan2(7, 2)),
    ("log10(size(@0,0))", np.log10(7)),
    ("trunc(div(size(@0,0),-2))", -3),
]


@pytest.mark.parametrize(("text", "expected"), SIZES, ids=[c[0] for c in SIZES])
def test_functions_of_a_dynamic_size(text: str, expected: float, tmp_path: Path) -> None:
    lines = [
        "pnnx.Input in 0 1 x #x=(?,3)f32",
        f"pnnx.Expression e 1 1 x y expr=mul(@0,{text})",
        "pnnx.Output out 1 0 y",
    ]
    x = np.ones((7, 3), np.float32)
    compiled = graphc.compile(write_model(tmp_path, lines), threads=1)
    np.testing.assert_allclose(compiled(x), np.float32(expected) * x, rtol=1e-6)


def test_an_expression_of_numbers_is_a_scalar_output(tmp_path: Path) -> None:
    y = value("div(pow(2,10),size(@0,0))", tmp_path, X)
    assert y.shape == () and y == 512


def test_one_operand_twice_and_lists_as_shapes(tmp_path: Path) -> None:
    lines = [
        "pnnx.Input in 0 1 x #x=(2,3)f32",
        "pnnx.Expression s 1 1 x shape expr=[mul(size(@0,0),size(@0,1)),1]",
        "Tensor.reshape r 2 1 x shape y $input=x $shape=shape",
        "torch.mul m 2 1 y y z $input=y $other=y",
        "pnnx.Output out 1 0 z",
    ]
    graph = load(write_model(tmp_path, lines))
    np.testing.assert_array_equal(graph.evaluate([X])[0], (X * X).reshape(6, 1))


def test_dynamic_slices_and_tuples(tmp_path: Path) -> None:
    lines = [
        "pnnx.Input in 0 1 x #x=(2,3)f32",
        "Tensor.size s 1 1 x n dim=1",
        "pnnx.SliceIndexes e 1 1 n ends indexes=(2147483647,@0)",
        "Tensor.slice c 2 1 x ends y $input=x $ends=ends dims=(0,1) starts=(1,1) steps=(1,1)",
        "prim::TupleConstruct t 2 1 x y pair",
        "pnnx.Output out 1 0 pair",
    ]
    graph = load(write_model(tmp_path, lines))
    first, second = graph.evaluate([X])
    np.testing.assert_array_equal(first, X)
    np.testing.assert_array_equal(second, X[1:, 1:])
    assert [op.attrs["temp.result"] for op in graph.outputs] == ["out.0", "out.1"]


BAD = [
    ("", "an expression must be made of calls, numbers and @inputs, got ''"),
    ("add(@0,1)*", "an expression must be made of calls, numbers and @inputs, got 'add(@0,1)*'"),
    ("add(@0,1))", "an expression must have matching brackets, got ')' in 'add(@0,1))'"),
    ("add(@0,1]", "an expression must have matching brackets, got ']' in 'add(@0,1]'"),
    ("add(@0,", "an expression must be complete, got 'add(@0,'"),
    ("add(@0,@7)", "@7 must be one of the inputs, got 1 inputs"),
    ("add(@0)", "add must have 2 operands, got 1"),
    ("add(@0,red)", "operands of add must be tensors or numbers, got 'red'"),
    ("add(@0,[1])", "operands of add must be tensors or numbers, got [1]"),
    ("size(@0,2)", "dim must be in [-2, 2), got 2"),
    ("floor_divide(1,0)", "the operands must have a result, got [1, 0]: integer division or modulo by zero"),
    ("pow(10,10000000000)", "the operands must have a result, got [10, 10000000000]: the power does not fit 64 bits"),
    ("mul(9999999999,9999999999)", "an integer must fit 64 bits, got one of 67 bits"),
    ("@x", "an operand must be a number, a word or @input, got '@x' in '@x'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD, ids=[b[0] for b in BAD])
def test_refused_expressions(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        load_operator(tmp_path, f"pnnx.Expression expr={text}", [X])
    location = f" (in '{tmp_path}/m.pnnx.param', line 4)"
    assert str(error.value) == f"pnnx.Expression 'op': {message}{location}"


def test_complex_numbers_give_two_results(tmp_path: Path) -> None:
    graph = load_operator(tmp_path, "pnnx.Expression expr=mul(@0,1.0e+00+-2.0e+00j)", [X])
    real, imag = graph.evaluate([X])
    assert_close(real, X, 1)
    assert_close(imag, -2 * X, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sub(expm1,@0),0.5", np.expm1(X) - 0.5),
        ("add(mul(sub(expm1,@0),0.5),log1p),@1,exp(@0)", (np.expm1(X) - 0.5) * np.log1p(np.abs(Y)) + np.exp(X)),
    ],
)  # fmt: skip
def test_functions_that_the_tool_writes_without_their_operands(
    text: str, expected: Array, tmp_path: Path
) -> None:
    inputs = (X, np.abs(Y)) if "@1" in text else (X,)
    assert_close(value(text, tmp_path, *inputs), expected, 8)


@pytest.mark.parametrize("opening", ["neg(", "["])
def test_nesting_far_beyond_any_model(opening: str, tmp_path: Path) -> None:
    text = opening * 100_000
    with pytest.raises(UserError) as error:
        load_operator(tmp_path, f"pnnx.Expression expr={text}", [X])
    assert str(error.value) == (
        "pnnx.Expression 'op': an expression must be nested at most 1000 deep, "
        f"got '{text[:64]}...' ({len(text)} characters) (in '{tmp_path}/m.pnnx.param', line 4)"
    )
