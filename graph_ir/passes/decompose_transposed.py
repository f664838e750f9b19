"""Write transposed convolutions as convolutions before a lower precision takes those."""

from __future__ import annotations

from operator import attrgetter

from ..ir.graph import Graph, GraphTensor, Op
from ..ops.convolution_transpose import ConvolutionTranspose
from ..rewriting.rewrite import replace_ops
from ..rewriting.values import constant_values
from ..schedule.context import LowerContext

PRECISIONS = ("bf16", "f16", "int8")
"""Precisions that apply to convolutions."""


def decompose_transposed(graph: Graph, ctx: LowerContext) -> bool:
    """Replace transposed convolutions by a convolution for each phase, if a precision was requested that takes these.

    %y = convolution_transpose(%x, %w[8,4,2,2], strides=(2, 2))
    ->
    %c = convolution(%x, %v[16,8,1,1]); %y = reshape(transpose(reshape(%c)))

    Constant weights of a phase are constants.
    Requires: topological order. Ensures: topological order.
    """
    return ctx.options.precision in PRECISIONS and transposed_as_convolutions(graph)


def transposed_as_convolutions(graph: Graph) -> bool:
    """The same, whatever precision was requested."""
    made: list[Op] = []

    def parts(graph: Graph, op: Op) -> list[GraphTensor] | None:
        if not isinstance(op, ConvolutionTranspose):
            return None
        count = len(graph.ops)
        results = op.decompose(graph)
        made.extend(graph.ops[count:])
        return results

    def evaluated(graph: Graph, op: Op) -> list[GraphTensor] | None:
        known = constant_values(op.inputs) if op in made and op.inputs else None
        return None if known is None else [graph.make_constant(op.reference(known)[0])]

    changed = replace_ops(graph, parts, "decomposed", attrgetter("op_name"))
    return replace_ops(graph, evaluated) or changed
