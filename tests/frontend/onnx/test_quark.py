"""Quark's quantizers of blocks against the loops of its CPU kernels (amd-quark 0.13), written in NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import graphc
from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend import load
from graphc.frontend.onnx.quark import ELEMENTS

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
X = (RNG.standard_normal((3, 5, 48)) * np.exp(4 * RNG.standard_normal((3, 5, 48)))).astype(
    np.float32
)
X[0, 0, :16] = 0
X[0, 1, :8] = np.array([64, 63.5, -63.5, 2.5, -2.5, 0.5, -0.5, 1.5]) / 64  # ties
X[0, 2, 3], X[0, 3, 5] = np.inf, np.nan
X[1, 0, :32] *= np.float32(1e-38)
X[1, 1, :8] = [1.9, -1.9, 1, 0, 1e-44, 3e38, 1, 2]
X[2, 2] = np.round(X[2, 2])


def model(kind: str, dims: tuple[int, ...], **attrs: Any) -> ModelProto:
    node = helper.make_node(kind, ["x"], ["y"], domain="com.amd.quark", **attrs)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name in "xy")
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.amd.quark", 1)]
    return helper.make_model(
        helper.make_graph([node], "g", [x], [y]), opset_imports=opsets, ir_version=10
    )


def exponents(x: Array) -> Array:
    return ((x.view(np.int32) & 0x7F800000) >> 23).astype(np.int64)


def up(x: Array) -> Array:
    return np.floor(x) + (x - np.floor(x) >= 0.5)


ROUNDINGS: list[Any] = [lambda x: np.sign(x) * up(np.abs(x)), up, np.round]


def bfp(x: Array, bits: int, mode: int) -> Array:
    """Blocks along the last axis."""
    own = exponents(x)
    shared = np.where(own == 255, 0, own).max(-1, keepdims=True)
    scale = np.exp2(shared - 127.0 - (bits - 1))
    y = np.clip(ROUNDINGS[mode](x / scale), 1 - 2.0**bits, 2.0**bits - 1) * scale
    return np.where(own == 255, x, y).astype(np.float32)


def prime(x: Array, bits: int, mode: int) -> Array:
    """With parts of two elements and shifts of up to three."""
    own = exponents(x)
    shared = own.max(-1, keepdims=True)
    parts = own.reshape(*own.shape[:-1], -1, 2).max(-1)
    shift = np.repeat(np.minimum(shared - parts, 3), 2, -1)
    scale = np.exp2(shared - 127.0 - shift - (bits - 1))
    y = np.clip(ROUNDINGS[mode](np.where(own == 0, 0, x) / scale), 1 - 2.0**bits, 2.0**bits - 1)
    return np.where(shared == 255, np.nan, y * scale).astype(np.float32)


def mx(x: Array, kind: str, mode: int) -> Array:
    exponent, mantissa, largest, most = ELEMENTS[kind]
    own = exponents(x)
    shared = np.where(own == 255, 0, own).max(-1, keepdims=True)
    scale = np.exp2(shared - 127.0 - largest)
    y = x / scale
    if exponent:
        power = np.floor(np.log2(np.maximum(np.abs(y), 1e-300)))
        unit = np.exp2(np.maximum(power, 2.0 - 2 ** (exponent - 1)) - mantissa)
        y = np.clip(np.round(y / unit) * unit, -most, most)
    else:
        y = np.clip(ROUNDINGS[mode](y * 64), -128, 127) / 64
    return np.where(own == 255, x, y * scale).astype(np.float32)


def blocked(x: Array, block: int, axis: int, formula: Any) -> Array:
    """A formula of blocks along an axis, the last of which is filled with zeros."""
    rows = np.moveaxis(x, axis, -1)
    size = rows.shape[-1]
    rows = np.pad(rows, [(0, 0)] * (x.ndim - 1) + [(0, -size % block)])
    with np.errstate(all="ignore"):
        y = formula(np.ascontiguousarray(rows.reshape(*rows.shape[:-1], -1, block)))
    return np.moveaxis(y.reshape(rows.shape)[..., :size], -1, axis)


def check(kind: str, x: Array, want: Array, **attrs: Any) -> None:
    proto = model(kind, x.shape, **attrs)
    for result in (load(proto).evaluate([x])[0], graphc.compile(proto)(x)):
        np.testing.assert_array_equal(result, want)


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize(
    ("width", "block", "axis"), [(16, 8, 2), (13, 16, -1), (12, 5, 1), (16, 7, 2), (16, 2, 0)]
)
def test_blocks_with_one_exponent(mode: int, width: int, block: int, axis: int) -> None:
    attrs = {"bit_width": width, "block_size": block, "axis": axis, "rounding_mode": mode}
    want = blocked(X, block, axis, lambda x: bfp(x, width - 9, mode))
    check("BFPQuantizeDequantize", X, want, **attrs)


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("width", [13, 16])
def test_parts_with_exponents_of_their_own(mode: int, width: int) -> None:
    attrs = {
        "bfp_method": "to_bfp_prime",
        "sub_block_size": 2,
        "sub_block_shift_bits": 2,
        "block_size": 8,
    }
    want = blocked(X, 8, 2, lambda x: prime(x, width - 9, mode))
    check("BFPQuantizeDequantize", X, want, bit_width=width, axis=2, rounding_mode=mode, **attrs)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ELEMENTS)
@pytest.mark.parametrize(("block", "axis"), [(32, 2), (16, 2), (3, 1)])
def test_microscaling(kind: str, block: int, axis: int) -> None:
    for mode in (0, 2) if kind == "int8" else (0,):
        want = blocked(X, block, axis, lambda x, mode=mode: mx(x, kind, mode))
        attrs = {"element_dtype": kind, "block_size": block, "axis": axis, "rounding_mode": mode}
        check("MXQuantizeDequantize", X, want, **attrs)


def test_vectors_single_numbers_and_bf16_first() -> None:
    vector = X[2, 0]
    check("BFPQuantizeDequantize", vector, blocked(vector, 8, 0, lambda x: bfp(x, 7, 0)))
    check("MXQuantizeDequantize", X[:1, :1, 9:10], X[:1, :1, 9:10])
    proto = model("BFPQuantizeDequantize", vector.shape, convert_to_bfloat_before_bfp=1)
    half = (vector.view(np.uint32) + 0x7FFF + ((vector.view(np.uint32) >> 16) & 1)) & 0xFFFF0000
    want = blocked(half.astype(np.uint32).view(np.float32), 8, 0, lambda x: bfp(x, 7, 0))
    np.testing.assert_array_equal(graphc.compile(proto)(vector), want)


INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32]
HALVES = [np.float16, ml_dtypes.bfloat16]


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", INTEGERS + HALVES)
@pytest.mark.parametrize("per_channel", [False, True])
def test_quantized_numbers_of_more_types(dtype: Any, per_channel: bool) -> None:
    """There and back, of integers of 32 bits and of 16-bit floats too, whose zero points count."""
    x = np.clip(np.nan_to_num(X[:, :3]), -2e4, 2e4)
    shape = (3,) if per_channel else ()
    scale, zero = np.full(shape, 0.37, np.float32), np.full(shape, 3).astype(dtype)
    nodes = [
        helper.make_node("ExtendedQuantizeLinear", ["x", "s", "z"], ["q"], domain="com.amd.quark"),
        helper.make_node(
            "ExtendedDequantizeLinear", ["q", "s", "z"], ["y"], domain="com.amd.quark"
        ),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in "qy"],
        [numpy_helper.from_array(scale, "s"), numpy_helper.from_array(zero, "z")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.amd.quark", 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    quotient = x / np.float32(0.37)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        q = np.clip(np.rint(quotient).astype(np.int64) + 3, info.min, info.max).astype(dtype)
        y = (q.astype(np.int64) - 3).astype(np.float32) * np.float32(0.37)
    else:
        q = (quotient + np.float32(3)).astype(dtype)
        y = (q.astype(np.float32) - np.float32(3)) * np.float32(0.37)
    for results in (load(proto).evaluate([x]), graphc.compile(proto).run(None, {"x": x})):
        assert results[0].dtype == dtype
        np.testing.assert_array_equal(results[0].astype(np.float64), q.astype(np.float64))
        np.testing.assert_allclose(results[1], y, rtol=1e-6)


REFUSED: dict[str, tuple[str, dict[str, Any], type[Exception], str]] = {
    "a kernel": (
        "BFPQuantizeDequantize", {"use_compiler_version_cpu_kernel": 1}, UnsupportedError, "compiler_version",
    ),
    "a method": ("BFPQuantizeDequantize", {"bfp_method": "some"}, UserError, "bfp_method must be to_bfp or"),
    "a mode": ("BFPQuantizeDequantize", {"rounding_mode": 3}, UserError, "rounding_mode must be 0, 1 or 2"),
    "a width": ("BFPQuantizeDequantize", {"bit_width": 9}, UserError, r"bit_width must be in \[10, 32\]"),
    "a block": ("MXQuantizeDequantize", {"block_size": 0}, UserError, "block_size must be positive"),
    "elements": ("MXQuantizeDequantize", {"element_dtype": "fp3"}, UserError, "element_dtype must be one of"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    kind, attrs, error, text = REFUSED[what]
    with pytest.raises(error, match=text):
        load(model(kind, X.shape, **attrs))
