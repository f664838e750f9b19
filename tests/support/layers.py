"""Small ONNX models for tests of native libraries, with integer weights, so that results are exact."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_value = helper.make_tensor_value_info


def _model(
    nodes: list[onnx.NodeProto],
    name: str,
    inputs: dict[str, list[int | str]],
    outputs: dict[str, list[int | str]],
    weights: dict[str, np.ndarray],
) -> onnx.ModelProto:
    sources, targets = (
        [_value(n, TensorProto.FLOAT, shape) for n, shape in values.items()]
        for values in (inputs, outputs)
    )
    given = [numpy_helper.from_array(w, n) for n, w in weights.items()]
    graph = helper.make_graph(nodes, name, sources, targets, given)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def layer(
    rows: int | str = 4,
    name: str = "layer",
    width: int = 33,
    scale: int = 1,
    x: str = "x",
    y: str = "y",
) -> onnx.ModelProto:
    """y = relu(x w + b)."""
    values = np.arange(32 * width) % 7 - 3
    weights = {
        "w": (values * scale).reshape(32, width).astype(np.float32),
        "b": (np.arange(width) % 5).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", [x, "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["a"]),
        helper.make_node("Relu", ["a"], [y]),
    ]
    return _model(nodes, name, {x: [rows, 32]}, {y: [rows, width]}, weights)


def decoder() -> onnx.ModelProto:
    """A cache that grows by one row, and the sum of its rows."""
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["present"], axis=0),
        helper.make_node("ReduceSum", ["present", "axes"], ["y"], keepdims=0),
    ]
    return _model(
        nodes, "decoder", {"past": ["P", 5], "x": [1, 5]}, {"present": ["T", 5], "y": [5]}, {"axes": np.array([0])}
    )  # fmt: skip


def whole(*shape: int) -> np.ndarray:
    """Integers from -5 to 5 as f32."""
    return (np.arange(np.prod(shape)) % 11 - 5).reshape(shape).astype(np.float32)
