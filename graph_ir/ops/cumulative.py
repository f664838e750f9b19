"""Scans along an axis: cum_sum and cum_prod."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..ir.attributes import BoolAttr
from ..ir.axis_attributes import AxisAttr
from ..ir.graph import Array, Op
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand
from ..ir.reference import narrow, widen
from ..ir.registry import register
from .elementwise import NUMBER, kinds_text


class Cumulative(Op):
    """16-bit floats accumulate in f32, integers wrap. Floats are combined in blocks along the last axis, in an order
    that the sizes fix.
    """

    kind: ClassVar[str] = "loop"
    combine: ClassVar[str]
    x = Operand()
    axis = AxisAttr("axis of the scan", default=0)
    exclusive = BoolAttr("exclude x[i] from element i")
    reverse = BoolAttr("start at the last element")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The input's dtype and shape."""
        (x,) = inputs
        if x.dtype.kind not in NUMBER:
            raise self.rule(f"input dtype must be {kinds_text(NUMBER)}", str(x.dtype), "cast it")
        return [LogicalTensor(x.dtype, x.plain_dims)]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """np.cumsum or np.cumprod, shifted by one where exclusive."""
        axis = self.axis
        function: Any = np.cumsum if self.combine == "add" else np.cumprod
        x = widen(inputs[0])
        x = np.flip(x, axis) if self.reverse else x
        with np.errstate(all="ignore"):
            total = function(x, axis=axis, dtype=x.dtype)
        if self.exclusive:
            edge = np.full_like(
                np.take(x, [0] * min(x.shape[axis], 1), axis=axis), self.combine == "mul"
            )
            total = np.concatenate(
                [edge, np.take(total, np.arange(max(x.shape[axis] - 1, 0)), axis=axis)], axis
            )
        total = np.flip(total, axis) if self.reverse else total
        return [narrow(np.ascontiguousarray(total), self.outputs[0].details.dtype)]


@register("cum_sum")
class CumSum(Cumulative):
    """Sum of the elements up to each one."""

    combine: ClassVar[str] = "add"


@register("cum_prod")
class CumProd(Cumulative):
    """Cumulative product up to each element."""

    combine: ClassVar[str] = "mul"
