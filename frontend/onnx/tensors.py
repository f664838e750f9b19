"""Converts between TensorProto and NumPy arrays; the data is raw, in typed fields or in an external file.

Elements of 2 and 4 bits share bytes there, the first in the lowest bits; an array has a byte for each.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto

from ...base.dtypes import BF16, BOOL, F16, DType, from_numpy
from ...base.errors import UnsupportedError, UserError
from ...graph_ir.ir.graph import Array
from ..correspondence.element_types import element_types
from ..refusals import OTHER_TYPE
from ..shape_spec import check_size
from .external_data import external_data

DTYPES: dict[int, DType] = {int(n): dtype for n, dtype in element_types("onnx").items()}

_TYPED_FIELDS: dict[int, str] = {
    TensorProto.FLOAT: "float_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.INT64: "int64_data",
    TensorProto.UINT32: "uint64_data",
    TensorProto.UINT64: "uint64_data",
}  # every other type is in int32_data


def to_dtype(who: str, data_type: int) -> DType:
    """The dtype of an element type number. Raise UnsupportedError if graphc lacks it, UserError if it is not a type."""
    if data_type in DTYPES:
        return DTYPES[data_type]
    names = {number: name for name, number in TensorProto.DataType.items()}
    if data_type == TensorProto.UNDEFINED or data_type not in names:
        raise UserError(f"{who}: the element type must be given, got number {data_type}")
    raise UnsupportedError(f"{who}: element type {names[data_type]} is not supported", OTHER_TYPE)


def to_array(
    proto: TensorProto, who: str, folder: Path | None, data: memoryview | None = None
) -> Array:
    """The tensor as an array, from `data` if that is stored separately.

    `folder` is where the model file lies, None when it came as bytes. Raise UserError if the data does not fit the
    shape.
    """
    dtype = to_dtype(who, proto.data_type)
    dims = tuple(proto.dims)
    check_size(who, dtype, dims)
    if proto.HasField("segment"):
        raise UnsupportedError(
            f"{who}: tensors stored in segments are not supported", "save the model again"
        )
    if proto.data_location == TensorProto.EXTERNAL:
        data = external_data(proto, who, folder, _stored_bytes(dtype, dims))
    elif data is None and proto.HasField("raw_data"):
        data = memoryview(proto.raw_data)
    if data is not None:
        return _from_raw(data, dtype, dims, who)
    return _from_fields(proto, dtype, dims, who)


def stored(array: Array) -> bytes:
    """The elements as a file has them."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    bits = from_numpy(array.dtype).bits
    if array.dtype.itemsize * 8 == bits or bits == 1:
        return little.tobytes()
    numbers = np.frombuffer(little.tobytes(), np.uint8) & np.uint8((1 << bits) - 1)
    each = np.zeros((-(-numbers.size * bits // 8), 8 // bits), np.uint8)
    each.reshape(-1)[: numbers.size] = numbers
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return np.bitwise_or.reduce(each << shifts, axis=1).astype(np.uint8).tobytes()


def _stored_bytes(dtype: DType, dims: tuple[int, ...]) -> int:
    return -(-math.prod(dims) * (8 if dtype is BOOL else dtype.bits) // 8)


def _unpacked(data: memoryview, dtype: DType, dims: tuple[int, ...]) -> Array:
    shifts = np.arange(0, 8, dtype.bits, dtype=np.uint8)
    parts = np.frombuffer(data, np.uint8)[:, None] >> shifts & np.uint8((1 << dtype.bits) - 1)
    return parts.reshape(-1)[: math.prod(dims)].view(dtype.numpy).reshape(dims)


def _from_raw(data: memoryview, dtype: DType, dims: tuple[int, ...], who: str) -> Array:
    needed = _stored_bytes(dtype, dims)
    if len(data) != needed:
        shape = ",".join(map(str, dims))
        raise UserError(f"{who}: {dtype}[{shape}] takes {needed} bytes, got {len(data)}")
    if dtype is BOOL:  # any non-zero byte is true, but a NumPy bool must be 0 or 1
        return np.frombuffer(data, np.uint8).reshape(dims).astype(bool)  # `!=` has no 0-d arrays
    if dtype.bits < 8:
        return _unpacked(data, dtype, dims)
    return np.frombuffer(data, dtype.numpy).reshape(dims)


def _from_fields(proto: TensorProto, dtype: DType, dims: tuple[int, ...], who: str) -> Array:
    field = getattr(proto, _TYPED_FIELDS.get(proto.data_type, "int32_data"))
    if dtype.bits <= 8 and dtype.is_storage:  # a byte of the file in each
        return _from_raw(memoryview(bytes(x & 255 for x in field)), dtype, dims, who)
    count = math.prod(dims)
    if len(field) != count:
        shape = ",".join(map(str, dims))
        raise UserError(f"{who}: {dtype}[{shape}] takes {count} elements, got {len(field)}")
    if dtype in (F16, BF16):  # the bits, in an int32 each
        bits = _checked_integers(field, np.dtype(np.uint16), who)
        return bits.view(dtype.numpy).reshape(dims)
    if dtype.is_float:
        return np.array(field, dtype.numpy).reshape(dims)
    if dtype is BOOL:
        return np.array(field, np.int32).reshape(dims).astype(bool)
    return _checked_integers(field, dtype.numpy, who).reshape(dims)


def _checked_integers(field: Any, dtype: np.dtype[Any], who: str) -> Array:
    wide = np.array(field, np.uint64 if dtype.name == "uint64" else np.int64)
    limits = np.iinfo(dtype)
    if wide.size and (wide.min() < limits.min or wide.max() > limits.max):
        raise UserError(
            f"{who}: every element must fit {dtype.name}, got {wide.min()}..{wide.max()}"
        )
    return wide.astype(dtype)
