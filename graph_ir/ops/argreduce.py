"""Position of the largest or smallest element: arg_max and arg_min."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...base.dims import bounds, is_known
from ...base.dtypes import S32, S64
from ..ir.attributes import BoolAttr
from ..ir.axis_attributes import AxisAttr
from ..ir.graph import Array, Graph, GraphTensor
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import CompositeOp
from ..ir.operands import Operand
from ..ir.registry import register
from .compose import Composer
from .reduce import reduced_dims

MAX_NARROW = (1 << 31) - 1
"""Largest axis whose positions are searched in 32 bits, twice as many per vector."""


class _ArgReduce(CompositeOp):
    """s64 output. NaN counts as the extreme, as in NumPy."""

    operations: ClassVar[int] = 2
    reduction: ClassVar[str]
    x = Operand()
    axis = AxisAttr("axis to search", default=0)
    keep_dims = BoolAttr("keep the axis, with size 1")
    last = BoolAttr("return the last of equal elements instead of the first")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The input without the axis, or with size 1 there."""
        (x,), axis = inputs, self.axis
        if not x.plain_dims[axis]:
            raise self.rule(f"axis {axis} must have elements", str(x))
        return [LogicalTensor(S64, reduced_dims(x.plain_dims, (axis,), self.keep_dims))]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """np.argmax or np.argmin."""
        (x,) = inputs
        size = x.shape[self.axis]
        function: Any = np.argmax if self.reduction == "reduce_max" else np.argmin
        found = function(np.flip(x, self.axis) if self.last else x, axis=self.axis)
        position = size - 1 - found if self.last else found
        return [np.asarray(position, np.int64).reshape(self.outputs[0].details.plain_dims)]

    def decompose(self, graph: Graph) -> list[GraphTensor]:
        """The least (or greatest) position whose element equals the extreme of its row or is NaN."""
        make = Composer(graph, self)
        (x,), axis = self.inputs, self.axis
        size = x.details.plain_dims[axis]
        hit = make("eq", x, make(self.reduction, x, axes=(axis,), keep_dims=True))
        if x.details.dtype.is_float:
            hit = make("or", hit, make("isnan", x))
        shape = [1] * x.details.rank
        shape[axis] = size
        narrow = S32 if bounds(size)[1] <= MAX_NARROW else S64
        if is_known(size):
            steps = np.arange(size, dtype=narrow.numpy).reshape(shape)
            positions = graph.make_constant(steps, f"{self.name}.positions")
        else:
            positions = make("reshape", make("count_up", size=(size,)), shape=tuple(shape))
            positions = make.to(positions, narrow)
        nowhere = make.scalar(-1 if self.last else narrow.limits[1], narrow)
        found_positions = make("select", hit, positions, nowhere)
        search = "reduce_max" if self.last else "reduce_min"
        found = make(search, found_positions, axes=(axis,), keep_dims=self.keep_dims)
        return [make.to(found, S64)]


@register("arg_max")
class ArgMax(_ArgReduce):
    """Index of the largest element along `axis`."""

    reduction: ClassVar[str] = "reduce_max"


@register("arg_min")
class ArgMin(_ArgReduce):
    """Index of the smallest element along `axis`."""

    reduction: ClassVar[str] = "reduce_min"
