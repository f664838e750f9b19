"""Write transposed convolutions as convolutions before a lower precision takes those."""

from __future__ import annotations

from ..ir.graph import Graph, Op
from ..ir.op_kinds import CompositeOp
from ..rewriting.decisions import record
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
    replaced: list[Op] = []
    for op in list(graph.ops):
        if op.op_name != "convolution_transpose":
            continue
        assert isinstance(op, CompositeOp)
        count = len(graph.ops)
        (result,) = op.decompose(graph)
        made = graph.ops[count:]
        record(graph, "decomposed", [op.name], [part.name for part in made], op.op_name)
        op.outputs[0].replace_uses(result)
        replaced.append(op)
        for part in made:
            known = constant_values(part.inputs) if part.inputs else None
            if known is not None:
                (value,) = part.reference(known)
                part.outputs[0].replace_uses(graph.make_constant(value))
                replaced.append(part)
    graph.remove(replaced[::-1])
    graph.sort()
    return bool(replaced)
