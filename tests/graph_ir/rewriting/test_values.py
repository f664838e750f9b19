from __future__ import annotations

import numpy as np
import pytest

from graphc.graph_ir.ir.graph import GraphTensor
from graphc.graph_ir.rewriting.values import constant_value, never_below_zero, uniform_value
from support.expressions import graph_from


def tensor(text: str, dtype: str = "f32") -> GraphTensor:
    return graph_from(text, dtype, x=(4,)).outputs[0].inputs[0]


def test_constant_value() -> None:
    value = constant_value(tensor("c([1.0, 2.0])"))
    assert value is not None and value.tolist() == [1, 2]
    assert constant_value(tensor("x")) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("c(2.5)", 2.5),
        ("c([3.0, 3.0, 3.0])", 3.0),
        ("broadcast(reshape(c([3.0]), shape=()), shape=(4, 4))", 3.0),
        ("c([3.0, 2.0, 3.0])", None),
        ("c([3.0, 2.0])", None),
        ("c([])", None),
        ("c(float_nan)".replace("float_nan", "inf - inf"), None),
        ("c([0.0, -0.0])", None),
        ("x", None),
        ("neg(c(1.0))", None),
    ],
)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64"])
def test_uniform_value(text: str, value: float | None, dtype: str) -> None:
    found = uniform_value(tensor(text, dtype))
    assert found is None if value is None else float(found) == value


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_uniform_zeros_keep_their_sign(dtype: str) -> None:
    assert np.signbit(uniform_value(tensor("c([-0.0, -0.0])", dtype)))
    assert not np.signbit(uniform_value(tensor("c([0.0, 0.0])", dtype)))


@pytest.mark.parametrize(
    ("text", "dtype", "known"),
    [
        ("x", "f32", False),
        ("neg(abs(x))", "f32", False),
        ("relu(x)", "f32", False),  # may be -0
        ("abs(x)", "f32", True),
        ("reduce_mean(square(x), axes=(0,))", "f32", True),
        ("reduce_max(square(x), axes=(0,))", "f32", False),
        ("sqrt(add(exp(x), c(1.0)))", "f32", True),
        ("sqrt(add(exp(x), c(-1.0)))", "f32", False),
        ("add(exp(x), c(-0.0))", "f32", False),
        ("mul(exp(x), abs(x))", "f32", True),
        ("sub(exp(x), abs(x))", "f32", False),
        ("x", "u8", True),
        ("neg(x)", "u8", True),
        ("abs(x)", "s8", False),  # of -128
        ("cast(x, dtype='f32')", "u8", True),
        ("cast(x, dtype='s8')", "u8", False),
        ("cast(x, dtype='s8')", "bool", True),
        ("c(3)", "s8", True),
        ("c(-3)", "s8", False),
    ],
)
def test_never_below_zero(text: str, dtype: str, known: bool) -> None:
    assert never_below_zero(tensor(text, dtype)) is known


def test_the_search_is_bounded() -> None:
    assert not never_below_zero(tensor("sqrt(" * 40 + "abs(x)" + ")" * 40))
