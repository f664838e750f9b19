"""QuantizeLinear and DequantizeLinear: the types they compute in, against the specification in NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper, parser
from onnx import TensorProto as T

import graphc
from graphc.frontend import load

TYPES: dict[int, Any] = {T.FLOAT: np.float32, T.FLOAT16: np.float16, T.BFLOAT16: ml_dtypes.bfloat16}
X = np.linspace(-3, 3, 2 * 3 * 120, dtype=np.float32).reshape(2, 3, 120)


def model(kind: str, x: Any, opset: int, attrs: dict[str, Any], *constants: Any) -> ModelProto:
    names = [f"c{i}" for i in range(len(constants))]
    node = helper.make_node(kind, ["x", *names], ["y"], **attrs)
    code = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", code, x.shape)],
        [helper.make_tensor_value_info("y", T.UNDEFINED, None)],
        [numpy_helper.from_array(array, name) for name, array in zip(names, constants, strict=True)],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=11)


def results(proto: ModelProto, x: Any) -> list[Any]:
    """Return the results of the references and of native code."""
    return [load(proto).evaluate([x])[0], graphc.compile(proto)(x)]


def quotient(x: Any, scale: Any, dtype: Any) -> Any:
    return (x.astype(dtype) / scale.astype(dtype)).astype(dtype).astype(np.float32)


CASES = [
    (x, scale, precision, opset)
    for opset, precisions in ((21, [0]), (23, [0, *TYPES]), (25, [0, T.FLOAT16]))
    for x in TYPES
    for scale in TYPES
    for precision in precisions
    if opset > 21 or x == scale
]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("x_type", "scale_type", "precision", "opset"), CASES)
def test_the_type_of_the_division(x_type: int, scale_type: int, precision: int, opset: int) -> None:
    """From opset 23 that of the scale or `precision`; before, f32, as ONNX Runtime divides f16."""
    x, scale = X.astype(TYPES[x_type]), np.array(0.0217, TYPES[scale_type])
    attrs = {"precision": precision} if precision else {}
    dtype = TYPES[precision or scale_type] if opset >= 23 else np.float32
    want = np.clip(np.rint(quotient(x, scale, dtype)) + 3, -128, 127)
    for got in results(model("QuantizeLinear", x, opset, attrs, scale, np.array(3, np.int8)), x):
        np.testing.assert_array_equal(got, want)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("dtype", "shape", "attrs"),
    [
        (np.uint8, (3,), {"axis": 1}),
        (np.int16, (2, 3, 15), {"axis": 2, "block_size": 8}),
        (ml_dtypes.int4, (), {}),
        (ml_dtypes.float8_e4m3fn, (3,), {"axis": -2}),
    ],
)
@pytest.mark.parametrize("precision", [T.FLOAT16, T.BFLOAT16])
def test_scales_of_axes_and_blocks(
    dtype: Any, shape: tuple[int, ...], attrs: dict[str, Any], precision: int
) -> None:
    scale = np.random.default_rng(0).uniform(0.01, 0.1, shape).astype(TYPES[precision])
    zero = np.zeros(shape, dtype)
    spread = scale.reshape(3, 1) if len(shape) == 1 else scale
    if len(shape) == 3:
        spread = np.repeat(scale, 8, 2)
    want: Any = quotient(X, spread, TYPES[precision])
    if np.dtype(dtype).kind in "iu" or dtype == ml_dtypes.int4:
        info = ml_dtypes.iinfo(dtype)
        want = np.clip(np.rint(want), info.min, info.max)
    want = want.astype(dtype).astype(np.float32)
    for got in results(model("QuantizeLinear", X, 23, attrs, scale, zero), X):
        np.testing.assert_array_equal(got.astype(np.float32), want)


@pytest.mark.exhaustive
@pytest.mark.parametrize("scale_type", TYPES)
@pytest.mark.parametrize("result", [0, *TYPES])
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32])
def test_dequantized_numbers_are_rounded_once(scale_type: int, result: int, dtype: Any) -> None:
    """To `output_dtype`, not to the type of the scale before: 16 bits have no room for 16-bit integers."""
    info = np.iinfo(dtype)
    x = np.linspace(max(info.min, -70000), min(info.max, 70000), 333).astype(dtype)
    scale = np.array(0.0217, TYPES[scale_type])
    attrs = {"output_dtype": result} if result else {}
    want = (x.astype(np.float32) * scale.astype(np.float32)).astype(TYPES[result or scale_type])
    for got in results(model("DequantizeLinear", x, 23, attrs, scale), x):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


def test_the_node_of_onnx_runtime_divides_in_f32() -> None:
    x, scale = X.astype(np.float16), np.array(0.0217, np.float16)
    proto = model("QuantizeLinear", x, 23, {}, scale, np.array(3, np.int8))
    proto.graph.node[0].domain = "com.microsoft"
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    want = np.clip(np.rint(quotient(x, scale, np.float32)) + 3, -128, 127)
    for got in results(proto, x):
        np.testing.assert_array_equal(got, want)


def test_fp8_of_tensorrt_is_f8e4m3fn_without_a_zero_point() -> None:
    """nvidia-modelopt exports FP8 models with these ops; values beyond 448 steps saturate."""
    text = """<ir_version: 9, opset_import: ["": 20, "trt": 1]> g (float[N,3] x) => (y) {
        s = Constant <value_float = 0.25> ()
        q = trt.TRT_FP8QuantizeLinear(x, s)
        y = trt.TRT_FP8DequantizeLinear(q, s) }"""
    x = np.array([[0.0, 0.26, -1000.0], [3.3, -0.01, 1e9]], np.float32)
    found = graphc.compile(parser.parse_model(text), threads=1)(x)
    wanted = np.clip(x * 4, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) / 4
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_weights_of_tensorrt_that_are_still_floats_are_rounded_to_4_bits(dtype: Any) -> None:
    """nvidia-modelopt writes weights of INT4 so, a scale for each row; its exporter rounds them like this."""
    w = np.random.default_rng(0).standard_normal((4, 9)).astype(dtype)
    scale = (np.abs(w).max(1, keepdims=True) / 9).astype(dtype)  # some are outside of 4 bits
    proto = model("DequantizeLinear", w, 20, {"axis": 0, "block_size": 9}, scale)
    proto.graph.node[0].domain = "trt"
    proto.opset_import.append(helper.make_opsetid("trt", 1))
    wide = scale.astype(np.float32)
    wanted = (np.clip(np.rint(w.astype(np.float32) / wide), -8, 7) * wide).astype(dtype)
    for found in results(proto, w):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, wanted)
