"""gather_elements: one element of an axis per output element."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...base.dtypes import S64
from ...base.size_limits import covers
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.axis_attributes import AxisAttr
from ..ir.computation import Computation, Index, Pointwise, Read
from ..ir.graph import Array
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand
from ..ir.registry import register
from .movement import Movement


@register("gather_elements")
class GatherElements(Movement):
    """out[i0, .., i_axis, ..] = x[i0, .., indices[i0, ..], ..] along `axis`; the shape of `indices`.

    Indices are integers, negative ones count from the back; out-of-range ones are clamped to the nearest valid one. The
    other axes of `indices` may be shorter than those of x.
    """

    x = Operand()
    indices = Operand("integers")
    axis = AxisAttr("axis that indices select from", default=0)

    def result_dims(self, inputs: Sequence[LogicalTensor]) -> tuple[int, ...]:
        """The shape of `indices`."""
        x, indices = inputs
        if indices.dtype.kind not in ("int", "uint"):
            raise self.rule("indices must be integers", str(indices.dtype), "insert a cast")
        axis = self.axis
        others = zip(x.plain_dims, indices.plain_dims, strict=False)
        fits = all(i == axis or covers(full, size) for i, (full, size) in enumerate(others))
        if indices.rank != x.rank or not fits:
            raise self.rule(
                "indices must have x's rank and no longer axis than x has, the gathered one aside",
                f"{x} and {indices}",
            )
        if x.plain_dims[axis] == 0 and not indices.is_empty:
            raise self.rule(
                f"axis {axis} must have elements to gather", f"{x} and {indices.elements} indices"
            )
        return indices.plain_dims

    def reference(self, inputs: list[Array]) -> list[Array]:
        """np.take_along_axis on wrapped and clamped indices."""
        x, indices = inputs
        axis, size = self.axis, x.shape[self.axis]
        wide = indices.astype(np.int64)
        position = np.clip(np.where(wide < 0, wide + size, wide), 0, max(size - 1, 0))
        if not indices.size:
            return [np.zeros(indices.shape, x.dtype)]
        part = tuple(slice(None) if i == axis else slice(d) for i, d in enumerate(indices.shape))
        return [np.take_along_axis(x[part], position, axis)]

    def computation(self) -> Computation:
        """The element of x at the loaded index of the axis and the output's own index elsewhere."""
        axis = self.axis
        size = self.inputs[0].details.plain_dims[axis]

        def element(reads: Sequence[Read], index: Index) -> Expr:
            raw = t.cast(reads[1](index), S64)
            wrapped = t.select(raw < 0, raw + size, raw)
            position = t.minimum(t.maximum(wrapped, 0), max(size - 1, 0))
            return reads[0]((*index[:axis], position, *index[axis + 1 :]))

        return Pointwise(element)
