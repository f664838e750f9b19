"""Lower matrix-vector multiplications to multiply and reduce, so that the matrix is not copied."""

from __future__ import annotations

import math

from ...base.dims import bounds
from ...base.dtypes import F32
from ..ir.graph import Graph, GraphTensor
from ..ops.matmul import MAX_USES, MatmulCore
from ..rewriting.groups import storage_root
from ..rewriting.rewrite import rewrite
from ..schedule.context import LowerContext


def matvec_to_reduction(graph: Graph, ctx: LowerContext) -> bool:
    """Replace f32 matmuls of one row or one column with a matrix that is reduced along its rows.

    %y = matmul_core(%x[1,k], %w[n,k], transpose_b=true)
    ->
    %p = mul(%x, %w); %s = reduce_sum(%p, axes={1}); %y = reshape(%s, shape={1,n})

    and matmul_core(%w[m,k], %x[k,1]) likewise where w is gathered. The matmul template would first pack the matrix
    into panels, or have it gathered, which takes several times as long as reductions that read it where it lies.
    Constant matrices and vectors stay: they are packed at compile time.
    Requires: topological order, transposes in `transpose_b`.
    Ensures: topological order.
    """
    return rewrite(graph, {"matmul_core": (_as_reduction,)})


def _as_reduction(graph: Graph, op: MatmulCore) -> GraphTensor | None:
    result, terms = op.outputs[0].details, op.sizes[2]
    found = _matrix_and_vector(op)
    if found is None or any(x.details.dtype != F32 for x in (*op.inputs, *op.outputs)):
        return None
    matrix, vector = found
    read = math.prod(result.plain_dims) * terms
    if bounds(MAX_USES * matrix.details.elements - read)[0] < 0:
        return None
    dims = (*vector.details.plain_dims[:-2], 1, terms)
    if vector.details.plain_dims != dims:  # a column
        vector = graph.make("reshape", [vector], {"shape": dims}, f"{op.name}.row").outputs[0]
    multiplied = graph.make("mul", [vector, matrix], name=f"{op.name}.mul").outputs[0]
    last = {"axes": (len(multiplied.details.plain_dims) - 1,), "keep_dims": False}
    sums = graph.make("reduce_sum", [multiplied], last, f"{op.name}.reduce_sum").outputs[0]
    return graph.make(
        "reshape", [sums], {"shape": result.plain_dims}, f"{op.name}.reshape"
    ).outputs[0]


def _matrix_and_vector(op: MatmulCore) -> tuple[GraphTensor, GraphTensor] | None:
    """The matrix [..., k] whose rows are summed, and the vector."""
    (a, b), (rows, columns, terms) = op.inputs, op.sizes
    if op.transpose_a or terms == 0 or b.is_constant:
        return None
    if rows == 1:
        return (b, a) if op.transpose_b else None
    is_gathered = storage_root(a).producer_owner.op_name == "gather"
    return (a, b) if columns == 1 and is_gathered else None
