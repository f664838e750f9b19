"""Integer operands as bytes and zero points: what an s32 tensor is where it was widened from 8 bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...base.dtypes import S8, S32, U8, DType
from ...base.records import dataclass
from ..ir.graph import Array, GraphTensor
from ..ops.compose import Composer
from .values import constant_value


@dataclass(frozen=True)
class ByteOperand:
    """An s32 tensor that equals `bytes` - `zero`; `zero` is s32 and broadcasts to it, None for 0."""

    bytes: GraphTensor
    zero: GraphTensor | None

    def signed(self, make: Composer) -> ByteOperand:
        """The same with signed bytes."""
        return self if self.bytes.details.dtype == S8 else self._shifted(make, -128)

    def unsigned(self, make: Composer) -> ByteOperand:
        """The same with unsigned bytes."""
        return self if self.bytes.details.dtype == U8 else self._shifted(make, 128)

    def _shifted(self, make: Composer, by: int) -> ByteOperand:
        """Bytes of the other signedness, `by` larger: both conversions wrap, so that only the upper bit is flipped."""
        dtype = S8 if by < 0 else U8
        moved = make("add", make.to(self.bytes, dtype), make.scalar(by, dtype))
        offset = make.scalar(by, S32)
        if self.zero is None:
            return ByteOperand(moved, offset)
        return ByteOperand(moved, make.folded("add", self.zero, offset))


def fits_type(value: int, dtype: DType) -> bool:
    """Return whether an integer type holds a value."""
    low, high = dtype.limits
    return low <= value <= high


def byte_operand(make: Composer, x: GraphTensor, shared: tuple[int, ...]) -> ByteOperand | None:
    """Return the bytes and zero point of an s32 tensor that was widened from bytes or is a constant of a narrow range.

    The zero point is constant along the axes `shared`, counted from the end, over which the contraction accumulates.
    """
    value = constant_value(x)
    if value is not None:
        return _narrowed(make, value, shared) if value.size else None
    op = x.producer_owner
    if op.op_name == "cast":
        source = op.inputs[0]
        return ByteOperand(source, None) if source.details.dtype in (S8, U8) else None
    if op.op_name != "sub":
        return None
    wide, zero = op.inputs
    found = byte_operand(make, wide, shared) if wide.producer_owner.op_name == "cast" else None
    dims = zero.details.plain_dims
    varies = any(len(dims) >= -axis and dims[axis] != 1 for axis in shared)
    if found is None or varies or wide.details.plain_dims != x.details.plain_dims:
        return None
    return replace(found, zero=zero)


def _narrowed(make: Composer, value: Array, shared: tuple[int, ...]) -> ByteOperand | None:
    """Return a constant as signed bytes: unchanged, or minus an offset for all of it or for each slice that
    is summed."""
    for axes in (tuple(range(value.ndim)), shared):
        low = value.min(axis=axes, keepdims=True).astype(np.int64)
        high = value.max(axis=axes, keepdims=True).astype(np.int64)
        if np.any(high - low > 255):
            continue
        offset = np.where((low >= -128) & (high <= 127), 0, low + 128)
        bytes_ = make.constant((value - offset).astype(np.int8))
        if not offset.any():
            return ByteOperand(bytes_, None)
        return ByteOperand(bytes_, make.constant((-offset).astype(np.int32)))
    return None
