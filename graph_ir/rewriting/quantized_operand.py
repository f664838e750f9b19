"""Operands of products that are dequantised bytes: the integers, and what they are scaled by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...base.dtypes import F32, S32
from ..ir.graph import GraphTensor
from ..ops.compose import Composer
from ..ops.product_types import is_byte
from ..ops.quantize import Dequantize
from .values import constant_value

FARTHEST = 255
"""How far a byte lies from its zero point at most."""


@dataclass(frozen=True)
class QuantizedOperand:
    """An f32 tensor that is (bytes - zero) * scale; scale and zero broadcast to it, and zero may be None."""

    bytes: GraphTensor
    scale: GraphTensor
    zero: GraphTensor | None

    def varies(self, axis: int) -> bool:
        """Whether scale or zero point differ along an axis, counted from the end."""
        given = (self.scale, self.zero) if self.zero is not None else (self.scale,)
        shapes = [x.details.plain_dims for x in given]
        return any(len(dims) >= -axis and dims[axis] != 1 for dims in shapes)

    def centered(self, make: Composer) -> GraphTensor:
        """bytes - zero as s32; a constant where both are."""
        values = [constant_value(x) for x in (self.bytes, self.zero) if x is not None]
        wide = [v.astype(np.int32) for v in values if v is not None]
        if len(wide) == (1 if self.zero is None else 2):
            return make.constant(wide[0] if self.zero is None else wide[0] - wide[1])
        x = make("cast", self.bytes, dtype=S32)
        if self.zero is None:
            return x
        known = constant_value(self.zero)
        if known is not None and not known.any():
            return x
        zero = make.to(self.zero, S32) if known is None else make.constant(known.astype(np.int32))
        return make("sub", x, zero)


def quantized_operand(tensor: GraphTensor) -> QuantizedOperand | None:
    """What a dequantised f32 tensor is made of; None if it is another, or not of bytes."""
    op = tensor.producer_owner
    if (
        not isinstance(op, Dequantize)
        or tensor.details.dtype != F32
        or not is_byte(op.x.details.dtype)
    ):
        return None
    return QuantizedOperand(op.x, op.scale, op.zero_point)


def scale_of_products(make: Composer, a: GraphTensor, b: GraphTensor) -> GraphTensor:
    """The product of two scales in f32; a constant where both are."""
    left, right = constant_value(a), constant_value(b)
    if left is None or right is None:
        return make("mul", a, b)
    return make.constant(np.asarray(left * right, F32.numpy))


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
    rank = len(dims)
    return make("transpose", x, perm=(*range(rank - 2), rank - 1, rank - 2))


def reshaped(make: Composer, x: GraphTensor, dims: tuple[int, ...]) -> GraphTensor:
    """X in another shape; a constant where it is one."""
    known = constant_value(x)
    if x.details.plain_dims == dims:
        return x
    return make("reshape", x, shape=dims) if known is None else make.constant(known.reshape(dims))
