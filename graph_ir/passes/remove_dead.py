"""Remove ops that no output depends on."""

from __future__ import annotations

from ..ir.graph import Graph
from ..rewriting.decisions import record
from ..schedule.context import LowerContext


def remove_dead(graph: Graph, ctx: LowerContext) -> bool:
    """Delete ops and constants that no graph output depends on, by values or by sizes. Graph inputs stay: they are the
    call's arguments.

    %c = constant; %a = relu(%x); %b = exp(%x); return (%a)
    ->
    %a = relu(%x); return (%a)

    Requires: nothing.
    Ensures: topological order; every op but an input leads to an output.
    """
    live: set[int] = set()
    dependencies = graph.dependencies()
    pending = list(graph.outputs)
    while pending:
        op = pending.pop()
        if id(op) not in live:
            live.add(id(op))
            pending.extend(dependencies(op))
    dead = [op for op in graph.ops if id(op) not in live and not op.is_input]
    for op in dead:
        record(graph, "removed", [op.name], (), f"no output depends on this {op.op_name}")
    if dead:
        graph.remove(dead)
        graph.sort()
    return bool(dead)
