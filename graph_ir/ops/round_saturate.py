"""round_saturate: the last step of `quantize`, from a quotient to an integer of few bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...base.dtypes import F32, S32
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.attributes import DTypeAttr, IntAttr
from ..ir.computation import Computation, Index, Pointwise, Read
from ..ir.graph import Array
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import FusibleOp
from ..ir.operands import Operand
from ..ir.reference import convert
from ..ir.registry import register

FIXED_POINT = float(3 << 22)
"""f32 numbers from 2^23 to 2^24 are whole: a sum with this one is rounded there, halves to even, and its low bits are
the integer."""
WIDEST = 1 << 17
"""Bounds and zero points of 16-bit integers, and their differences, lie below."""


@register("round_saturate")
class RoundSaturate(FusibleOp):
    """round(x) + zero between `low` and `high`; halves round to even, NaN becomes `nan`.

    As an integer of at most 16 bits, or as a whole number in f32 for what goes on in registers.
    """

    elementwise: ClassVar[bool] = True

    x = Operand("f32")
    zero = IntAttr("what is added after rounding", default=0)
    low = IntAttr("the smallest result")
    high = IntAttr("the largest result")
    nan = IntAttr("what NaN becomes, between the bounds", default=0)
    dtype = DTypeAttr("s8, u8, s16, u16 or f32")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """x's shape in `dtype`."""
        x, dtype = inputs[0], self.dtype
        if x.dtype != F32:
            raise self.rule("x must be f32", str(x.dtype), "insert a cast")
        if dtype != F32 and (dtype.kind not in ("int", "uint") or dtype.bits > 16):
            raise self.rule("dtype must be f32 or an integer of 8 or 16 bits", str(dtype))
        least, most = (-WIDEST, WIDEST) if dtype == F32 else dtype.limits
        if not least <= self.low <= self.nan <= self.high <= most or abs(self.zero) > WIDEST:
            given = f"{self.low}, {self.nan} and {self.high}, zero {self.zero}"
            raise self.rule(f"low, nan and high must be in order and fit {dtype}", given)
        return [LogicalTensor(dtype, x.plain_dims)]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The formula; between the bounds all numbers are exact."""
        low, high, nan = self._quotients()
        with np.errstate(all="ignore"):
            bounded = np.clip(
                np.where(np.isnan(inputs[0]), F32.numpy.type(nan), inputs[0]), low, high
            )
            return [convert(np.rint(bounded) + F32.numpy.type(self.zero), self.dtype)]

    def computation(self) -> Computation:
        """Bounds, then the sum with `FIXED_POINT`, whose bits hold the integer."""

        def element(reads: Sequence[Read], index: Index) -> Expr:
            low, high, nan = self._quotients()
            x = reads[0](index)
            if nan != low:
                x = t.select(t.compare("eq", x, x), x, nan)
            x = t.select(t.compare("gt", x, low), x, low)  # a NaN is not greater
            x = t.select(t.compare("lt", x, high), x, high)
            if self.dtype == F32:
                whole = t.unary("round_even", x)
                return t.add(whole, float(self.zero)) if self.zero else whole
            bits = t.bitcast(t.add(x, FIXED_POINT), S32)
            return t.cast(t.add(bits, self.zero) if self.zero else bits, self.dtype)

        return Pointwise(element)

    def _quotients(self) -> tuple[float, float, float]:
        """What x is bounded by, and what it is instead of NaN."""
        low, high, nan = (float(x - self.zero) for x in (self.low, self.high, self.nan))
        return low, high, nan
