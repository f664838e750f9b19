"""Arrays of other libraries as NumPy arrays on the same memory, by DLPack 0 and 1, with types that NumPy lacks."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

_CPU = 1
_READ_ONLY = 1
_NAMES = (b"dltensor_versioned", b"dltensor")
_KINDS = {0: "i", 1: "u", 2: "f"}
_OTHER_TYPES = {
    4: "bfloat16", 7: "float8_e3m4", 8: "float8_e4m3", 9: "float8_e4m3b11fnuz", 10: "float8_e4m3fn",
    11: "float8_e4m3fnuz", 12: "float8_e5m2", 13: "float8_e5m2fnuz", 14: "float8_e8m0fnu",
}  # fmt: skip
"""Names in ml_dtypes by the code of the type."""
_BOOL = 6


class _Tensor(ctypes.Structure):
    """`DLTensor` of dlpack.h."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class _Versioned(ctypes.Structure):
    """`DLManagedTensorVersioned`."""

    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    )  # fmt: skip


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


def shared_array(value: Any) -> np.ndarray | None:
    """Return a NumPy array on the memory of `value`; None where it has no DLPack, or is not in memory of the CPU."""
    exporter, device = getattr(value, "__dlpack__", None), getattr(value, "__dlpack_device__", None)
    if exporter is None or device is None:
        return None
    try:
        if int(device()[0]) != _CPU:
            return None
        capsule = _exported(exporter)
    except (BufferError, RuntimeError, TypeError, ValueError):  # a tensor with gradients, for one
        return None
    name = next((name for name in _NAMES if _is_valid(capsule, name)), None)
    if name is None:
        return None
    address = _pointer_of(capsule, name)
    if name == _NAMES[0]:
        managed = _Versioned.from_address(address)
        is_writeable = not managed.flags & _READ_ONLY
        return _array(managed.tensor, capsule, is_writeable) if managed.major == 1 else None
    # Version 0 does not say whether it may be written: JAX's arrays, which never change, are of it.
    return _array(_Tensor.from_address(address), capsule, False)


def _exported(exporter: Any) -> Any:
    try:
        return exporter(max_version=(1, 0))
    except TypeError:  # version 0
        return exporter()


def _array(tensor: _Tensor, capsule: Any, is_writeable: bool) -> np.ndarray | None:
    dtype = _dtype(tensor)
    if dtype is None:
        return None
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = None
    if tensor.strides:
        strides = tuple(stride * dtype.itemsize for stride in tensor.strides[: tensor.ndim])
    if 0 in shape or not tensor.data:
        return np.empty(shape, dtype)
    if strides and min(strides, default=0) < 0:
        return None
    steps = zip(strides or (), shape, strict=True) if strides else ()
    last = sum(step * (size - 1) for step, size in steps)
    size = last + dtype.itemsize if strides else int(np.prod(shape)) * dtype.itemsize
    memory: Any = (ctypes.c_uint8 * size).from_address(tensor.data + tensor.byte_offset)
    memory.capsule = capsule  # which keeps the memory alive
    array = np.ndarray(shape, dtype, memory, 0, strides)
    array.flags.writeable = is_writeable
    return array


def _dtype(tensor: _Tensor) -> np.dtype | None:
    """The type of elements; None for those of several lanes, and for types that graphc does not have."""
    if tensor.lanes != 1 or tensor.bits % 8:
        return None
    if tensor.code in _OTHER_TYPES:
        found = getattr(ml_dtypes, _OTHER_TYPES[tensor.code], None)
        return None if found is None else np.dtype(found)
    if tensor.code == _BOOL:
        return np.dtype(bool)
    kind = _KINDS.get(tensor.code)
    return np.dtype(f"{kind}{tensor.bits // 8}") if kind and tensor.bits <= 64 else None
