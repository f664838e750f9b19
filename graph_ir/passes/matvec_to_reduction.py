"""Lower vector-matrix products to multiply and reduce, so that the matrix is not copied."""

from __future__ import annotations

import math

from ...base.dtypes import F32
from ..ir.graph import Graph, GraphTensor, Op
from ..ops.matmul import MOST_USES, MatmulCore
from ..rewriting.rewrite import rewrite
from ..schedule.context import LowerContext


def matvec_to_reduction(graph: Graph, ctx: LowerContext) -> bool:
    """Replace f32 products of one row with a transposed matrix that is not constant.

    %y = matmul_core(%x[1,k], %w[n,k], transpose_b=true)
    ->
    %p = mul(%x, %w); %s = reduce_sum(%p, axes={1}); %y = reshape(%s, shape={1,n})

    The product's template would first pack the matrix into panels, which takes several times as long as reductions
    that read it in place. Constant matrices are packed at compile time.
    Requires: topological order, transposes in `transpose_b`.
    Ensures: topological order.
    """
    return rewrite(graph, {"matmul_core": (_as_reduction,)})


def _as_reduction(graph: Graph, op: Op) -> GraphTensor | None:
    assert isinstance(op, MatmulCore)
    x, w = op.inputs
    result = op.outputs[0].details
    rows, _, terms = op.sizes
    if rows != 1 or op.transpose_a or not op.transpose_b or not terms or result.dtype != F32:
        return None
    if w.details.dtype != F32 or w.producer_owner.op_name == "constant":
        return None
    if math.prod(result.plain_dims) * terms > MOST_USES * w.details.elements:
        return None
    products = graph.make("mul", [x, w], name=f"{op.name}.mul").outputs[0]
    last = {"axes": (len(products.details.plain_dims) - 1,), "keep_dims": False}
    sums = graph.make("reduce_sum", [products], last, f"{op.name}.reduce_sum").outputs[0]
    return graph.make(
        "reshape", [sums], {"shape": result.plain_dims}, f"{op.name}.reshape"
    ).outputs[0]
