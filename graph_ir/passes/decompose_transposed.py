"""Write transposed convolutions as convolutions before a lower precision takes those."""

from __future__ import annotations

from operator import attrgetter

from ..ir.graph import Graph, GraphTensor, Op
from ..ops.convolution_transpose import ConvolutionTranspose
from ..rewriting.rewrite import replace_ops
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
    return replace_ops(graph, _phases, "decomposed", attrgetter("op_name"))


def _phases(graph: Graph, op: Op) -> list[GraphTensor] | None:
    return op.decompose(graph) if isinstance(op, ConvolutionTranspose) else None
