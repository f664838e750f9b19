"""Compute equal values once."""

from __future__ import annotations

import hashlib

from ..ir.graph import Graph, Op, attribute_tokens
from ..rewriting.decisions import record
from ..schedule.context import LowerContext

_Key = tuple[str, tuple[int, ...], bytes]


def eliminate_common(graph: Graph, ctx: LowerContext) -> bool:
    """Merge ops of the same name, inputs and attributes, and constants of the same content, into the first.

    %a = relu(%x); %b = relu(%x); %c = add(%a, %b)
    ->
    %a = relu(%x); %c = add(%a, %a)

    Requires: topological order.
    Ensures: topological order; no two ops compute the same from the same tensors.
    """
    first: dict[_Key, Op] = {}
    doomed = []
    for op in graph.ops:
        if op.op_name in ("input", "output"):
            continue
        kept = first.setdefault(_key(op), op)
        if kept is not op:
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
    """Equal for ops that compute the same; layouts of the results count."""
    digest = hashlib.sha256()
    for token in (*attribute_tokens(op.attrs), *attribute_tokens([y.details for y in op.outputs])):
        digest.update(len(token).to_bytes(8, "little"))
        digest.update(token)
    return op.op_name, tuple(id(x) for x in op.inputs), digest.digest()
