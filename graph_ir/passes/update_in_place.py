"""Let loops update their state in place.

before   while(%i, %rows){.., body}   with body: %new = update_slice(%rows, %row, %i); return (.., %new)
after    the same, with update_in_place in the body
Requires: topological order. Ensures: the op is used only where a loop's body takes a part of the state, does nothing
else with it, and returns it as the same part: lowering gives both the same memory.

Otherwise a loop that collects one row per iteration would copy all rows in every iteration.
"""

from __future__ import annotations

from ..ir.graph import Graph, Op
from ..ops.control import While
from ..rewriting.decisions import record
from ..schedule.context import LowerContext


def update_in_place(graph: Graph, ctx: LowerContext) -> bool:
    """Replace the bodies of loops by copies that update in place where they can."""
    changed = False
    for op in graph.ops:
        if isinstance(op, While) and any(_found(op.body, i) for i in range(op.carried)):
            body = op.body.copy()
            for i in range(op.carried):
                update = _found(body, i)
                if update is not None:
                    _replace(body, update)
                    why = "the loop reads and writes the same memory"
                    record(graph, "rewritten", [update.name], [update.name], why)
            body.sort()
            op.set_attr("body", body)
            changed = True
    return changed


def _found(body: Graph, i: int) -> Op | None:
    """The op that updates part i of the state, if it is the only one to read it and its result is only returned."""
    result, state = body.outputs[i].inputs[0], body.inputs[i].outputs[0]
    op = result.producer_owner
    if op.op_name != "update_slice" or op.inputs[0] is not state:
        return None
    return op if len(state.uses) == 1 and len(result.uses) == 1 else None


def _replace(body: Graph, update: Op) -> None:
    made = body.make("update_in_place", update.inputs, update.attrs, update.name)
    update.outputs[0].replace_uses(made.outputs[0])
    body.remove([update])
