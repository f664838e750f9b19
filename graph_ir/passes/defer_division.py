"""Divide what a softmax weighs instead of its weights, where the number of weights is known at run time."""

from __future__ import annotations

import numpy as np

from ...base.dims import bounds, is_known
from ..ir.graph import Graph, GraphTensor
from ..ops.matmul import MatmulCore
from ..rewriting.attention import attention_group, softmax_scores
from ..rewriting.rewrite import rewrite
from ..schedule.context import LowerContext


def defer_division(graph: Graph, ctx: LowerContext) -> bool:
    """Move the final division of a softmax past the matmul that is its only consumer, if its rows have a dynamic size.

    %p = div(%e, reduce_sum(%e)); %y = matmul_core(%p, %v)
    ->
    %m = matmul_core(%e, %v); %y = div(%m, reduce_sum(%e))

    The template of attention does the same: fewer divisions, and the same bits at any size. This pass handles the cases
    that template does not run with dynamic sizes but with numbers for them: more keys than a thread's stack holds.
    Requires: softmaxes decomposed. Ensures: topological order.
    """
    if not ctx.options.enabled("fuse"):
        return False  # no attention is one kernel then
    return rewrite(graph, {"matmul_core": (_defer,)})


def _defer(graph: Graph, op: MatmulCore) -> GraphTensor | None:
    weights, values = op.inputs
    if attention_group(op):
        return None
    if is_known(op.sizes[2]) or op.transpose_a or op.weighs_rows or len(weights.uses) > 1:
        return None
    if softmax_scores(weights) is None or weights.producer_owner.op_name != "div":
        return None
    powers, total = weights.producer_owner.inputs
    if total.details.plain_dims != (*powers.details.plain_dims[:-1], 1):
        return None
    if not bounds(op.sizes[2])[0]:  # the sum of exponentials is 1 or more, but that of none is 0
        one = graph.make_constant(np.ones((), total.details.dtype.numpy), f"{op.name}.one")
        total = graph.make("max", [total, one], name=f"{op.name}.total").outputs[0]
    weighed = graph.make(op.op_name, [powers, values], op.attrs, f"{op.name}.weighed").outputs[0]
    return graph.make("div", [weighed, total], name=op.name).outputs[0]
