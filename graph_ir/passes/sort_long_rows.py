"""Sort long rows by their digits instead of comparing all pairs of elements."""

from __future__ import annotations

from ...base.dims import bounds
from ..ir.graph import Graph, GraphTensor
from ..ops.compose import Composer
from ..ops.top_k import TopK
from ..rewriting.decisions import record
from ..schedule.context import LowerContext

LEAST = 64
"""Shorter rows are ordered by comparing all pairs in vectors, or by taking out the largest a few times."""


def sort_long_rows(graph: Graph, ctx: LowerContext) -> bool:
    """Make row sorts of top_k along long axes.

    %v, %i = top_k(%x, k=50, axis=1)                     f32[16,10000,4]
    ->
    %t = transpose(%x); %sv, %si = sort_rows(%t, k=50); %v = transpose(%sv); %i = transpose(%si)

    Axes of dynamic size count as long.
    Requires: plain formats. Ensures: topological order.
    """
    found = [op for op in graph.ops if isinstance(op, TopK) and _is_long(op)]
    for op in found:
        count = len(graph.ops)
        for old, new in zip(op.outputs, _sorted(graph, op), strict=True):
            old.replace_uses(new)
        made = [part.name for part in graph.ops[count:]]
        record(graph, "decomposed", [op.name], made, op.op_name)
    graph.remove(found)
    if found:
        graph.sort()
    return bool(found)


def _is_long(op: TopK) -> bool:
    size = op.inputs[0].details.plain_dims[op.axis]
    return bounds(size)[1] >= LEAST and not op.outputs[0].details.is_empty


def _sorted(graph: Graph, op: TopK) -> list[GraphTensor]:
    """The axis transposed to the end, sorted there, and back."""
    make, (x,), axis = Composer(graph, op), op.inputs, op.axis
    rank = x.details.rank
    perm = (*(i for i in range(rank) if i != axis), axis)
    rows = x if axis == rank - 1 else make("transpose", x, perm=perm)
    attrs = {"k": op.k, "largest": op.largest}
    outputs = graph.make("sort_rows", [rows], attrs, f"{op.name}.sort_rows").outputs
    if axis == rank - 1:
        return outputs
    back = tuple(perm.index(i) for i in range(rank))
    return [make("transpose", y, perm=back) for y in outputs]
