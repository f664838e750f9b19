"""Replace divisions by a constant by multiplications."""

from __future__ import annotations

import math

from ...base.dtypes import F32
from ..ir.graph import Graph, GraphTensor, Op
from ..rewriting.rewrite import rewrite
from ..rewriting.values import uniform_value
from ..schedule.context import LowerContext

MOST = 2**24
"""Integers below it are exact as f32, as attributes are printed."""

LARGEST = 2.0**100
"""Divisors between its inverse and it have a reciprocal both of whose parts are normal numbers."""


def divide_by_constants(graph: Graph, ctx: LowerContext) -> bool:
    """Replace divisions by a uniform constant: of f32, where the ISA has a fused multiply-add, and of integers.

    %y = div(%x, 11.3137)
    ->
    %y = div_constant(%x, divisor=11.3137)

    Powers of two are left to `simplify_algebra`, but integers divided by them are shifted. About one quotient of
    floats in 2**22 differs from the true division in the last place (see the op).
    Requires: topological order.
    Ensures: topological order.
    """
    rules = (_float_by_constant, _integer_by_constant)
    return rewrite(graph, {"div": rules if ctx.target.table.has_fma else rules[1:]})


def _float_by_constant(graph: Graph, op: Op) -> GraphTensor | None:
    x, divisor = op.inputs[0], uniform_value(op.inputs[1])
    result = op.outputs[0].details
    if divisor is None or result.dtype != F32 or x.details.plain_dims != result.plain_dims:
        return None
    value = float(divisor)
    if not 1 / LARGEST <= abs(value) <= LARGEST or abs(math.frexp(value)[0]) == 0.5:
        return None
    name = f"{op.name}.by_constant"
    return graph.make("div_constant", [x], {"divisor": value}, name=name).outputs[0]


def _integer_by_constant(graph: Graph, op: Op) -> GraphTensor | None:
    x, divisor = op.inputs[0], uniform_value(op.inputs[1])
    result = op.outputs[0].details
    if divisor is None or result.dtype.is_float or x.details.plain_dims != result.plain_dims:
        return None
    if not 0 < int(divisor) < MOST:
        return None
    attrs = {"divisor": float(divisor), "rounding": op.attr("rounding")}
    name = f"{op.name}.by_constant"
    return graph.make("div_constant", [x], attrs, name=name).outputs[0]
