"""Weights of 4 bits and 8-bit floats, which DequantizeLinear makes floats of."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend import load
from support.onnx_models import node

TYPES = ("INT4", "UINT4", "INT2", "UINT2", "FLOAT4E2M1", "FLOAT8E4M3FN", "FLOAT8E5M2")


def weight(kind: str, dims=(3, 5)) -> TensorProto:
    number = TensorProto.DataType.Value(kind)
    values = np.random.default_rng(1).integers(0, 4, dims).astype(np.float32)
    values = values - 2 if kind.startswith(("INT", "FLOAT")) else values
    return helper.make_tensor("w", number, dims, values.reshape(-1))


def dequantized(tensor: TensorProto, op_type: str = "DequantizeLinear") -> onnx.ModelProto:
    scale = numpy_helper.from_array(np.array([0.5, 2, 4], np.float32), "s")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (3, 5))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    first = node(op_type, "w s" if op_type == "DequantizeLinear" else "w", "d", axis=0)
    graph = helper.make_graph([first, node("Add", "x d")], "g", [x], [y], [tensor, scale])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])


@pytest.mark.parametrize("packed", [False, True], ids=["fields", "raw"])
@pytest.mark.parametrize("kind", TYPES)
def test_values(kind, packed):
    tensor = weight(kind)
    wanted = numpy_helper.to_array(tensor).astype(np.float32)
    if packed:
        tensor.raw_data = bytes(v & 255 for v in tensor.int32_data) or tensor.raw_data
        tensor.ClearField("int32_data")
    result = load(dequantized(tensor)).evaluate([np.zeros((3, 5), np.float32)])[0]
    np.testing.assert_array_equal(result, wanted * np.array([[0.5], [2], [4]], np.float32))


def test_other_readers_are_refused():
    with pytest.raises(UnsupportedError, match="initializer 'w': element type INT4"):
        load(dequantized(weight("INT4"), "Identity"))


def test_too_few_bytes_are_an_error():
    tensor = weight("UINT4")
    tensor.ClearField("int32_data")
    tensor.raw_data = b"abc"
    with pytest.raises(UserError, match=r"initializer 'w': \[3, 5\] takes 8 bytes, got 3"):
        load(dequantized(tensor))
