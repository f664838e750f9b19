"""Whole models of 16-bit floats: parameters, biases and norms of that type load, run, and stay near f32."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from graphc.base.dtypes import by_name
from graphc.driver.compiler import compile as compile_model
from graphc.frontend import load

Array = np.ndarray[Any, Any]
TYPES = {"bf16": onnx.TensorProto.BFLOAT16, "f16": onnx.TensorProto.FLOAT16, "f32": 1}


def model(dtype: str) -> onnx.ModelProto:
    """Convolution with a bias, batch norm, pool, Gemm, layer norm, attention of one head, softmax."""
    random, kind = np.random.default_rng(0), by_name(dtype).numpy
    held: list[onnx.TensorProto] = []

    def weight(name: str, *dims: int, offset: float = 0.0) -> str:
        rough = (random.standard_normal(dims) * 0.2 + offset).astype(by_name("bf16").numpy)
        value = rough.astype(kind)
        held.append(helper.make_tensor(name, TYPES[dtype], dims, value.tobytes(), raw=True))
        return name

    norm = [weight(f"bn{i}", 24, offset=float(i in (0, 3))) for i in range(4)]
    nodes = [
        helper.make_node("Conv", ["x", weight("k", 24, 8, 3, 3), weight("kb", 24)], ["c"], pads=[1] * 4),
        helper.make_node("BatchNormalization", ["c", norm[0], norm[1], norm[2], norm[3]], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Reshape", ["p", "shape"], ["s"]),
        helper.make_node("Gemm", ["s", weight("w", 36, 32), weight("b", 32)], ["g"]),
        helper.make_node("LayerNormalization", ["g", weight("ls", 32, offset=1), weight("lb", 32)], ["l"]),
        helper.make_node("Transpose", ["l"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["l", "t"], ["q"]),
        helper.make_node("Softmax", ["q"], ["a"], axis=-1),
        helper.make_node("MatMul", ["a", "l"], ["y"]),
    ]  # fmt: skip
    held.append(helper.make_tensor("shape", onnx.TensorProto.INT64, [2], [24, 36]))
    infos = [helper.make_tensor_value_info("x", TYPES[dtype], [1, 8, 12, 12]),
             helper.make_tensor_value_info("y", TYPES[dtype], [24, 32])]  # fmt: skip
    graph = helper.make_graph(nodes, "half", infos[:1], infos[1:], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["native", "generic"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("bf16", 0.04), ("f16", 0.005)])
def test_near_f32(dtype: str, tolerance: float, target: str) -> None:
    x = np.random.default_rng(1).standard_normal((1, 8, 12, 12)).astype(by_name(dtype).numpy)
    (wanted,) = load(model("f32")).evaluate([x.astype(np.float32)])
    found = compile_model(model(dtype), target=target, threads=1)(x)
    assert found.dtype == by_name(dtype).numpy
    largest = np.abs(wanted).max()
    np.testing.assert_allclose(
        found.astype(np.float32), wanted, rtol=0, atol=tolerance * float(largest)
    )
