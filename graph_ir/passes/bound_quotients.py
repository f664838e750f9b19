"""Leave out the bound of quotients that cannot reach it."""

from __future__ import annotations

from ..ir.graph import Graph
from ..ops.round_saturate import FAR, RoundSaturate
from ..rewriting.magnitude import largest
from ..schedule.context import LowerContext


def bound_quotients(graph: Graph, ctx: LowerContext) -> bool:
    """Mark what is rounded to bytes and is known to be near enough for the conversion to integers.

    %q = round_saturate(div_constant(mul(cast(%sums), %scale)))                %sums s32, 2^31 * scale below 2^30
    ->
    %q = round_saturate(div_constant(mul(cast(%sums), %scale)), near=true)

    Requires: scales folded. Ensures: the order of ops.
    """
    found = [
        op
        for op in graph.ops
        if isinstance(op, RoundSaturate) and not op.near and largest(op.inputs[0]) <= FAR
    ]
    for op in found:
        op.set_attr("near", True)
    return bool(found)
