"""The accuracy cost of a lower precision: the distance of a model's results from f32, and the ops that cause it."""

from __future__ import annotations

from collections.abc import Mapping

from ..base.records import dataclass
from ..graph_ir.inspect.compare import relative_rms
from ..graph_ir.ir.graph import Array, Graph, GraphTensor, Op
from ..graph_ir.passes.decompose_transposed import transposed_as_convolutions
from ..graph_ir.rewriting.decisions import log_of
from .submodel import cone


@dataclass(frozen=True)
class PrecisionError:
    """Root mean square errors relative to the root mean square of the f32 values.

    `outputs`: of each result of the model. `ops`: what each lowered op adds where its inputs are exact, largest first,
    without those inside loops and branches. `kept`: ops that stay f32, and why.
    """

    outputs: Mapping[str, float]
    ops: Mapping[str, float]
    kept: Mapping[str, str]


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
        if op.is_output:
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
