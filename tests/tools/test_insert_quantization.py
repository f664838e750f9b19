"""Q and DQ nodes around matmuls: the nodes, the file, its results, and ONNX Runtime's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from graphc.base.errors import UserError
from graphc.frontend import load
from graphc.tools.insert_quantization import insert_quantization, quantizable

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def model(opset: int = 17) -> onnx.ModelProto:
    """conv with a bias, relu, flatten, two Gemm that share their weights, a matmul of two computed matrices."""
    weights = {
        "k": normal(6, 3, 3, 3),
        "kb": normal(6),
        "w": normal(24, 10),
        "b": normal(10),
        "m": normal(10, 5),
    }
    nodes = [
        helper.make_node("Conv", ["x", "k", "kb"], ["c"]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Flatten", ["r"], ["f"]),
        helper.make_node("Gemm", ["f", "w", "b"], ["g"]),
        helper.make_node("Gemm", ["f", "w"], ["h"], alpha=0.5),
        helper.make_node("MatMul", ["g", "m"], ["n"]),
        helper.make_node("Transpose", ["n"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["t", "h"], ["y"]),
    ]
    infos = [
        helper.make_tensor_value_info(n, 1, d) for n, d in (("x", [2, 3, 4, 4]), ("y", [5, 10]))
    ]
    held = [numpy_helper.from_array(v, n) for n, v in weights.items()]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


SCALES = {"x": (0.03, 120), "f": (0.1, 0), "g": (0.5, 128)}


def test_sites() -> None:
    sites = {s.node: (s.activation, s.weight, s.axis, s.bias) for s in quantizable(model())}
    assert sites == {
        "c": ("x", "k", 0, "kb"), "g": ("f", "w", 1, "b"), "h": ("f", "w", 1, ""), "n": ("g", "m", 1, ""),
    }  # fmt: skip
    with pytest.raises(UserError, match="the model must be of opset 13 or later, got 11"):
        quantizable(model(11))


def test_each_tensor_is_quantized_once_and_floats_are_gone() -> None:
    source = model()
    made = insert_quantization(source, quantizable(source), SCALES)
    onnx.checker.check_model(made, full_check=True)
    types = [node.op_type for node in made.graph.node]
    assert types.count("QuantizeLinear") == 3 and types.count("DequantizeLinear") == 3 + 3 + 2
    held = {x.name: x.data_type for x in made.graph.initializer}
    assert not {"k", "w", "m", "kb"} & held.keys()
    assert held["k_quantized"] == onnx.TensorProto.INT8
    assert held["b_quantized"] == onnx.TensorProto.INT32
    assert [n.op_type for n in source.graph.node][0] == "Conv"  # the given model is as it was


def test_values() -> None:
    source, x = model(), normal(2, 3, 4, 4)
    made = insert_quantization(source, quantizable(source), SCALES)
    (exact,), (found,) = load(source).evaluate([x]), load(made).evaluate([x])
    assert np.abs(found - exact).max() < 0.1 * np.abs(exact).max()
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(made.SerializeToString())
    np.testing.assert_allclose(
        session.run(None, {"x": x})[0], found, rtol=0, atol=0.03 * np.abs(exact).max()
    )


def test_a_bias_beyond_the_steps_of_its_weights_is_kept() -> None:
    source = model()
    held = {x.name: x for x in source.graph.initializer}
    weights, bias = (numpy_helper.to_array(held[name]).copy() for name in ("w", "b"))
    weights[:, 2], weights[:, 3], bias[:4] = 0, 1e-12, 1000
    for name, value in (("w", weights), ("b", bias)):
        held[name].CopyFrom(numpy_helper.from_array(value, name))
    x = normal(2, 3, 4, 4)
    made = insert_quantization(source, quantizable(source), SCALES)
    del made.graph.output[:], source.graph.output[:]
    for proto in (made, source):
        proto.graph.output.append(helper.make_tensor_value_info("g", 1, [4, 10]))
    (exact,), (found,) = load(source).evaluate([x]), load(made).evaluate([x])
    assert np.abs(found - exact).max() < 0.01 * np.abs(exact).max()


def test_weights_in_constant_nodes_and_behind_identity_are_quantized() -> None:
    source = model()
    graph = source.graph
    moved = [x for x in graph.initializer if x.name in ("k", "m")]
    for x in moved:
        graph.initializer.remove(x)
    first = helper.make_node("Constant", [], ["k"], value=moved[0])
    others = [
        helper.make_node("Constant", [], ["m0"], value=moved[1]),
        helper.make_node("Identity", ["m0"], ["m"]),
    ]
    nodes = [first, *others, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    made = insert_quantization(source, quantizable(source), SCALES)
    assert [s.node for s in quantizable(source)] == ["c", "g", "h", "n"]
    assert not {"Constant", "Identity"} & {node.op_type for node in made.graph.node}
    x = normal(2, 3, 4, 4)
    wanted = load(insert_quantization(model(), quantizable(model()), SCALES)).evaluate([x])[0]
    assert load(made).evaluate([x])[0].shape == wanted.shape


def test_weights_that_are_not_finite_stay() -> None:
    source = model()
    for index, name in ((0, "k"), (3, "b")):
        value = numpy_helper.to_array(source.graph.initializer[index]).copy()
        value.flat[1] = np.inf
        source.graph.initializer[index].CopyFrom(numpy_helper.from_array(value, name))
    sites = quantizable(source)
    assert [(s.node, s.bias) for s in sites] == [("g", ""), ("h", ""), ("n", "")]


def test_names_of_nodes_are_not_taken_again() -> None:
    source = model()
    source.graph.node[1].name = "x_dequantized"
    made = insert_quantization(source, quantizable(source), SCALES)
    names = [node.name for node in made.graph.node if node.name]
    assert len(names) == len(set(names))
