"""gather: slices of a tensor selected by an index tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...base.dims import bounds
from ...base.dtypes import S64
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.axis_attributes import AxisAttr
from ..ir.computation import Computation, Index, Pointwise, Read
from ..ir.graph import Array
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand
from ..ir.registry import register
from .movement import Movement


@register("gather")
class Gather(Movement):
    """np.take: axis `axis` of x replaced by the axes of `indices`.

    Indices are integers, negative ones count from the back; out-of-range ones are clamped to the nearest valid one.
    """

    x = Operand()
    indices = Operand("integers")
    axis = AxisAttr("axis that indices select from", default=0)

    def result_dims(self, inputs: Sequence[LogicalTensor]) -> tuple[int, ...]:
        """x's shape with the shape of `indices` in place of the axis."""
        x, indices = inputs
        if indices.dtype.kind not in ("int", "uint"):
            raise self.rule("indices must be integers", str(indices.dtype), "insert a cast")
        axis = self.axis
        if x.plain_dims[axis] == 0 and not indices.is_empty:
            raise self.rule(
                f"axis {axis} must have elements to gather", f"{x} and {indices.elements} indices"
            )
        return (*x.plain_dims[:axis], *indices.plain_dims, *x.plain_dims[axis + 1 :])

    def reference(self, inputs: list[Array]) -> list[Array]:
        """np.take on wrapped and clamped indices."""
        x, indices = inputs
        size = x.shape[self.axis]
        wide = indices.astype(np.int64)
        return [np.take(x, np.where(wide < 0, wide + size, wide), axis=self.axis, mode="clip")]

    def computation(self) -> Computation:
        """The element of x at the loaded index."""
        axis = self.axis
        size = self.inputs[0].details.plain_dims[axis]
        # Where both may be none, no index is read unless there is an element.
        may_be_none = any(not bounds(one)[0] for one in self.inputs[1].details.plain_dims)
        last = t.maximum(t.as_expr(size - 1), 0) if may_be_none else max(size - 1, 0)
        rank = self.inputs[1].details.rank

        def element(reads: Sequence[Read], index: Index) -> Expr:
            raw = t.cast(reads[1](index[axis : axis + rank]), S64)
            wrapped = t.select(raw < 0, raw + size, raw)
            position = t.minimum(t.maximum(wrapped, 0), last)
            return reads[0]((*index[:axis], position, *index[axis + rank :]))

        return Pointwise(element)
