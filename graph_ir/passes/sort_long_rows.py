"""Sort long rows by their digits instead of comparing all pairs of elements."""

from __future__ import annotations

from operator import attrgetter

from ...base.dims import bounds
from ..ir.graph import Graph, GraphTensor, Op
from ..ops.top_k import TopK
from ..rewriting.rewrite import replace_ops
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
    return replace_ops(graph, _sorted, "decomposed", attrgetter("op_name"))


def _is_long(op: TopK) -> bool:
    size = op.inputs[0].details.plain_dims[op.axis]
    return bounds(size)[1] >= LEAST and not op.outputs[0].details.is_empty


def _sorted(graph: Graph, op: Op) -> list[GraphTensor] | None:
    """The axis transposed to the end, sorted there, and back."""
    if not isinstance(op, TopK) or not _is_long(op):
        return None
    attrs = {"k": op.k, "largest": op.largest}
    name = f"{op.name}.sort_rows"
    return op.by_rows(graph, lambda rows: graph.make("sort_rows", [rows], attrs, name).outputs)
