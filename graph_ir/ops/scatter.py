"""scatter: elements at computed indices are replaced by, or combined with, updates, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..ir.attributes import ChoiceAttr, IntAttr, optional
from ..ir.graph import Array, Graph, Op
from ..ir.graph_attributes import GraphAttr
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand, VariadicOperand
from ..ir.registry import register
from .gather import check_indices

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
