"""Exact results of integer matmuls: nothing that ONNX Runtime is given can saturate on a CPU without VNNI."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("onnxruntime")
from graphc.bench.exact import exact_results, with_unsigned_weights

RANDOM = np.random.default_rng(0)
X = RANDOM.integers(0, 256, (5, 24), np.uint8)
W = RANDOM.integers(-128, 128, (24, 7), np.int8)
W[:, :2] = 127, -128
ZERO = RANDOM.integers(-128, 128, 7, np.int8)


def matmul_model(zero: bool, computed: bool) -> bytes:
    """A MatMulInteger, with a zero point of the weights and with weights that are an input, or without."""
    names = ["x", "w", "", "zero"] if zero else ["x", "w"]
    weights = helper.make_tensor_value_info("w", TensorProto.INT8, W.shape)
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", names, ["y"])],
        "matmul",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, X.shape), *[weights] * computed],
        [helper.make_tensor_value_info("y", TensorProto.INT32, (5, 7))],
        [
            numpy_helper.from_array(ZERO, "zero"),
            *[numpy_helper.from_array(W, "w")] * (not computed),
        ],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


@pytest.mark.parametrize("zero", [False, True])
def test_weights_become_unsigned_and_results_stay(zero: bool) -> None:
    model = matmul_model(zero, computed=False)
    graph = onnx.load_from_string(with_unsigned_weights(model)).graph
    types = {x.name: x.data_type for x in graph.initializer}
    assert [types[graph.node[0].input[i]] for i in (1, 3)] == [TensorProto.UINT8] * 2
    wanted = X.astype(np.int64) @ (W.astype(np.int64) - (ZERO if zero else 0))
    np.testing.assert_array_equal(exact_results(model, {"x": X})[0], wanted)


def test_computed_weights_stay() -> None:
    model = matmul_model(zero=False, computed=True)
    assert list(onnx.load_from_string(with_unsigned_weights(model)).graph.node[0].input)[1] == "w"
