"""Values that do not depend on the model's inputs, computed while a module is imported."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.graph import Array, GraphTensor, Op

_MAX_KNOWN = 1 << 20  # elements of a value that is computed at import
_MAX_WALKED = 4096  # ops visited to determine whether a value is known


class Known:
    """Values that depend neither on the model's inputs nor their sizes, computed with the references of their ops
    on demand."""

    def __init__(self) -> None:
        self._values: dict[GraphTensor, Array | None] = {}

    def __call__(self, tensor: GraphTensor) -> Array | None:
        """The value, or None if it depends on an input or its size, or is large."""
        if tensor in self._values:
            return self._values[tensor]
        order = self._needed(tensor)
        for op in order:
            self._evaluate(op)
        return self._values.get(tensor)

    def _needed(self, tensor: GraphTensor) -> list[Op]:
        """Ops to evaluate before the tensor is known, in order; empty if one of them cannot be."""
        stack, order, seen = [(tensor.producer_owner, False)], [], set()
        while stack:
            op, ready = stack.pop()
            if ready:
                order.append(op)
                continue
            if id(op) in seen or op.outputs[0] in self._values:
                continue
            seen.add(id(op))
            types = [y.details for y in (*op.inputs, *op.outputs)]
            unknown = op.op_name in ("input", "dynamic_sizes") or op.kind == "control"
            unknown = unknown or not all(x.is_known for x in types)
            if unknown or len(seen) > _MAX_WALKED or max(x.elements for x in types) > _MAX_KNOWN:
                self._values[tensor] = None
                return []
            stack.append((op, True))
            stack.extend((x.producer_owner, False) for x in op.inputs)
        return order

    def _evaluate(self, op: Op) -> None:
        arrays = [self._values.get(x) for x in op.inputs]
        unknown = any(array is None for array in arrays)
        results: Sequence[Array | None]
        results = [None] * len(op.outputs) if unknown else op.reference(arrays)  # type: ignore[arg-type]
        self._values.update(zip(op.outputs, results, strict=True))


def clamp_limits(
    x: GraphTensor, known: Callable[[GraphTensor], Array | None]
) -> tuple[int, int] | None:
    """(low, high) of a tensor that is min(max(.., low), high) of constants, None for any other."""
    upper = x.producer_owner
    if upper.op_name != "min":
        return None
    lower = upper.inputs[0].producer_owner
    if lower.op_name != "max":
        return None
    high, low = known(upper.inputs[1]), known(lower.inputs[1])
    if high is None or low is None or not high.size:
        return None
    return int(low.min()), int(high.max())
