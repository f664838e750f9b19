"""Multiply a batch of matrices by one shared matrix in a single matmul with the rows of all of them."""

from __future__ import annotations

import math
from functools import partial

from ..ir.graph import Graph, GraphTensor, Op
from ..ops.compose import Composer
from ..ops.matmul import MatmulCore
from ..rewriting.attention import attention_group
from ..rewriting.operand_rows import takes_rows
from ..rewriting.rewrite import rewrite
from ..schedule.context import LowerContext


def merge_batches(graph: Graph, ctx: LowerContext) -> bool:
    """Merge the batch of a matmul whose right-hand side is shared into its rows.

    %y = matmul_core(%x[197,1,768], %w[768,2304])
    ->
    %r = reshape(%x, shape={197,768}); %p = matmul_core(%r, %w); %y = reshape(%p, shape={197,1,2304})

    The template runs the matrices of a batch one at a time, each with separate register tiles: 197 matrices of one
    row use one row of a tile that has eight. Matmuls that are parts of attention keep their batches, which its
    template needs.

    Requires: topological order, plain layouts. Ensures: topological order.
    """
    attention = {member for op in graph.ops for member in attention_group(op) or ()}
    return rewrite(graph, {"matmul_core": (partial(_as_rows, frozenset(attention)),)})


def _as_rows(attention: frozenset[Op], graph: Graph, op: MatmulCore) -> GraphTensor | None:
    a, b = (x.details.plain_dims for x in op.inputs)
    batch = a[:-2]
    if len(batch) + len(b) == 2 or op.transpose_a or op in attention:
        return None
    if not op.is_tuned_with(math.prod(a[:-1])) or math.prod(b[:-2]) != 1 or len(b) - 2 > len(batch):
        return None
    if math.prod(batch) == 1 and len(b) > 2 and takes_rows(op.inputs[1].producer_owner):
        return None  # one matrix by rows of a cache, which a reshape would copy
    make = Composer(graph, op)
    left = make("reshape", op.inputs[0], shape=(math.prod(a[:-1]), a[-1]))
    right = op.inputs[1] if len(b) == 2 else make("reshape", op.inputs[1], shape=b[-2:])
    merged = graph.remake(op, [left, right]).outputs[0]
    return make("reshape", merged, shape=op.outputs[0].details.plain_dims)
