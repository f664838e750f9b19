"""Have kernels of user code compute the ops that they accept."""

from __future__ import annotations

from ..ir.graph import Graph, GraphTensor, Op
from ..ops.fused import call_kernel
from ..rewriting.rewrite import replace_ops
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

    accepting: dict[Op, str] = {}

    def called(graph: Graph, op: Op) -> list[GraphTensor] | None:
        found = kernels_for(op, ctx)
        if not found:
            return None
        accepting[op] = found[0].name
        return [call_kernel(graph, op, found[0].name)]

    def why(op: Op) -> str:
        return f"the kernel '{accepting[op]}' of user code accepts it"

    return replace_ops(graph, called, "form", why)
