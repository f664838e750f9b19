"""quantize and dequantize: integers of 8 or 16 bits that stand for real numbers, by a scale and a zero point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...base.dtypes import F32, S64, U8
from ...base.size_limits import broadcast_sizes
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.attributes import DTypeAttr, IntAttr
from ..ir.computation import Index, Read
from ..ir.graph import Array, Graph, GraphTensor
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import CompositeOp, FusibleOp
from ..ir.operands import Operand, OptionalOperand
from ..ir.reference import convert, narrow
from ..ir.registry import register
from .compose import Composer


class _Scaled(CompositeOp):
    """Base: the operands after x broadcast to it."""

    operations: ClassVar[int] = 3

    def check_shapes(self, inputs: list[LogicalTensor]) -> None:
        """Raise UserError unless scale and zero point broadcast to x, and the scale is of floats."""
        x, scale = inputs[:2]
        for name, other in zip(("scale", "zero_point"), inputs[1:], strict=False):
            try:
                fits = broadcast_sizes(other.plain_dims, x.plain_dims) == x.plain_dims
            except ValueError:
                fits = False
            if not fits:
                raise self.rule(f"{name} must broadcast to x", f"{other} for {x}", "reshape it")
        if not scale.dtype.is_float:
            raise self.rule("scale must be a float", str(scale.dtype), "insert a cast")

    def arithmetic(self, graph: Graph) -> list[GraphTensor]:
        """The op in elementwise ops that every format has."""
        return self.decompose(graph)


@register("quantize")
class Quantize(_Scaled):
    """round(x / scale) + zero_point, saturated to `dtype`; halves round to even, NaN becomes 0.

    The quotient is rounded to f32 first.
    """

    x = Operand("floats")
    scale = Operand("floats, above 0")
    zero_point = OptionalOperand("integers of the result's type")
    dtype = DTypeAttr("s8, u8, s16 or u16")
    bits = IntAttr("how many bits of `dtype` a result may take", default=16, least=1)

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest result."""
        spared = max(self.dtype.bits - self.bits, 0)
        low, high = self.dtype.limits
        return low >> spared, high >> spared

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """x's shape in `dtype`."""
        x, dtype = inputs[0], self.dtype
        if dtype.kind not in ("int", "uint") or dtype.bits > 16:
            raise self.rule("dtype must be an integer of 8 or 16 bits", str(dtype))
        if not x.dtype.is_float:
            raise self.rule("x must be a float", str(x.dtype), "insert a cast")
        if len(inputs) > 2 and inputs[2].dtype != dtype:
            raise self.rule(f"zero_point must be {dtype}", str(inputs[2].dtype), "insert a cast")
        self.check_shapes(inputs)
        return [LogicalTensor(dtype, x.plain_dims)]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The formula, step by step in f32 as the kernels compute it."""
        with np.errstate(all="ignore"):
            value = np.rint(inputs[0].astype(F32.numpy) / inputs[1].astype(F32.numpy))
            if len(inputs) > 2:
                value = value + inputs[2].astype(F32.numpy)
            low, high = self.limits
            return [convert(np.clip(value, F32.numpy.type(low), F32.numpy.type(high)), self.dtype)]

    def decompose(self, graph: Graph) -> list[GraphTensor]:
        """div and `round_saturate`; `arithmetic` where the zero point is computed or differs between elements."""
        zero = 0 if self.zero_point is None else _known_zero(self.zero_point)
        if zero is None:
            return self.arithmetic(graph)
        make = Composer(graph, self)
        low, high = self.limits
        attrs = {"zero": zero, "low": low, "high": high, "dtype": self.dtype}
        return [make("round_saturate", self._quotient(make), **attrs)]

    def arithmetic(self, graph: Graph) -> list[GraphTensor]:
        """div, round, add, a clamp and a cast: what other formats cast from outside of a type may be any number."""
        make = Composer(graph, self)
        value = make("round", self._quotient(make))
        if self.zero_point is not None:
            value = make("add", value, make.to(self.zero_point, F32))
        low, high = self.limits
        return [make.to(make("clamp", value, min=float(low), max=float(high)), self.dtype)]

    def _quotient(self, make: Composer) -> GraphTensor:
        return make("div", make.to(self.x, F32), make.to(self.scale, F32))


@register("dequantize")
class Dequantize(_Scaled):
    """(x - zero_point) * scale in the scale's type, computed in f32."""

    x = Operand("integers of at most 32 bits")
    scale = Operand("floats")
    zero_point = OptionalOperand("integers of x's type")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """x's shape in the scale's type."""
        x = inputs[0]
        if x.dtype.kind not in ("int", "uint") or x.dtype.bits > 32:
            raise self.rule("x must be an integer of at most 32 bits", str(x.dtype))
        if len(inputs) > 2 and inputs[2].dtype != x.dtype:
            raise self.rule(f"zero_point must be {x.dtype}", str(inputs[2].dtype), "insert a cast")
        self.check_shapes(inputs)
        return [LogicalTensor(inputs[1].dtype, x.plain_dims)]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The formula, step by step in f32 as the kernels compute it."""
        value: Any = inputs[0].astype(F32.numpy)
        with np.errstate(all="ignore"):
            if len(inputs) > 2:
                value = value - inputs[2].astype(F32.numpy)
            return [narrow(value * inputs[1].astype(F32.numpy), self.scale.details.dtype)]

    def decompose(self, graph: Graph) -> list[GraphTensor]:
        """Casts, sub where the zero point is not known to be 0, and mul."""
        make = Composer(graph, self)
        value = make.to(self.x, F32)
        if self.zero_point is not None and _known_zero(self.zero_point) != 0:
            value = make("sub", value, make.to(self.zero_point, F32))
        return [make.to(make("mul", value, make.to(self.scale, F32)), self.scale.details.dtype)]


def _known_zero(zero: GraphTensor) -> int | None:
    """The one zero point of all elements; None where it is computed or differs."""
    op = zero.producer_owner
    values = op.attr("value") if op.is_constant else None
    if values is None or not values.size or np.any(values != values.flat[0]):
        return None
    return int(values.flat[0])


ENTRIES = 256


@register("byte_table")
class ByteTable(FusibleOp):
    """The entry of the table for each byte of x: that of byte b, taken as unsigned, is at b.

    A separate kernel, not part of the epilogue that makes x: whole vectors of bytes are looked up at once.
    """

    x = Operand("u8 or s8")
    table = Operand("256 of u8 or s8")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """x's shape in the table's type."""
        x, table = inputs
        for name, details in (("x", x), ("table", table)):
            if details.dtype.bits != 8 or details.dtype.kind not in ("int", "uint"):
                raise self.rule(f"{name} must be u8 or s8", str(details.dtype), "insert a cast")
        if table.plain_dims != (ENTRIES,):
            raise self.rule("table must have 256 entries", str(table))
        return [LogicalTensor(table.dtype, x.plain_dims)]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The entries."""
        x, table = inputs
        return [table[np.ascontiguousarray(x).view(np.uint8).reshape(x.shape)]]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """A load whose index is a byte."""
        byte = t.bitcast(reads[0](index), U8)
        return reads[1]((t.cast(byte, S64),))
