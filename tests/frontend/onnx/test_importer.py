"""Names, order, constants computed at import, functions."""

from __future__ import annotations

import numpy as np
from onnx import helper

from graphc.frontend import load
from graphc.graph_ir.ir.graph import Graph
from support.onnx_models import evaluate, model, node


def names(graph: Graph) -> list[tuple[str, str]]:
    return [(op.op_name, op.name) for op in graph.ops]


def test_names_are_the_file_s() -> None:
    weights = {"w": np.zeros((3, 4), np.float32), "b": np.zeros(4, np.float32)}
    proto = model(
        [node("Gemm", "x w b", "t", name="fc1"), node("Relu", "t")], {"x": [2, 3]}, weights
    )
    graph = load(proto)
    assert names(graph) == [
        ("input", "x"),
        ("constant", "w"),
        ("matmul_core", "fc1"),
        ("constant", "b"),
        ("add", "fc1.add"),
        ("relu", "y"),
        ("output", "y_1"),
    ]
    assert graph.outputs[0].result_name == "y"  # type: ignore[attr-defined]
    assert graph.name == "test"


def test_nodes_in_any_order() -> None:
    proto = model([node("Relu", "a"), node("Neg", "x", "a")], {"x": [2]})
    (y,) = evaluate(proto, {"x": np.array([1, -2], np.float32)})
    np.testing.assert_array_equal(y, [0, 2])


def test_a_weight_read_twice_is_one_constant_and_an_unused_one_none() -> None:
    weights = {"w": np.ones(2, np.float32), "unused": np.ones(2, np.float32)}
    proto = model([node("Add", "x w", "a"), node("Mul", "a w")], {"x": [2]}, weights)
    assert [op.name for op in load(proto).ops if op.op_name == "constant"] == ["w"]


def test_old_files_list_weights_among_the_inputs() -> None:
    proto = model([node("Add", "x w")], {"x": [2], "w": [2]}, {"w": np.ones(2, np.float32)})
    assert [op.name for op in load(proto).inputs] == ["x"]


def test_an_input_may_be_an_output_and_a_weight_too() -> None:
    proto = model([], {"x": [2]}, {"w": np.ones(2, np.float32)}, outputs=("x", "w", "x"))
    first, second, third = evaluate(proto, {"x": np.zeros(2, np.float32)})
    assert first.tolist() == third.tolist() == [0, 0] and second.tolist() == [1, 1]


def test_shape_computations_become_static() -> None:
    """view(x.shape[0], -1, 4) as exporters write it, and a mask of ones of that shape."""
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Unsqueeze", "n axes", "n1"),
        node("Concat", "n1 rest", "shape", axis=0),
        node("Cast", "shape", "wide", to=1),
        node("Reshape", "x shape", "r"),
        node("Shape", "r", "rs"),
        node("ConstantOfShape", "rs", "ones", value=helper.make_tensor("v", 1, [1], [1.0])),
        node("Add", "r ones"),
    ]
    weights = {"zero": np.array(0), "axes": np.array([0]), "rest": np.array([-1, 4])}
    graph = load(model(nodes, {"x": [2, 6, 2]}, weights))
    assert [op.op_name for op in graph.ops] == ["input", "reshape", "constant", "add", "output"]
    (y,) = graph.evaluate([np.zeros((2, 6, 2), np.float32)])
    assert y.shape == (2, 3, 4) and (y == 1).all()


def test_large_constants_are_left_to_the_graph() -> None:
    nodes = [node("ConstantOfShape", "s", "zeros"), node("Add", "x zeros")]
    graph = load(model(nodes, {"x": [1, 1]}, {"s": np.array([1000, 1000])}))
    assert [op.op_name for op in graph.ops] == ["input", "constant", "broadcast", "add", "output"]


def test_defaults_reach_the_bodies_of_standard_functions(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    (y,) = evaluate(model([node("MeanVarianceNormalization", "x")], {"x": list(x.shape)}), {"x": x})
    over = (0, 2, 3)
    want = (x - x.mean(over, keepdims=True)) / x.std(over, keepdims=True)
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)
