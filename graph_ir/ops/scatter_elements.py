"""scatter_elements: elements of an axis replaced or combined with updates at given places."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...dtypes import S64
from ..graph import Array, Graph, GraphTensor
from ..logical_tensor import LogicalTensor
from ..op_kinds import CompositeOp
from ..reference import narrow, widen
from ..registry import register
from .axes import normal_axis
from .compose import Composer

_MERGE = {  # reduction: (reduction op over the updates, elementwise op with the data, neutral element)
    "add": ("reduce_sum", "add", 0),
    "mul": ("reduce_prod", "mul", 1),
}


@register("scatter_elements")
class ScatterElements(CompositeOp):
    """data with data[i0, .., indices[i0, ..], ..] set to updates[i0, ..] along `axis` (default 0).

    attrs: `axis`, `reduction`: "none" (the last of several updates of one element wins), "add" or "mul". Negative
    indices count from the back; those outside change nothing. The other axes of `indices` may be shorter than data's.
    """

    input_names: ClassVar[tuple[str, ...]] = ("data", "indices", "updates")

    @property
    def axis(self) -> int:
        """The axis indices point into, not negative."""
        return normal_axis(self, self.attrs.get("axis", 0), self.inputs[0].details.rank)

    @property
    def reduction(self) -> str:
        """What happens to the old element."""
        return str(self.attrs.get("reduction", "none"))

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The data's type and shape."""
        if len(inputs) != 3:
            raise self.rule("inputs must be data, indices, updates", f"{len(inputs)} inputs")
        data, indices, updates = inputs
        axis = normal_axis(self, self.attrs.get("axis", 0), data.rank)
        if indices.dtype.kind not in ("int", "uint"):
            raise self.rule("indices must be integers", str(indices.dtype), "insert a cast")
        if updates.dtype != data.dtype or updates.plain_dims != indices.plain_dims:
            raise self.rule(
                "updates must have the data's dtype and the shape of indices",
                f"{updates}, {data} and {indices}",
            )
        others = zip(data.plain_dims, indices.plain_dims, strict=False)
        fits = all(i == axis or size <= full for i, (full, size) in enumerate(others))
        if indices.rank != data.rank or not fits:
            raise self.rule(
                "indices must have the data's rank and no longer axis, the scattered one aside",
                f"{data} and {indices}",
            )
        if self.reduction not in ("none", *_MERGE):
            raise self.rule("reduction must be 'none', 'add' or 'mul'", f"'{self.reduction}'")
        if self.reduction != "none" and data.dtype.kind == "bool":
            raise self.rule(f"reduction '{self.reduction}' needs numbers", str(data.dtype))
        return [LogicalTensor(data.dtype, data.plain_dims)]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """One assignment or `ufunc.at` over all indices."""
        data, indices, updates = inputs
        size = data.shape[self.axis]
        wide = indices.astype(np.int64)
        place: list[Any] = list(np.indices(indices.shape))
        place[self.axis] = np.where(wide < 0, wide + size, wide)
        inside = (place[self.axis] >= 0) & (place[self.axis] < size)
        where = tuple(axis[inside] for axis in place)
        result: Any = np.array(widen(data))
        changes: Any = widen(updates)
        with np.errstate(all="ignore"):
            if self.reduction == "none":
                result[where] = changes[inside]
            else:
                ufunc = np.add if self.reduction == "add" else np.multiply
                ufunc.at(result, where, changes[inside])
        return [narrow(result, self.outputs[0].details.dtype)]

    def decompose(self, graph: Graph) -> list[GraphTensor]:
        """Every element of the data looks through all indices of its row: n * m comparisons, no ordered writes."""
        make = Composer(graph, self)
        data, indices, updates = self.inputs
        axis, dims = self.axis, data.details.plain_dims
        count = indices.details.plain_dims[axis]
        if not data.details.elements or not indices.details.elements:
            return [make("copy", data)]
        wide = make.to(indices, S64)
        below = make("lt", wide, make.scalar(0, S64))
        wide = make("select", below, make("add", wide, make.scalar(dims[axis], S64)), wide)
        room = [
            0 if i == axis else d - s
            for i, (d, s) in enumerate(zip(dims, indices.details.plain_dims, strict=True))
        ]
        wide, updates = (
            self._padded(make, x, room, value) for x, value in ((wide, -1), (updates, 0))
        )
        apart = (*dims[:axis], 1, count, *dims[axis + 1 :])
        places = self._steps(graph, dims[axis], axis)
        hit = make("eq", make("reshape", wide, shape=apart), places)
        if self.reduction == "none":
            steps = self._steps(graph, count, axis + 1)
            last = make("select", hit, steps, make.scalar(-1, S64))
            last = make("reduce_max", last, axes=(axis + 1,))
            found = make(
                "gather_elements", updates, make("max", last, make.scalar(0, S64)), axis=axis
            )
            return [make("select", make("ge", last, make.scalar(0, S64)), found, data)]
        over, merge, neutral = _MERGE[self.reduction]
        wide_updates = make("reshape", make.widened(updates), shape=apart)
        nothing = make.scalar(neutral, wide_updates.details.dtype)
        total = make(over, make("select", hit, wide_updates, nothing), axes=(axis + 1,))
        return [make.to(make(merge, make.widened(data), total), data.details.dtype)]

    def _padded(self, make: Composer, x: GraphTensor, room: list[int], value: int) -> GraphTensor:
        if not any(room):
            return x
        before = (0,) * len(room)
        return make("pad", x, before=before, after=tuple(room), mode="constant", value=value)

    def _steps(self, graph: Graph, count: int, axis: int) -> GraphTensor:
        """0, 1, ..., count - 1 along `axis` of a tensor with one axis more than the data."""
        shape = [1] * (self.inputs[0].details.rank + 1)
        shape[axis] = count
        steps = np.arange(count, dtype=np.int64).reshape(shape)
        return graph.make_constant(steps, f"{self.name}.positions")
