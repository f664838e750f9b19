"""quantize and dequantize: the formula at its edges, ONNX Runtime's results bit for bit, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import by_name, from_numpy
from graphc.base.errors import UserError
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.check_op import check_op
from support.compiled import check_native

SCALE = np.array(0.05, np.float32)
EDGES = np.array(
    [0, -0.0, 0.125, 0.375, 0.625, -0.125, -0.375, 31.75, 32, 1e9, -1e9, np.inf, -np.inf, np.nan],
    np.float32,
)


@pytest.mark.parametrize(
    ("dtype", "zero", "wanted"),
    [
        ("u8", 2, [2, 2, 2, 4, 4, 2, 0, 129, 130, 255, 0, 255, 0, 0]),
        ("s8", -1, [-1, -1, -1, 1, 1, -1, -3, 126, 127, 127, -128, 127, -128, 0]),
        ("u16", 0, [0, 0, 0, 2, 2, 0, 0, 127, 128, 65535, 0, 65535, 0, 0]),
        ("s16", 5, [5, 5, 5, 7, 7, 5, 3, 132, 133, 32767, -32768, 32767, -32768, 0]),
    ],
)
def test_halves_round_to_even_and_the_rest_saturates(
    dtype: str, zero: int, wanted: list[int]
) -> None:
    arrays = [
        EDGES,
        np.float32(0.25),
        np.array(zero, by_name(dtype).numpy),
    ]
    expected: Array = np.array(wanted, by_name(dtype).numpy)
    np.testing.assert_array_equal(check_op("quantize", arrays, {"dtype": dtype}), expected)
    np.testing.assert_array_equal(check_native("quantize", arrays, {"dtype": dtype}), expected)


def test_fewer_bits_saturate_earlier() -> None:
    x = np.array([-100, -8, 7, 100], np.float32)
    result = check_op("quantize", [x, np.ones((), np.float32)], {"dtype": "s8", "bits": 4})
    assert result.tolist() == [-8, -8, 7, 7]
    result = check_op(
        "quantize", [x, np.ones((), np.float32), np.array(3, np.uint8)], {"dtype": "u8", "bits": 4}
    )
    assert result.tolist() == [0, 0, 10, 15]


@pytest.mark.parametrize("float_type", [np.float32, np.float16])
def test_one_scale_per_slice(float_type: Any) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(float_type)
    scale = np.array([[0.5], [0.25], [2], [0.125]], float_type)
    zero = np.array([[1], [2], [3], [4]], np.uint8)
    wanted = np.clip(np.rint(x.astype(np.float32) / scale.astype(np.float32)) + zero, 0, 255)
    result = check_op("quantize", [x, scale, zero], {"dtype": "u8"}, wanted)
    back = (result.astype(np.float32) - zero) * scale
    assert check_op("dequantize", [result, scale, zero], {}, back).dtype == float_type


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_there_and_back_is_the_identity(dtype: Any) -> None:
    limits = np.iinfo(dtype)
    q = np.arange(limits.min, limits.max + 1, max((limits.max - limits.min) // 255, 1)).astype(
        dtype
    )
    x = check_native("dequantize", [q, SCALE, np.array(7, dtype)], {})
    attrs = {"dtype": from_numpy(q.dtype).name}
    np.testing.assert_array_equal(
        check_native("quantize", [x, SCALE, np.array(7, dtype)], attrs), q
    )


def test_s32_is_scaled_alone() -> None:
    x = np.array([-(2**31), -1, 0, 2**31 - 1, 2**24 + 1], np.int32)
    check_op("dequantize", [x, SCALE], {}, x.astype(np.float32) * SCALE)


BYTES, FLOATS = np.zeros((2, 3), np.uint8), np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("op_name", "arrays", "attrs", "message"),
    [
        ("quantize", [FLOATS, SCALE], {"dtype": "s32"}, "dtype must be an integer of 8 or 16 bits, got s32"),
        ("quantize", [BYTES, SCALE], {"dtype": "u8"}, "x must be a float, got u8; insert a cast"),
        ("quantize", [FLOATS, SCALE, np.zeros((), np.int8)], {"dtype": "u8"},
         "zero_point must be u8, got s8; insert a cast"),
        ("quantize", [FLOATS, FLOATS[0, :2]], {"dtype": "u8"},
         "scale must broadcast to x, got f32[2] for f32[2,3]; reshape it"),
        ("dequantize", [FLOATS, SCALE], {}, "x must be an integer of at most 32 bits, got f32"),
        ("dequantize", [BYTES, np.ones((), np.int8)], {}, "scale must be a float, got s8; insert a cast"),
        ("dequantize", [BYTES, SCALE, BYTES[:, :2]], {},
         "zero_point must broadcast to x, got u8[2,2] for u8[2,3]; reshape it"),
    ],
)  # fmt: skip
def test_refused(op_name: str, arrays: list[Array], attrs: dict[str, Any], message: str) -> None:
    graph = Graph()
    tensors = [
        graph.make_input(LogicalTensor(from_numpy(np.asarray(a).dtype), np.shape(a)))
        for a in arrays
    ]
    with pytest.raises(UserError) as error:
        graph.make(op_name, tensors, attrs, "q")
    assert str(error.value) == f"{op_name} 'q': {message}"
