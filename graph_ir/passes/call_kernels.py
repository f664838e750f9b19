"""Have kernels of user code compute the ops that they accept."""

from __future__ import annotations

from ..ir.graph import Graph
from ..ops.kernel_call import call_kernel
from ..rewriting.decisions import record
from ..schedule.context import LowerContext
from ..schedule.user_code import KERNELS, kernels_for


def call_kernels(graph: Graph, ctx: LowerContext) -> bool:
    """Replace every op that a kernel of user code accepts by a call of it: of several, of the one added last.

    %y = softmax(%x)
    ->
    %y.quick = kernel_call(%x), kernel = "quick", the softmax alone in its graph

    Requires: topological order; plain layouts.
    Ensures: topological order; no op that a kernel accepts is left.
    """
    if not KERNELS and not ctx.lowerings:
        return False
    replaced = []
    for op in list(graph.ops):
        found = kernels_for(op, ctx)
        if found:
            result = call_kernel(graph, op, found[0].name)
            op.outputs[0].replace_uses(result)
            why = f"the kernel '{found[0].name}' of user code accepts it"
            record(graph, "form", [op.name], [result.producer_owner.name], why)
            replaced.append(op)
    graph.remove(replaced)
    if replaced:
        graph.sort()
    return bool(replaced)
