"""scatter: elements at computed indices are replaced by, or combined with, updates, in order; scatter_elements: along
an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...base.dims import Size
from ...base.dtypes import S64
from ...base.size_limits import check_equal
from ..ir.attributes import ChoiceAttr, IntAttr, optional
from ..ir.axis_attributes import AxisAttr
from ..ir.graph import Array, Graph, GraphTensor, Op
from ..ir.graph_attributes import GraphAttr
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import CompositeOp
from ..ir.operands import Operand, VariadicOperand
from ..ir.registry import register
from .compose import Composer
from .gather import check_indices, covers_others, from_front

NUMBERS_ONLY = ("add", "mul", "min", "max")
BITS_ONLY = ("and", "or", "xor")
UFUNCS: dict[str, Any] = {
    "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


@register("scatter")
class Scatter(Op):
    """Combine updates with data at flat indices, in the order of the updates.

    indices[i] is the row-major position in data of updates[i], or of the first of `run` consecutive updates, which
    lie contiguously in data too. A run that does not lie inside data as a whole changes nothing. Each new element
    is rounded.
    """

    kind: ClassVar[str] = "loop"
    indices = Operand("integers")
    data = VariadicOperand("arrays of one shape", least=1)
    updates = VariadicOperand("one for each data array", least=1)
    run = IntAttr("consecutive elements that one index stands for", default=1, least=1)
    reduction = ChoiceAttr(
        "with the old element; none: the last update wins", "none", *NUMBERS_ONLY, *BITS_ONLY
    )
    body = optional(
        GraphAttr("instead: elementwise, from scalars (old elements, then updates) to the new ones")
    )

    @property
    def count(self) -> int:
        """Number of scattered arrays."""
        return len(self.data)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The data's types and shape."""
        count = len(inputs) // 2
        indices, data, updates = inputs[0], inputs[1 : 1 + count], inputs[1 + count :]
        check_indices(self, indices)
        for x, u in zip(data, updates, strict=True):
            if x.plain_dims != data[0].plain_dims or u.dtype != x.dtype:
                raise self.rule(
                    "data must be of one shape and updates of the data's dtype", f"{x} and {u}"
                )
            if u.elements != indices.elements * self.run:
                raise self.rule(
                    f"there must be {self.run} updates for each index",
                    f"{u} for {indices.elements} indices",
                )
        self._check_combination(data)
        return [LogicalTensor(x.dtype, x.plain_dims) for x in data]

    def _check_combination(self, data: Sequence[LogicalTensor]) -> None:
        if self.body is not None:
            wanted = [x.dtype for x in (*data, *data)]
            found = [op.outputs[0].details for op in self.body.inputs]
            results = [op.inputs[0].details.dtype for op in self.body.outputs]
            scalar = all(not details.plain_dims for details in found)
            if [d.dtype for d in found] != wanted or results != wanted[: len(data)] or not scalar:
                raise self.rule(
                    "the body must map two scalars of each data array to one",
                    f"{', '.join(map(str, found))} to {', '.join(map(str, results))}",
                )
            return
        kinds: tuple[str, ...] = NUMBERS_ONLY if data[0].dtype.kind != "bool" else ()
        kinds += BITS_ONLY if not data[0].dtype.is_float else ()
        if len(data) > 1 or self.reduction not in ("none", *kinds):
            raise self.rule(
                f"reduction of {data[0].dtype} must be one of {', '.join(('none', *kinds))}",
                f"'{self.reduction}' of {len(data)} arrays",
                "give a body" if len(data) > 1 else "",
            )

    def reference(self, inputs: list[Array]) -> list[Array]:
        """One assignment or `ufunc.at` over all updates; a body is evaluated for one update after the other."""
        indices, data, updates = inputs[0], inputs[1 : 1 + self.count], inputs[1 + self.count :]
        size, run = data[0].size, self.run
        first = indices.reshape(-1).astype(np.int64)
        # A u64 beyond the signed range is out of range, and so is the negative index it wraps to.
        kept = (first >= 0) & (first <= size - run)
        where = (first[kept, None] + np.arange(run)).reshape(-1)
        changes = [u.reshape(first.size, run)[kept].reshape(-1) for u in updates]
        with np.errstate(all="ignore"):
            if self.body is not None:
                return self._by_body(self.body, data, where, changes)
            result = data[0].reshape(-1).copy()
            if self.reduction == "none":
                result[where] = changes[0]
            else:
                UFUNCS[self.reduction].at(result, where, changes[0])
        return [result.reshape(data[0].shape)]

    def _by_body(
        self, body: Graph, data: Sequence[Array], where: Array, changes: Sequence[Array]
    ) -> list[Array]:
        results = [x.reshape(-1).copy() for x in data]
        for number, index in enumerate(where):
            old = [np.asarray(x[index]) for x in results]
            new = body.evaluate([*old, *(np.asarray(u[number]) for u in changes)])
            for x, value in zip(results, new, strict=True):
                x[index] = value
        return [x.reshape(y.shape) for x, y in zip(results, data, strict=True)]

    def get_gflop(self) -> float:
        """One operation for each update and op of the body."""
        ops = 1 if self.body is None else len(self.body.ops)
        return ops * sum(x.details.typical.elements for x in self.inputs[1 + self.count :]) / 1e9


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
