"""Steps of quantized arithmetic: round_saturate, the last one of `quantize`, from a quotient to an integer of few bits,
and scaled_sum, two terms scaled and added, created by the pass `scale_sums_once`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...base.dtypes import F32, S32
from ...tensor_ir import builder as t
from ...tensor_ir.intrinsics import WIDEST_ZERO
from ...tensor_ir.nodes import Call, Expr
from ..ir.attributes import BoolAttr, DTypeAttr, FloatAttr, IntAttr
from ..ir.computation import Index, Read
from ..ir.graph import Array
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import FusibleOp
from ..ir.operands import Operand
from ..ir.reference import convert
from ..ir.registry import register

FAR = float(1 << 30)
"""Beyond all results, with any zero point; `quantize` takes numbers up to it."""


@register("round_saturate")
class RoundSaturate(FusibleOp):
    """round(x) + zero between `low` and `high`; halves round to even, NaN becomes `nan`.

    As an integer of at most 16 bits, or as an integer in f32 for what goes on in registers.
    """

    elementwise: ClassVar[bool] = True

    x = Operand("f32")
    zero = IntAttr("added after rounding", default=0)
    low = IntAttr("the smallest result")
    high = IntAttr("the largest result")
    nan = IntAttr("replacement of NaN, within the bounds", default=0)
    dtype = DTypeAttr("s8, u8, s16, u16 or f32")
    near = BoolAttr("x is known to be no NaN, and within 2^30 of 0")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """x's shape in `dtype`."""
        x, dtype = inputs[0], self.dtype
        if x.dtype != F32:
            raise self.rule("x must be f32", str(x.dtype), "insert a cast")
        if dtype != F32 and (dtype.kind not in ("int", "uint") or dtype.bits > 16):
            raise self.rule("dtype must be f32 or an integer of 8 or 16 bits", str(dtype))
        least, most = (-WIDEST_ZERO, WIDEST_ZERO) if dtype == F32 else dtype.limits
        if not least <= self.low <= self.nan <= self.high <= most or abs(self.zero) > WIDEST_ZERO:
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

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """Integers by the intrinsic `quantize`, then bounds closer than the type's; floats by bounds, then rounding."""
        return (self._whole if self.dtype == F32 else self._integer)(reads[0](index))

    def _whole(self, x: Expr) -> Expr:
        low, high, nan = self._quotients()
        if nan != low and not self.near:
            x = t.select(t.equal(x, x), x, nan)
        x = t.select(x > low, x, low)  # a NaN is not greater
        x = t.select(x < high, x, high)
        whole = t.unary("round_even", x)
        return whole + float(self.zero) if self.zero else whole

    def _integer(self, x: Expr) -> Expr:
        dtype = self.dtype
        least, most = dtype.limits
        if self.nan != self.low and not self.near:
            x = t.select(t.equal(x, x), x, self._quotients()[2])
        if not self.near:
            x = t.select(x > FAR, FAR, x)
        y: Expr = Call("quantize", (x, t.const(self.zero, S32)), dtype, x.lanes)
        if self.low > least:
            y = t.maximum(y, t.const(self.low, dtype))
        return t.minimum(y, t.const(self.high, dtype)) if self.high < most else y

    def _quotients(self) -> tuple[float, float, float]:
        """Return the bounds of x and the replacement of NaN."""
        low, high, nan = (float(x - self.zero) for x in (self.low, self.high, self.nan))
        return low, high, nan


def scaled_sum(x: Array, y: Array, a: float, b: float) -> Array:
    """The op on arrays of f32: exact where no number has more than 2^20 times the magnitude of another.

    Two f32 multiplied in f64 are exact, and so is then the sum with an f32.
    """
    scaled = (y.astype(np.float64) * np.float32(b)).astype(F32.numpy)
    return (x.astype(np.float64) * np.float32(a) + scaled).astype(F32.numpy)


@register("scaled_sum")
class ScaledSum(FusibleOp):
    """x * a + y * b, with y * b rounded to f32, x * a exact, and their sum rounded to f32."""

    elementwise: ClassVar[bool] = True

    x = Operand("f32")
    y = Operand("f32, the shape of x")
    a = FloatAttr("factor of x, an f32")
    b = FloatAttr("factor of y, an f32")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """x's shape in f32."""
        x, y = inputs
        if (x.dtype, y.dtype) != (F32, F32) or x.plain_dims != y.plain_dims:
            raise self.rule("x and y must be f32 of one shape", f"{x} and {y}")
        return [LogicalTensor(F32, x.plain_dims)]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The formula, rounded as the kernels round."""
        x, y = inputs
        with np.errstate(all="ignore"):
            return [scaled_sum(x, y, self.a, self.b)]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """A multiplication and a fused multiply-add."""
        x, y = (read(index) for read in reads)
        return t.fma(x, t.const(self.a, F32), y * t.const(self.b, F32))
