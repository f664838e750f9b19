"""Merge the scales of both operands of a matmul into one operand."""

from __future__ import annotations

import numpy as np

from ..ir.graph import Array, Graph, GraphTensor, Op
from ..rewriting.rewrite import rewrite
from ..rewriting.values import constant_value
from ..schedule.context import LowerContext

_LEAST = 2.0**-16
"""The smallest number: two numbers from here to 1 multiplied stay far from subnormals."""


def scale_queries(graph: Graph, ctx: LowerContext) -> bool:
    """Move a factor from the right operand of a matmul to the left one, if that is scaled too.

    %y = matmul_core(mul(%q, 0.35), mul(%k, 0.35))
    ->
    %y = matmul_core(mul(%q, 0.1225), %k)

    Exporters of attention scale queries and keys by the root of the scale. A cache of keys would be copied for that
    with every token; so it is read where it lies. Results are rounded once less.
    Requires: nothing. Ensures: topological order.
    """
    return rewrite(graph, {"matmul_core": (_scale_left,)})


def _scale_left(graph: Graph, op: Op) -> GraphTensor | None:
    left, right = map(_scaled, op.inputs)
    if left is None or right is None or len(op.inputs[1].uses) > 1:
        return None
    (queries, first), (keys, second) = left, right
    number = graph.make_constant(first * second, f"{op.name}.scale")
    scaled = graph.make("mul", [queries, number], name=f"{op.name}.scaled").outputs[0]
    return graph.make(op.op_name, [scaled, keys], op.attrs, f"{op.name}.matmul").outputs[0]


def _scaled(tensor: GraphTensor) -> tuple[GraphTensor, Array] | None:
    """A tensor of f32 or f64 that is another of its shape times a positive number up to 1: that and the number."""
    op = tensor.producer_owner
    if op.op_name != "mul" or tensor.details.dtype.bits < 32 or not tensor.details.dtype.is_float:
        return None
    for x, factor in (op.inputs, op.inputs[::-1]):
        number = constant_value(factor)
        if number is None or number.size != 1 or x.details.plain_dims != tensor.details.plain_dims:
            continue
        if constant_value(x) is None and bool(np.all((number >= _LEAST) & (number <= 1))):
            return x, number.reshape(())
    return None
