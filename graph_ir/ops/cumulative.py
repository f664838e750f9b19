"""Scans along an axis: sums, cumulative products, extremes and logarithms of sums of exponentials."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..ir.attributes import BoolAttr
from ..ir.axis_attributes import AxisAttr
from ..ir.graph import Array, Op
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand
from ..ir.reference import narrow, widen
from ..ir.registry import register
from .elementwise import FLOAT, NUMBER, kinds_text
from .reduce import identity


class Cumulative(Op):
    """16-bit floats accumulate in f32, integers wrap. Floats are combined in blocks along the last axis, in an order
    that the sizes fix.
    """

    kind: ClassVar[str] = "loop"
    combine: ClassVar[str]
    accepts: ClassVar[tuple[str, ...]] = NUMBER
    x = Operand()
    axis = AxisAttr("axis of the scan", default=0)
    exclusive = BoolAttr("exclude x[i] from element i")
    reverse = BoolAttr("start at the last element")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The input's dtype and shape."""
        (x,) = inputs
        if x.dtype.kind not in self.accepts:
            raise self.rule(
                f"input dtype must be {kinds_text(self.accepts)}", str(x.dtype), "cast it"
            )
        return [LogicalTensor(x.dtype, x.plain_dims)]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """NumPy's running function, shifted by one where exclusive."""
        axis = self.axis
        function = _REFERENCES[self.combine].accumulate
        x = widen(inputs[0])
        x = np.flip(x, axis) if self.reverse else x
        with np.errstate(all="ignore"):
            total = function(x, axis=axis, dtype=x.dtype)
        if self.exclusive:
            start = np.asarray(identity(self.combine, self.inputs[0].details.dtype)).astype(x.dtype)
            edge = np.full_like(np.take(x, [0] * min(x.shape[axis], 1), axis=axis), start)
            total = np.concatenate(
                [edge, np.take(total, np.arange(max(x.shape[axis] - 1, 0)), axis=axis)], axis
            )
        total = np.flip(total, axis) if self.reverse else total
        return [narrow(np.ascontiguousarray(total), self.outputs[0].details.dtype)]


_REFERENCES: dict[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "log_add_exp": np.logaddexp,
}


@register("cum_sum")
class CumSum(Cumulative):
    """Sum of the elements up to each one."""

    combine: ClassVar[str] = "add"


@register("cum_prod")
class CumProd(Cumulative):
    """Cumulative product up to each element."""

    combine: ClassVar[str] = "mul"


@register("cum_max")
class CumMax(Cumulative):
    """Largest element up to each one, NaN from the first NaN on."""

    combine: ClassVar[str] = "max"


@register("cum_min")
class CumMin(Cumulative):
    """Smallest element up to each one, NaN from the first NaN on."""

    combine: ClassVar[str] = "min"


@register("cum_log_sum_exp")
class CumLogSumExp(Cumulative):
    """Logarithm of the sum of exp(x) up to each element, of floats."""

    combine: ClassVar[str] = "log_add_exp"
    accepts = FLOAT
