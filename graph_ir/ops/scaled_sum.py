"""scaled_sum: two terms scaled and added, created by the pass `scale_sums_once`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...base.dtypes import F32
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.attributes import FloatAttr
from ..ir.computation import Index, Read
from ..ir.graph import Array
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import FusibleOp
from ..ir.operands import Operand
from ..ir.registry import register


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
