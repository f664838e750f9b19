"""What a lower precision costs: how far the results of a model lie from f32, and which ops the error comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..base.records import dataclass
from ..graph_ir.inspect.compare import relative_rms
from ..graph_ir.ir.graph import Array, Graph, GraphTensor, Op, replace_subgraphs
from ..graph_ir.passes.decompose_transposed import (
    decompose_transposed,
    transposed_as_convolutions,
)
from ..graph_ir.passes.quantize_products import quantize_products
from ..graph_ir.passes.quantize_weights import quantize_weights
from ..graph_ir.passes.round_operands import round_operands
from ..graph_ir.rewriting.decisions import log_of, start_log
from ..graph_ir.schedule.context import LowerContext
from .submodel import cone

LOWERINGS = (decompose_transposed, round_operands, quantize_products, quantize_weights)


@dataclass(frozen=True)
class PrecisionError:
    """Root mean square errors relative to the root mean square of the f32 values.

    `outputs`: of each result of the model. `ops`: what each lowered op adds where its inputs are exact, largest first,
    without those inside loops and branches. `kept`: ops that stay f32, and why.
    """

    outputs: Mapping[str, float]
    ops: Mapping[str, float]
    kept: Mapping[str, str]


def lowered_model(source: Graph, ctx: LowerContext) -> tuple[Graph, LowerContext]:
    """A copy of a model with its products in the precision that the options ask for, and a context that asks for f32.

    The copy means, in f32 ops, what a compilation in that precision computes.
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


def precision_error(source: Graph, lowered: Graph, arrays: Mapping[str, Array]) -> PrecisionError:
    """Compare the references of a model with those of its lowered copy."""
    source, inputs = source.copy(), [arrays[op.name] for op in source.inputs]
    if not any(op.op_name == "convolution_transpose" for op in lowered.ops):
        transposed_as_convolutions(source)
    decisions = [d for d in log_of(lowered).decisions if d.kind == "precision"]
    became = {d.subjects[0]: d.results[0] for d in decisions if d.subjects != d.results}
    results = {op.name: op.outputs[0] for op in lowered.ops if op.name in became.values()}
    read = {x.name for op in source.ops if op.name in became for x in op.inputs}
    outputs = dict(zip((op.name for op in source.outputs), lowered.evaluate(inputs), strict=True))
    values: dict[str, Array] = {}
    own: dict[str, float] = {}
    errors: dict[str, float] = {}
    for op, exact in source.walk_reference(inputs):
        if op.op_name == "output":
            errors[op.name] = _distance(outputs[op.name], exact)
            continue
        if op.name in became:
            own[op.name] = _distance(_alone(op, lowered, results[became[op.name]], values), exact)
        if op.outputs[-1].name in read:
            values[op.outputs[-1].name] = exact
    ranked = dict(sorted(own.items(), key=lambda item: -item[1]))
    kept = {d.subjects[0]: d.text for d in decisions if d.subjects == d.results}
    return PrecisionError(errors, ranked, kept)


def _alone(op: Op, lowered: Graph, result: GraphTensor, values: Mapping[str, Array]) -> Array:
    """A lowered op of exact inputs."""
    twins = {y.name: y for other in lowered.ops for y in other.outputs}
    known = [twins[x.name] for x in op.inputs if x.name in values and x.name in twins]
    part = cone(lowered, result, known)
    return part.evaluate([values[source.name] for source in part.inputs])[0]


def _distance(found: Array, exact: Array) -> float:
    """The root mean square of the difference, relative to that of the exact values."""
    return relative_rms([found], [exact])
