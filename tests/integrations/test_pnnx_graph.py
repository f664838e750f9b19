"""PNNX's graph API: files as objects, changed and written back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphc
from graphc.base.errors import UserError
from graphc.frontend.pnnx.param_value import parameter_type, parse_param_value
from graphc.integrations.pnnx_graph import Attribute, Graph, Parameter
from support.pnnx_models import write_model
from support.process import ROOT

LINEAR = ROOT / "examples" / "linear.pnnx.param"


def test_what_is_stored_is_written_back_byte_for_byte(tmp_path: Path) -> None:
    Graph.load(LINEAR).save(tmp_path / "l.param")
    assert (tmp_path / "l.param").read_bytes() == LINEAR.read_bytes()
    assert (tmp_path / "l.bin").read_bytes() == LINEAR.with_suffix(".bin").read_bytes()
    lines = [
        "pnnx.Input in 0 1 x #x=(1,?)f32",
        "torch.where w 2 1 x x y $condition=x a=(1,2) b=[] c=1.500000e-07 d=expr(%0) #x=(1,?)f32",
        "pnnx.Output out 1 0 y",
    ]
    path = write_model(tmp_path, lines)
    Graph.load(path).save(tmp_path / "again.param")
    again = (tmp_path / "again.param").read_text().splitlines()[2:]
    assert sorted(" ".join(again).split()) == sorted(" ".join(lines).split())


def test_producers_consumers_and_types() -> None:
    graph = Graph.load(LINEAR)
    _, linear, sigmoid, _ = graph.ops
    x, y, _ = graph.operands
    assert (x.consumers, y.producer, y.consumers) == ([linear], linear, [sigmoid])
    assert (y.type, y.shape, graph.get_operand("1")) == (1, (4, 128), y)
    assert {key: one.type for key, one in linear.params.items()} == {
        "bias": 1, "in_features": 2, "out_features": 2,
    }  # fmt: skip
    weight = linear.attrs["weight"]
    assert (weight.type, weight.shape, weight.data.dtype) == (1, (128, 32), np.float32)
    assert graph.get_operand("nothing") is None


def test_a_graph_is_changed_and_compiled(tmp_path: Path) -> None:
    graph = Graph.load(LINEAR)
    sigmoid, old = graph.ops[2], graph.operands[1]
    graph.ops[1].attrs["bias"] = Attribute(np.zeros(128, np.float32))
    scale = graph.new_operator_before("F.leaky_relu", "leaky", sigmoid)
    scale.params["negative_slope"] = Parameter(0.5)
    scaled = graph.new_operand("scaled")
    scaled.producer = scale
    scale.inputs, scale.outputs = [old], [scaled]
    old.remove_consumer(sigmoid)
    old.consumers.append(scale)
    sigmoid.inputs = [scaled]
    graph.save(tmp_path / "changed.param")
    x = np.random.default_rng(0).standard_normal((4, 32), np.float32)
    linear = x @ graph.ops[1].attrs["weight"].data.T
    expected = 1 / (1 + np.exp(-np.where(linear > 0, linear, linear / 2)))
    y = graphc.compile(tmp_path / "changed.param", threads=1)(x)
    np.testing.assert_allclose(y, expected, rtol=1e-5)


def test_a_new_value_has_a_new_text_and_an_operand_a_producer(tmp_path: Path) -> None:
    one = Parameter(parse_param_value("1e-05"), "1e-05")
    assert one.text == "1e-05"
    one.value = [1, 2]
    assert (one.text, one.type) == ("(1,2)", 5)
    graph = Graph()
    graph.new_operator("pnnx.Output", "out").inputs = [graph.new_operand("x")]
    with pytest.raises(UserError, match="operand 'x' must be made by an operator, but none does"):
        graph.save(tmp_path / "m.param")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("None", 0), ("True", 1), ("-3", 2), ("0.5", 3), ("mean", 4), ("(1,2)", 5),
        ("(1,2.0)", 6), ("(a,b)", 7), ("()", 0), ("%axis", 4),
    ],
)  # fmt: skip
def test_codes_of_parameters(text: str, code: int) -> None:
    assert parameter_type(parse_param_value(text)) == code
