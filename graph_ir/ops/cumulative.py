"""Scans along an axis: sums, cumulative products, extremes and logarithms of sums of exponentials."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..ir.attributes import BoolAttr
from ..ir.axis_attributes import AxisAttr
from ..ir.graph import Array, Graph, GraphTensor, Op
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand
from ..ir.reference import narrow, widen
from ..ir.registry import register
from .compose import Composer
from .doubling import axis_sliced
from .elementwise import FLOAT, NUMBER, check_kind
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
        check_kind(self, inputs[0], self.accepts)
        return super().infer(inputs)

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


class DoubledScan(Cumulative):
    """Base: scans that formats without such a node express by doubling, in log2(n) steps."""

    @property
    def is_static(self) -> bool:
        """Return whether the number of steps is known, and the scan is the plain one."""
        size = self.inputs[0].details.plain_dims[self.axis]
        return isinstance(size, int) and not self.exclusive and not self.reverse

    def arithmetic(self, graph: Graph) -> list[GraphTensor]:
        """Element i becomes the combination of ever more elements up to it: 2, 4, 8, ..."""
        make, axis = Composer(graph, self), self.axis
        x, step = make.widened(self.inputs[0]), 1
        dims = x.details.plain_dims
        while step < dims[axis]:
            head = axis_sliced(make, axis, x, 0, step, 1)
            earlier = axis_sliced(make, axis, x, 0, dims[axis] - step, 1)
            later = axis_sliced(make, axis, x, step, dims[axis] - step, 1)
            x = make("concat", head, self.combined(make, earlier, later), axis=axis)
            step *= 2
        return [make.to(x, self.outputs[0].details.dtype)]

    def combined(self, make: Composer, x: GraphTensor, y: GraphTensor) -> GraphTensor:
        """The elementwise op of the scan."""
        return make(self.combine, x, y)


@register("cum_max")
class CumMax(DoubledScan):
    """Largest element up to each one, NaN from the first NaN on."""

    combine: ClassVar[str] = "max"


@register("cum_min")
class CumMin(DoubledScan):
    """Smallest element up to each one, NaN from the first NaN on."""

    combine: ClassVar[str] = "min"


@register("cum_log_sum_exp")
class CumLogSumExp(DoubledScan):
    """Logarithm of the sum of exp(x) up to each element, of floats."""

    combine: ClassVar[str] = "log_add_exp"
    accepts = FLOAT

    def combined(self, make: Composer, x: GraphTensor, y: GraphTensor) -> GraphTensor:
        """The larger one, and what the other adds; equal infinities have no difference."""
        high, low = make("max", x, y), make("min", x, y)
        zero = make.scalar(0, x.details.dtype)
        gap = make("select", make("eq", low, high), zero, make("sub", low, high))
        return make("add", high, make("log1p", make("exp", gap)))
