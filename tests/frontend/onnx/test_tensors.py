"""Weights in every form a file can hold them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from graphc.base import dtypes
from graphc.base.dtypes import SMALL
from graphc.base.errors import GraphcError, UnsupportedError, UserError
from graphc.frontend.onnx.tensors import DTYPES, stored, to_array
from support.onnx_models import evaluate, model, node

VALUES = [0, 1, 1, 0, 100, 7]


@pytest.mark.parametrize("data_type", DTYPES)
def test_raw_and_typed_fields_agree(data_type: int) -> None:
    wanted = np.array(VALUES, np.float32).astype(DTYPES[data_type].numpy).reshape(2, 3)
    typed = helper.make_tensor("t", data_type, [2, 3], VALUES)
    wanted = numpy_helper.to_array(typed) if DTYPES[data_type] in SMALL else wanted
    raw = helper.make_tensor("t", data_type, [2, 3], stored(wanted), raw=True)
    for proto in (typed, raw):
        array = to_array(proto, "t", None)
        assert array.dtype == wanted.dtype
        np.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize("data_type", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_16_bit_floats_in_int32_are_bits(data_type: int) -> None:
    proto = TensorProto(data_type=data_type, dims=[2], int32_data=[0x3C00, 0xBF80])
    wanted = np.array([0x3C00, 0xBF80], np.uint16).view(DTYPES[data_type].numpy)
    np.testing.assert_array_equal(to_array(proto, "t", None), wanted)


def test_empty_and_scalar() -> None:
    assert to_array(TensorProto(data_type=1, dims=[0, 3]), "t", None).shape == (0, 3)
    assert to_array(TensorProto(data_type=1, raw_data=b"\0\0\x80?"), "t", None) == 1
    assert to_array(TensorProto(data_type=9, dims=[2], raw_data=b"\0\2"), "t", None).tolist() == [
        False,
        True,
    ]


BAD: list[tuple[TensorProto, type[GraphcError], str]] = [
    (
        TensorProto(data_type=1, dims=[2], float_data=[1]),
        UserError,
        "t: f32[2] takes 2 elements, got 1",
    ),
    (
        TensorProto(data_type=1, dims=[2], raw_data=b"1"),
        UserError,
        "t: f32[2] takes 8 bytes, got 1",
    ),
    (
        TensorProto(data_type=1, dims=[-2]),
        UserError,
        "t: dimensions must not be negative, got f32[-2]",
    ),
    (TensorProto(dims=[2]), UserError, "t: the element type must be given, got number 0"),
    (TensorProto(data_type=999), UserError, "t: the element type must be given, got number 999"),
    (
        TensorProto(data_type=8),
        UnsupportedError,
        "t: element type STRING is not supported; convert the model to another type, such as float32",
    ),
    (
        TensorProto(data_type=14),
        UnsupportedError,
        "t: element type COMPLEX64 is not supported; convert the model to another type, such as float32",
    ),
    (
        TensorProto(data_type=2, dims=[1], int32_data=[300]),
        UserError,
        "t: every element must fit uint8, got 300..300",
    ),
    (
        TensorProto(data_type=1, segment=TensorProto.Segment(begin=0, end=1)),
        UnsupportedError,
        "t: tensors stored in segments are not supported; save the model again",
    ),
]


@pytest.mark.parametrize(("proto", "error", "message"), BAD)
def test_data_that_does_not_fit(proto: TensorProto, error: type[GraphcError], message: str) -> None:
    with pytest.raises(error) as caught:
        to_array(proto, "t", None)
    assert str(caught.value) == message


def test_every_dtype_has_an_element_type() -> None:
    assert set(DTYPES.values()) == set(dtypes.ALL)
    assert numpy_helper.to_array(helper.make_tensor("t", 1, [1], [1.0])) == 1


@pytest.mark.parametrize("raw", [True, False])
def test_a_boolean_of_no_axes_is_an_array(raw: bool) -> None:
    proto = TensorProto(data_type=TensorProto.BOOL)
    if raw:
        proto.raw_data = b"\x07"
    else:
        proto.int32_data.append(1)
    value = to_array(proto, "t", None)
    assert isinstance(value, np.ndarray) and (value.dtype, value.shape) == (np.dtype(bool), ())
    assert value


def test_padding_with_a_boolean() -> None:
    weights = {"p": np.array([1, 0]), "v": np.array(True)}
    proto = model(
        [node("Pad", "x p v")], {"x": [4]}, weights, 18, dtypes={"x": 9, "y": 9}
    )  # fmt: skip
    (result,) = evaluate(proto, {"x": np.array([False, True, False, False])})
    np.testing.assert_array_equal(result, [True, False, True, False, False])
