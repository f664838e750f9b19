"""Numbers that follow from dynamic sizes, and the shape arithmetic of exporters."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import graphc
from graphc import Graph
from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.logical_tensor import LogicalTensor

B, S = size(Symbol("B", 1, 9)), size(Symbol("S", 1, 40))


def test_sizes_and_ranges_are_computed_when_the_model_runs() -> None:
    graph = Graph("sizes")
    graph.make_input(LogicalTensor(F32, (B, S)), "x")
    graph.make_output(
        graph.make("dynamic_sizes", [], {"values": (B, 7, S - 1, B * S)}).outputs[0], "sizes"
    )
    counted = graph.make("count_up", [], {"size": (S,), "start": 3, "step": -2}).outputs[0]
    graph.make_output(counted, "counted")
    model = graphc.compile(graph, threads=1)
    for b, s in ((1, 1), (3, 17), (9, 40)):
        sizes, counted_ = model(np.zeros((b, s), np.float32))
        assert sizes.tolist() == [b, 7, s - 1, b * s]
        assert counted_.tolist() == [3 - 2 * i for i in range(s)]


def exported(nodes: list, constants: dict[str, list[int]], result: list) -> ModelProto:
    """A model of x: f32[B,S,12]."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", "S", 12])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, result)
    made = [numpy_helper.from_array(np.array(v, np.int64), k) for k, v in constants.items()]
    graph = helper.make_graph(nodes, "exported", [x], [y], made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def n(op: str, inputs: str, output: str, **attrs: object) -> object:
    return helper.make_node(op, inputs.split(), [output], output, **attrs)


HEADS = [
    n("Shape", "x", "shape"), n("Gather", "shape zero", "b"), n("Gather", "shape one", "s"),
    n("Unsqueeze", "b axis", "b1"), n("Mul", "s two", "s2"), n("Div", "s2 two", "s3"),
    n("Unsqueeze", "s3 axis", "s1"), n("Concat", "b1 s1 heads", "split", axis=0),
    n("Reshape", "x split", "apart"), n("Transpose", "apart", "transposed", perm=[0, 2, 1, 3]),
    n("Concat", "b1 rest", "merge", axis=0), n("Reshape", "transposed merge", "y"),
]  # fmt: skip
NUMBERS = {"zero": 0, "one": 1, "two": 2, "axis": [0], "heads": [3, 4], "rest": [-1, 4]}

POSITIONS = [
    n("Shape", "x", "shape", start=1, end=2), n("Squeeze", "shape", "s"), n("Range", "zero s one", "range"),
    n("Cast", "range", "float", to=TensorProto.FLOAT), n("Unsqueeze", "float axis", "column"),
    n("Expand", "column shape2", "wide"), n("Slice", "x zeros shape ones", "cut"), n("Add", "cut wide", "y"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "constants", "result"),
    [
        (HEADS, NUMBERS, ["B", "R", 4]),
        (
            POSITIONS,
            {"zero": 0, "one": 1, "axis": [1], "shape2": [1, 12], "zeros": [0], "ones": [1]},
            ["B", "S", 12],
        ),
    ],
)
def test_shape_arithmetic_of_exporters(nodes: list, constants: dict, result: list) -> None:
    model = exported(nodes, constants, result)
    served = graphc.compile(model, threads=1)
    for b, s in ((1, 1), (3, 17), (4, 40)):
        x = np.random.default_rng(b).standard_normal((b, s, 12)).astype(np.float32)
        alone = graphc.compile(model, inputs={"x": f"f32[{b},{s},12]"}, threads=1)
        assert served(x).tobytes() == alone(x).tobytes()


def test_a_slice_is_cut_to_what_there_is() -> None:
    table = {"zeros": [0], "axes": [1], "rows": [20]}
    nodes = [n("Slice", "x zeros rows axes", "y")]
    served = graphc.compile(exported(nodes, table, ["B", "R", 12]), threads=1)
    for rows in (1, 19, 20, 50):
        x = np.arange(2 * rows * 12, dtype=np.float32).reshape(2, rows, 12)
        np.testing.assert_array_equal(served(x), x[:, :20])
