"""Give every graph output its own memory.

before   output(%x) output(%x) with %x an input, a constant, or a view of either
after    %c = copy(%x)  output(%c) ...
Requires: layouts chosen. Ensures: each output is written by exactly one kernel, and is plain.
"""

from __future__ import annotations

from ..ir.graph import Graph, GraphTensor
from ..rewriting.decisions import record
from ..rewriting.groups import storage_root
from ..schedule.context import LowerContext


def materialize_outputs(graph: Graph, ctx: LowerContext) -> bool:
    """Insert `copy` ops where a caller's buffer would otherwise share memory with something else."""
    owned: set[GraphTensor] = set()
    changed = False
    for output in graph.outputs:
        tensor = output.inputs[0]
        root = storage_root(tensor)
        if root.producer_owner.kind == "source" or root in owned:
            output.set_input(0, graph.make("copy", (tensor,), {}, f"{tensor.name}.copy").outputs[0])
            why = "the caller's buffer would share memory with something else"
            record(graph, "copied", [tensor.producer_owner.name], [f"{tensor.name}.copy"], why)
            changed = True
        else:
            owned.add(root)
    if changed:
        graph.sort()
    return changed
