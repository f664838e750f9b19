"""Replace composite ops by their parts."""

from __future__ import annotations

from ...base.errors import InternalError
from ..ir.graph import Graph
from ..ir.op_kinds import CompositeOp
from ..rewriting.decisions import record
from ..schedule.context import LowerContext


def decompose(graph: Graph, ctx: LowerContext, keep: frozenset[str] = frozenset()) -> bool:
    """Replace every composite op whose name is not in `keep` by the smaller ops that define it.

    %y = log_softmax(%x)
    ->
    %m = reduce_max(%x); %d = sub(%x, %m); %s = reduce_sum(exp(%d)); %y = sub(%d, log(%s))

    Requires: topological order.
    Ensures: topological order; no composite op but those in `keep`.
    """
    replaced = []
    pending = list(graph.ops)
    while pending:
        op = pending.pop()
        if not isinstance(op, CompositeOp) or op.op_name in keep:
            continue
        count = len(graph.ops)
        results = op.decompose(graph)
        made = graph.ops[count:]
        record(graph, "decomposed", [op.name], [part.name for part in made], op.op_name)
        pending.extend(made)
        for old, new in zip(op.outputs, results, strict=True):
            if (old.details.dtype, old.details.plain_dims) != (
                new.details.dtype,
                new.details.plain_dims,
            ):
                raise InternalError(
                    f"{op.op_name} '{op.name}': {old.details} was decomposed into {new.details}"
                )
            old.replace_uses(new)
        replaced.append(op)
    graph.remove(replaced)
    if replaced:
        graph.sort()
    return bool(replaced)
