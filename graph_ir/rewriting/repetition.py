"""Chains of ops that consumers compute themselves, because what they read is smaller or in memory anyway."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.graph import Graph, GraphTensor, Op
from .groups import reduces_rows
from .widening import reads_widened

Chain = Callable[[Op], list[Op] | None]
"""(op) -> the ops to copy, in order, the given one last; None for an op that is not the end of such a chain."""


def repeat_for_users(graph: Graph, chain_of: Chain) -> bool:
    """Give each consumer of a chain its own copy, which then fuses with it; return whether there are copies.

    Matmuls, which read elements many times, share one; so do all where a loop over rows reads them together.
    """
    found = [(op.outputs[0], chain) for op in graph.ops if (chain := chain_of(op))]
    changed = False
    for tensor, chain in found:
        users = list(dict.fromkeys(user for _, user in tensor.uses))
        if any(map(reduces_rows, users)):
            continue
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
    """The result of a copy of a chain of ops."""
    made: dict[GraphTensor, GraphTensor] = {}
    for op in chain:
        inputs = [made.get(x, x) for x in op.inputs]
        copy = graph.make(op.op_name, inputs, op.attrs, op.name).outputs[0]
        copy.details = op.outputs[0].details
        made[op.outputs[0]] = copy
    return made[chain[-1].outputs[0]]
