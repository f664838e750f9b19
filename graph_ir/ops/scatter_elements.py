"""scatter_elements: elements along an axis are replaced or combined with updates at given indices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base.dims import Size
from ...base.dtypes import S64
from ...base.size_limits import check_equal
from ..ir.attributes import ChoiceAttr
from ..ir.axis_attributes import AxisAttr
from ..ir.graph import Array, Graph, GraphTensor
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import CompositeOp
from ..ir.operands import Operand
from ..ir.registry import register
from .compose import Composer
from .gather import check_indices, covers_others, from_front
from .scatter import NUMBERS_ONLY, UFUNCS


@register("scatter_elements")
class ScatterElements(CompositeOp):
    """data with data[i0, .., indices[i0, ..], ..] set to updates[i0, ..] along `axis`.

    Each result is rounded. Negative indices count from the back; those outside change nothing. The other axes of
    `indices` may be shorter than data's.
    """

    data = Operand()
    indices = Operand("integers")
    updates = Operand("one for each index")
    axis = AxisAttr("axis that indices select from", default=0)
    reduction = ChoiceAttr(
        "with the old element; none: the last of several updates wins", "none", *NUMBERS_ONLY
    )

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The data's type and shape."""
        data, indices, updates = inputs
        check_indices(self, indices)
        if updates.rank == indices.rank:
            for one, other in zip(updates.plain_dims, indices.plain_dims, strict=True):
                check_equal(one, other)
        if updates.dtype != data.dtype or updates.plain_dims != indices.plain_dims:
            raise self.rule(
                "updates must have the data's dtype and the shape of indices",
                f"{updates}, {data} and {indices}",
            )
        if not covers_others(data, indices, self.axis):
            raise self.rule(
                "indices must have the data's rank and no longer axis, the scattered one aside",
                f"{data} and {indices}",
            )
        if self.reduction != "none" and data.dtype.kind == "bool":
            raise self.rule(f"reduction '{self.reduction}' needs numbers", str(data.dtype))
        return super().infer(inputs)

    def reference(self, inputs: list[Array]) -> list[Array]:
        """One assignment or `ufunc.at` over all indices."""
        data, indices, updates = inputs
        size = data.shape[self.axis]
        position: list[Any] = list(np.indices(indices.shape))
        position[self.axis] = from_front(indices, size)
        inside = (position[self.axis] >= 0) & (position[self.axis] < size)
        where = tuple(axis[inside] for axis in position)
        result: Any = data.copy()
        with np.errstate(all="ignore"):
            if self.reduction == "none":
                result[where] = updates[inside]
            else:
                UFUNCS[self.reduction].at(result, where, updates[inside])
        return [result]

    def decompose(self, graph: Graph) -> list[GraphTensor]:
        """Scatter at flat indices: the given index along the axis, the update's own position along the others."""
        make = Composer(graph, self)
        data, indices, updates = self.inputs
        dims, shape = data.details.plain_dims, indices.details.plain_dims
        if data.details.is_empty or indices.details.is_empty:
            return [make("copy", data)]
        wide, size = make.to(indices, S64), make.size(dims[self.axis])
        nothing = make.scalar(0, S64)
        wide = make("select", make("lt", wide, nothing), make("add", wide, size), wide)
        inside = make("and", make("ge", wide, nothing), make("lt", wide, size))
        position = make("mul", wide, make.size(math.prod(dims[self.axis + 1 :])))
        for axis, count in enumerate(shape):
            if axis != self.axis and count != 1:
                steps = self._steps(make, count, math.prod(dims[axis + 1 :]))
                along = tuple(count if i == axis else 1 for i in range(len(shape)))
                position = make("add", position, make("reshape", steps, shape=along))
        position = make("select", inside, position, make.scalar(-1, S64))
        return [make("scatter", position, data, updates, reduction=self.reduction)]

    def _steps(self, make: Composer, count: Size, step: Size) -> GraphTensor:
        """0, step, 2 * step, ..."""
        if isinstance(count, int) and isinstance(step, int):
            steps = np.arange(count, dtype=np.int64) * step
            return make.graph.make_constant(steps, f"{self.name}.positions")
        return make("mul", make("count_up", size=(count,)), make.size(step))
