"""Replace composite ops by their parts."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from ..ir.graph import Graph, GraphTensor, Op
from ..ir.op_kinds import CompositeOp
from ..rewriting.rewrite import replace_ops
from ..schedule.context import LowerContext


def decompose(graph: Graph, ctx: LowerContext) -> bool:
    """Replace every composite op by the smaller ops that define it.

    %y = log_softmax(%x)
    ->
    %m = reduce_max(%x); %d = sub(%x, %m); %s = reduce_sum(exp(%d)); %y = sub(%d, log(%s))

    Requires: topological order.
    Ensures: topological order; no composite op.
    """
    return replace_ops(graph, _parts, "decomposed", attrgetter("op_name"), nested=True)


def _parts(graph: Graph, op: Op) -> Sequence[GraphTensor] | None:
    return op.decompose(graph) if isinstance(op, CompositeOp) else None
