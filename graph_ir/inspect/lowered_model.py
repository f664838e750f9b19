"""A model in a lower precision, expressed in f32 ops: the reference of a compilation in that precision."""

from __future__ import annotations

from dataclasses import replace

from ..ir.graph import Graph, replace_subgraphs
from ..passes.decompose_transposed import decompose_transposed
from ..passes.quantize_matmuls import quantize_matmuls
from ..passes.quantize_weights import quantize_weights
from ..passes.round_operands import round_operands
from ..rewriting.decisions import start_log
from ..schedule.context import LowerContext

LOWERINGS = (decompose_transposed, round_operands, quantize_matmuls, quantize_weights)


def lowered_model(source: Graph, ctx: LowerContext) -> tuple[Graph, LowerContext]:
    """Return a copy of a model in the precision of the options, and a context whose precision is f32.

    The copy expresses in f32 ops what a compilation in that precision computes.
    """
    graph = source.copy()
    start_log(graph)
    _lower(graph, ctx)
    return graph, replace(ctx, options=replace(ctx.options, precision="f32"))


def _lower(graph: Graph, ctx: LowerContext) -> None:
    for op in graph.ops:
        if op.kind == "control":
            replace_subgraphs(op, lambda inner: _lowered_subgraph(inner, ctx))
    for lowering in LOWERINGS:
        lowering(graph, ctx)


def _lowered_subgraph(inner: Graph, ctx: LowerContext) -> Graph:
    graph = inner.copy()
    start_log(graph)
    _lower(graph, ctx)
    return graph
