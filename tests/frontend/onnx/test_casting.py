"""Types of 8 bits and less: stored in files, cast, quantized and dequantized."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphc
from graphc.base.dtypes import SMALL, DType, by_name
from graphc.base.errors import UserError
from graphc.frontend import load
from graphc.frontend.onnx.export import ELEMENT_TYPES
from graphc.frontend.onnx.tensors import stored, to_array
from graphc.frontend.onnx.writer import to_onnx
from support.onnx_models import node

KINDS = ("INT4", "UINT4", "INT2", "UINT2", "FLOAT4E2M1", "FLOAT8E4M3FN", "FLOAT8E5M2")


def weight(kind: str, dims: tuple[int, ...] = (3, 5)) -> TensorProto:
    number = TensorProto.DataType.Value(kind)
    values = np.random.default_rng(1).integers(0, 4, dims).astype(np.float32)
    values = values - 2 if kind.startswith(("INT", "FLOAT")) else values
    return helper.make_tensor("w", number, dims, values.reshape(-1))


def dequantized(tensor: TensorProto) -> onnx.ModelProto:
    scale = numpy_helper.from_array(np.array([0.5, 2, 4], np.float32), "s")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (3, 5))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    nodes = [node("DequantizeLinear", "w s", "d", axis=0), node("Add", "x d")]
    graph = helper.make_graph(nodes, "g", [x], [y], [tensor, scale])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])


@pytest.mark.parametrize("packed", [False, True], ids=["fields", "raw"])
@pytest.mark.parametrize("kind", KINDS)
def test_weights(kind: str, packed: bool) -> None:
    tensor = weight(kind)
    wanted = numpy_helper.to_array(tensor).astype(np.float32)
    if packed:
        tensor.raw_data = bytes(v & 255 for v in tensor.int32_data) or tensor.raw_data
        tensor.ClearField("int32_data")
    result = load(dequantized(tensor)).evaluate([np.zeros((3, 5), np.float32)])[0]
    np.testing.assert_array_equal(result, wanted * np.array([[0.5], [2], [4]], np.float32))


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_tensors_are_stored_as_the_onnx_package_stores_them(dtype: DType) -> None:
    array = (np.arange(7) % 3 - (2 if dtype.kind != "uint" else 0)).astype(dtype.numpy)
    proto = numpy_helper.from_array(array)
    assert stored(array) == proto.raw_data
    assert to_array(proto, "t", None).tobytes() == array.tobytes()


def test_too_few_bytes_are_an_error() -> None:
    tensor = weight("UINT4")
    tensor.ClearField("int32_data")
    tensor.raw_data = b"abc"
    message = r"initializer 'w': u4\[3,5\] takes 8 bytes, got 3"
    with pytest.raises(UserError, match=message):
        load(dequantized(tensor))


def cast_model(dtype: DType, **attrs: int | str) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (6,))
    y = helper.make_tensor_value_info("y", ELEMENT_TYPES[dtype], (6,))
    cast = node("Cast", "x", "y", to=ELEMENT_TYPES[dtype], **attrs)
    graph = helper.make_graph([cast], "casts", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])


@pytest.mark.parametrize(
    ("name", "attrs", "expected"),
    [
        ("f8e4m3fn", {}, [448, -448, 448, np.nan, 2.5, -9]),
        ("f8e4m3fn", {"saturate": 0}, [np.nan, np.nan, np.nan, np.nan, 2.5, -9]),
        ("f8e5m2", {"saturate": 0}, [np.inf, -np.inf, 448, np.nan, 2.5, -8]),
        ("f8e5m2", {}, [57344, -57344, 448, np.nan, 2.5, -8]),
        ("f4e2m1fn", {}, [6, -6, 6, 0, 2, -6]),
        ("s4", {}, [-1, 0, -1, 0, 2, 7]),
        ("u2", {}, [3, 0, 3, 0, 2, 3]),
    ],
)
def test_values_out_of_range(name: str, attrs: dict[str, int], expected: list[float]) -> None:
    x = np.array([np.inf, -np.inf, 479, np.nan, 2.5, -9], np.float32)
    y = graphc.compile(cast_model(by_name(name), **attrs))(x)
    assert y.dtype == by_name(name).numpy
    np.testing.assert_array_equal(y.astype(np.float32), np.array(expected, np.float32))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("up", [4, 2, 1, 2.0**127]), ("down", [2, 1, 1, 2.0**127]), ("nearest", [2, 2, 1, 2.0**127])],
)
def test_an_exponent_alone_is_rounded_as_requested(mode: str, expected: list[float]) -> None:
    model = cast_model(by_name("f8e8m0fnu"), round_mode=mode)
    x = np.array([2.5, 1.5, 1, np.inf, np.nan, 0], np.float32)
    y = load(model).evaluate([x])[0].astype(np.float32)
    np.testing.assert_array_equal(y, np.array([*expected, np.nan, 2.0**-127], np.float32))


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_written_casts_and_constants_read_back(dtype: DType) -> None:
    """The written model states that numbers are not saturated, and uses an opset that has the type."""
    graph = graphc.Graph("casts")
    value = np.arange(3).astype(dtype.numpy)
    wide = graph.make("cast", [graph.make_constant(value, "c")], {"dtype": "f32"}).outputs[0]
    x = graph.make_input(wide.details, "x")
    total = graph.make("add", [x, wide]).outputs[0]
    graph.make_output(graph.make("cast", [total], {"dtype": dtype.name}).outputs[0])
    model = to_onnx(graph)
    onnx.checker.check_model(model, full_check=True)
    x_value = np.array([1e9, -3, 0.3], np.float32)
    wanted, got = graph.evaluate([x_value])[0], load(model).evaluate([x_value])[0]
    assert got.tobytes() == wanted.tobytes()
