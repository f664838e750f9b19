"""Matmul operands that are dequantized bytes: the integers and their scale."""

from __future__ import annotations

from ...base.dtypes import F32, S32
from ...base.records import dataclass
from ..ir.graph import GraphTensor
from ..ops.compose import Composer
from ..ops.contraction_types import is_byte
from ..ops.quantize import Dequantize
from .values import constant_value

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
        x = make.folded("cast", self.bytes, dtype=S32)
        point = None if self.zero is None else constant_value(self.zero)
        if self.zero is None or (point is not None and not point.any()):
            return x
        return make.folded("sub", x, make.folded("cast", self.zero, dtype=S32))


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


def swapped(make: Composer, x: GraphTensor) -> GraphTensor:
    """A parameter of a matrix as one of the transposed matrix."""
    dims = x.details.plain_dims
    if x.details.elements == 1:
        return reshaped(make, x, ())
    if len(dims) == 1:
        return reshaped(make, x, (dims[0], 1))
    last = len(dims) - 1
    return make.folded("transpose", x, perm=(*range(last - 1), last, last - 1))


def reshaped(make: Composer, x: GraphTensor, dims: tuple[int, ...]) -> GraphTensor:
    """X in another shape; a constant where it is one."""
    return x if x.details.plain_dims == dims else make.folded("reshape", x, shape=dims)
