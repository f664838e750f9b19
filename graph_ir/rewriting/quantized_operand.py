"""Matmul operands that are dequantized bytes: the integers and their scale."""

from __future__ import annotations

import numpy as np

from ...base.dtypes import F32, S32
from ...base.records import dataclass
from ..ir.graph import GraphTensor
from ..ops.compose import Composer
from ..ops.contraction_types import is_byte
from ..ops.quantize import Dequantize
from .values import constant_value, constant_values

FARTHEST = 255
"""Maximum distance of a byte from its zero point."""


@dataclass(frozen=True)
class QuantizedOperand:
    """An f32 tensor that is (bytes - zero) * scale; scale and zero broadcast to it, and zero may be None."""

    bytes: GraphTensor
    scale: GraphTensor
    zero: GraphTensor | None

    def varies(self, axis: int) -> bool:
        """Return whether scale or zero point differ along an axis, counted from the end."""
        given = (self.scale, self.zero) if self.zero is not None else (self.scale,)
        shapes = [x.details.plain_dims for x in given]
        return any(len(dims) >= -axis and dims[axis] != 1 for dims in shapes)

    def centered(self, make: Composer) -> GraphTensor:
        """bytes - zero as s32; a constant where both are."""
        known = constant_values(x for x in (self.bytes, self.zero) if x is not None)
        if known is not None:
            wide, *zeros = (value.astype(np.int32) for value in known)
            return make.constant(wide - zeros[0] if zeros else wide)
        x = make("cast", self.bytes, dtype=S32)
        if self.zero is None:
            return x
        point = constant_value(self.zero)
        if point is not None and not point.any():
            return x
        zero = make.to(self.zero, S32) if point is None else make.constant(point.astype(np.int32))
        return make("sub", x, zero)


def quantized_operand(tensor: GraphTensor) -> QuantizedOperand | None:
    """Return the integers and scale of a dequantized f32 tensor; None if it is not a dequantized byte tensor."""
    op = tensor.producer_owner
    if (
        not isinstance(op, Dequantize)
        or tensor.details.dtype != F32
        or not is_byte(op.x.details.dtype)
    ):
        return None
    return QuantizedOperand(op.x, op.scale, op.zero_point)


def combined_scale(make: Composer, a: GraphTensor, b: GraphTensor) -> GraphTensor:
    """Multiply two scales in f32; a constant if both are."""
    known = constant_values((a, b))
    if known is None:
        return make("mul", a, b)
    return make.constant(np.asarray(known[0] * known[1], F32.numpy))


def swapped(make: Composer, x: GraphTensor) -> GraphTensor:
    """A parameter of a matrix as one of the transposed matrix."""
    dims = x.details.plain_dims
    if x.details.elements == 1:
        return reshaped(make, x, ())
    if len(dims) == 1:
        return reshaped(make, x, (dims[0], 1))
    known = constant_value(x)
    if known is not None:
        return make.constant(np.ascontiguousarray(known.swapaxes(-1, -2)))
    return make.swapped(x)


def reshaped(make: Composer, x: GraphTensor, dims: tuple[int, ...]) -> GraphTensor:
    """X in another shape; a constant where it is one."""
    known = constant_value(x)
    if x.details.plain_dims == dims:
        return x
    return make("reshape", x, shape=dims) if known is None else make.constant(known.reshape(dims))
