"""The operators of model files: their own in PNNX, those they are imported as in the other formats."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from graphc.base.dtypes import F32
from graphc.frontend.formats import FORMATS
from graphc.frontend.tvm.params import read_params
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.text.printer import print_graph
from graphc.tools.convert import convert
from graphc.tools.operators import Operand, Operator, list_operators
from support.networks import perceptron
from support.pnnx_models import write_model


def test_pnnx_as_it_stands_in_the_file(tmp_path: Path) -> None:
    lines = [
        "pnnx.Input in 0 1 x #x=(1,?)f32",
        "nn.LSTM l 1 1 x h hidden_size=4 @w=(16,4)f16",
        "torch.where w 2 1 h x y $condition=h $input=x other=0.0",
        "pnnx.Output out 1 0 y",
    ]
    found = list_operators(write_model(tmp_path, lines))
    x = Operand("x", "(1,?)f32", "in", ("l", "w"), 1)
    h, y = Operand("h", "", "l", ("w",), 0), Operand("y", "", "w", ("out",), 0)
    codes = {"hidden_size": 2, "w": 3}
    assert found == [
        Operator("pnnx.Input", "in", {}, {}, (), (), (x,)),
        Operator(
            "nn.LSTM", "l", {"hidden_size": "4"}, {"w": "(16,4)f16"}, (x,), ("",), (h,), codes
        ),
        Operator(
            "torch.where",
            "w",
            {"other": "0.0"},
            {},
            (h, x),
            ("condition", "input"),
            (y,),
            {"other": 3},
        ),
        Operator("pnnx.Output", "out", {}, {}, (y,), ("",), ()),
    ]


def test_the_other_formats_as_they_are_imported(tmp_path: Path) -> None:
    start = tmp_path / "start.graph"
    start.write_text(print_graph(perceptron(), full=True))
    for target in ("onnx", "tvm", "hlo", "ge"):
        path = convert(start, target, tmp_path / f"m{FORMATS[target].suffix}").files[0]
        specs = {"x": "f32[4,13]"} if target == "ge" else {}
        constants = read_params(f"{path}.params") if target == "ge" else {}
        matmul = list_operators(path, specs, constants)[1]
        assert (matmul.type, matmul.name) == ("matmul_core", "fc0")
        assert matmul.params["transpose_b"] == "True"
        (weight,) = matmul.attributes.values()
        assert weight.startswith("f32[32,13] ")
        (x,) = matmul.inputs
        assert (x.name, x.type, x.producer, x.consumers) == ("x", "f32[4,13]", "x", ("fc0",))


def test_ops_of_subgraphs_follow_their_op(tmp_path: Path) -> None:
    branches = []
    for name in ("relu", "neg"):
        inner = Graph(name)
        x = inner.make_input(LogicalTensor(F32, (2,)), "x")
        inner.make_output(inner.make(name, [x], name="y").outputs[0])
        branches.append(inner)
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, (2,)), "x")
    index = graph.make_constant(np.array(1), "index")
    op = graph.make("case", [index, x], {"branches": tuple(branches)}, "if")
    graph.make_output(op.outputs[0])
    path = tmp_path / "m.graph"
    path.write_text(print_graph(graph, full=True))
    found = {op.name: op for op in list_operators(path)}
    assert list(found) == ["x", "if", "if/relu/x", "if/relu/y", "if/relu/output", "if/neg/x",
                           "if/neg/y", "if/neg/output", "output"]  # fmt: skip
    assert found["if/neg/y"].inputs == (Operand("if/neg/x", "f32[2]", "if/neg/x", ("if/neg/y",)),)
    assert found["if"].params == {"branches": "(relu,neg)"}
