"""Weights of less than 8 bits, and 8-bit floats: read as wider numbers, for nodes that convert them to floats."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

from ...base.dtypes import F32
from ...base.errors import UserError
from ...graph_ir.ir.graph import Array
from ..shape_spec import check_size
from .external_data import external_data

_INTEGERS: dict[int, tuple[int, bool]] = {  # bits, signed
    TensorProto.INT4: (4, True),
    TensorProto.UINT4: (4, False),
    TensorProto.INT2: (2, True),
    TensorProto.UINT2: (2, False),
}

_FLOATS: dict[int, int] = {  # bits
    TensorProto.FLOAT4E2M1: 4,
    TensorProto.FLOAT8E4M3FN: 8,
    TensorProto.FLOAT8E4M3FNUZ: 8,
    TensorProto.FLOAT8E5M2: 8,
    TensorProto.FLOAT8E5M2FNUZ: 8,
}


def is_narrow(proto: TensorProto) -> bool:
    """Whether the tensor has a type that graphc lacks but that fits into a wider one."""
    return proto.data_type in _INTEGERS or proto.data_type in _FLOATS


def to_wide_array(proto: TensorProto, who: str, folder: Path | None) -> Array:
    """Integers as s8 or u8, floats as f32. UserError where the data does not fit the shape."""
    is_integer = proto.data_type in _INTEGERS
    bits = _INTEGERS[proto.data_type][0] if is_integer else _FLOATS[proto.data_type]
    dims = tuple(proto.dims)
    check_size(who, F32, dims)
    count = math.prod(dims)
    packed = _bytes(proto, who, folder, -(-count * bits // 8))
    shifts = np.arange(0, 8, bits, dtype=np.uint8)  # the first element lies in the lowest bits
    values = ((packed[:, None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(-1)[:count]
    if is_integer:
        signed = _INTEGERS[proto.data_type][1]
        wrap = np.where(values >> (bits - 1), 1 << bits, 0) if signed else 0
        wide = (values.astype(np.int16) - wrap).astype(np.int8 if signed else np.uint8)
    else:
        wide = values.view(helper.tensor_dtype_to_np_dtype(proto.data_type)).astype(np.float32)
    return wide.reshape(dims)


def _bytes(proto: TensorProto, who: str, folder: Path | None, needed: int) -> Array:
    if proto.data_location == TensorProto.EXTERNAL:
        data = external_data(proto, who, folder, needed)
    elif proto.HasField("raw_data"):
        data = memoryview(proto.raw_data)
    else:  # a byte in each
        data = memoryview(np.array(proto.int32_data, np.int64).astype(np.uint8).tobytes())
    if len(data) != needed:
        raise UserError(f"{who}: {list(proto.dims)} takes {needed} bytes, got {len(data)}")
    return np.frombuffer(data, np.uint8)
