"""Converts a TensorProto to a NumPy array; its data is raw, in typed fields or in an external file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto

from ...base.dtypes import BF16, BOOL, F16, DType
from ...base.errors import UnsupportedError, UserError
from ...graph_ir.ir.graph import Array
from ..correspondence.element_types import element_types
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
    """The dtype of an element type number. UnsupportedError if graphc lacks it, UserError if it is not a type."""
    if data_type in DTYPES:
        return DTYPES[data_type]
    names = {number: name for name, number in TensorProto.DataType.items()}
    if data_type == TensorProto.UNDEFINED or data_type not in names:
        raise UserError(f"{who}: the element type must be given, got number {data_type}")
    raise UnsupportedError(f"{who}: element type {names[data_type]} is not supported")


def to_array(
    proto: TensorProto, who: str, folder: Path | None, data: memoryview | None = None
) -> Array:
    """The tensor as an array, from `data` if that is stored separately.

    `folder` is where the model file lies, None when it came as bytes. UserError where the data does not fit the shape.
    """
    dtype = to_dtype(who, proto.data_type)
    dims = tuple(proto.dims)
    check_size(who, dtype, dims)
    if proto.HasField("segment"):
        raise UnsupportedError(f"{who}: tensors stored in segments are not supported")
    if proto.data_location == TensorProto.EXTERNAL:
        data = external_data(proto, who, folder, math.prod(dims) * dtype.size)
    elif data is None and proto.HasField("raw_data"):
        data = memoryview(proto.raw_data)
    if data is not None:
        return _from_raw(data, dtype, dims, who)
    return _from_fields(proto, dtype, dims, who)


def _from_raw(data: memoryview, dtype: DType, dims: tuple[int, ...], who: str) -> Array:
    needed = math.prod(dims) * dtype.size
    if len(data) != needed:
        shape = ",".join(map(str, dims))
        raise UserError(f"{who}: {dtype}[{shape}] takes {needed} bytes, got {len(data)}")
    if dtype is BOOL:  # any non-zero byte is true, but a NumPy bool must be 0 or 1
        return np.frombuffer(data, np.uint8).reshape(dims).astype(bool)  # `!=` has no 0-d arrays
    return np.frombuffer(data, dtype.numpy).reshape(dims)


def _from_fields(proto: TensorProto, dtype: DType, dims: tuple[int, ...], who: str) -> Array:
    field = getattr(proto, _TYPED_FIELDS.get(proto.data_type, "int32_data"))
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
