"""Widen bytes where they are read instead of storing them wide."""

from __future__ import annotations

from ..ir.graph import Graph, GraphTensor, Op
from ..rewriting.groups import reduces_rows
from ..rewriting.widening import reads_widened, widening_of
from ..schedule.context import LowerContext


def repeat_widening(graph: Graph, ctx: LowerContext) -> bool:
    """Give each consumer of a dequantized tensor its own dequantization, which then fuses with it.

    %d = mul(sub(cast(%q), 3), 0.5); %a = relu(%d); %b = add(%d, %x)
    ->
    %a = relu(mul(sub(cast(%q), 3), 0.5)); %b = add(mul(sub(cast(%q), 3), 0.5), %x)

    The bytes are in memory, not the floats. Matmuls, which read elements many times, share one copy.
    Requires: composites decomposed, layouts chosen. Ensures: topological order.
    """
    found = [(op.outputs[0], chain) for op in graph.ops if (chain := widening_of(op))]
    changed = False
    for tensor, chain in found:
        users = list(dict.fromkeys(user for _, user in tensor.uses))
        if any(map(reduces_rows, users)):
            continue  # a loop over rows reads them together
        readers = [user for user in users if reads_widened(user)]
        for user in readers[1:] if len(readers) == len(users) else readers:
            copy = _copied(graph, chain)
            for index, x in enumerate(user.inputs):
                if x is tensor:
                    user.set_input(index, copy)
            changed = True
    if changed:
        graph.sort()
    return changed


def _copied(graph: Graph, chain: list[Op]) -> GraphTensor:
    """The result of a copy of a chain of ops, the first of which reads the bytes."""
    made: dict[GraphTensor, GraphTensor] = {}
    for op in chain:
        inputs = [made.get(x, x) for x in op.inputs]
        copy = graph.make(op.op_name, inputs, op.attrs, op.name).outputs[0]
        copy.details = op.outputs[0].details
        made[op.outputs[0]] = copy
    return made[chain[-1].outputs[0]]
