"""Compute equal values once."""

from __future__ import annotations

import numpy as np

from ..ir.contents import attribute_tokens, digest
from ..ir.graph import Array, Graph, Op
from ..rewriting.decisions import record
from ..schedule.context import LowerContext

_Key = tuple[str, tuple[int, ...], str]
_SAMPLE_SIZE = 16


def eliminate_common(graph: Graph, ctx: LowerContext) -> bool:
    """Merge ops of the same name, inputs and attributes, and constants of the same content, into the first.

    %a = relu(%x); %b = relu(%x); %c = add(%a, %b)
    ->
    %a = relu(%x); %c = add(%a, %a)

    Requires: topological order.
    Ensures: topological order; no two ops compute the same from the same tensors.
    """
    first: dict[_Key, list[Op]] = {}
    doomed = []
    for op in graph.ops:
        if op.op_name in ("input", "output"):
            continue
        candidates = first.setdefault(_key(op), [])
        kept = next((other for other in candidates if _same(op, other)), None)
        if kept is None:
            candidates.append(op)
        else:
            for mine, theirs in zip(op.outputs, kept.outputs, strict=True):
                mine.replace_uses(theirs)
            doomed.append(op)
            why = f"the same {op.op_name} of the same inputs"
            record(graph, "merged", [op.name], [kept.name], why)
    graph.remove(doomed)
    if doomed:
        graph.renumber()
    return bool(doomed)


def _key(op: Op) -> _Key:
    """A key equal for ops that compute the same value, and for few others; it includes the layouts of the results."""
    value = op.attr("value") if op.is_constant else None
    attrs = {**op.attrs, "value": _sample(value)} if isinstance(value, np.ndarray) else op.attrs
    tokens = attribute_tokens([attrs, [y.details for y in op.outputs]])
    return op.op_name, tuple(id(x) for x in op.inputs), digest(tokens)


def _same(op: Op, other: Op) -> bool:
    """Return whether two ops of the same key are the same."""
    return not op.is_constant or op.compare_contents(other)


def _sample(array: Array) -> Array:
    """A sample of elements from across the tensor: weights are large, and most different ones differ there."""
    return np.asarray(array.flat[:: max(1, array.size // _SAMPLE_SIZE)])
