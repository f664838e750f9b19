"""Subtract a mean where the difference is read instead of storing it."""

from __future__ import annotations

from ..ir.graph import Graph, Op
from ..rewriting.groups import keeps_axes, reduces_rows
from ..rewriting.repetition import repeat_for_users
from ..schedule.context import LowerContext


def repeat_centering(graph: Graph, ctx: LowerContext) -> bool:
    """Give each consumer of a difference to a reduction its own subtraction, which then fuses with it.

    %d = sub(%x, reduce_mean(%x)); %v = reduce_mean(square(%d)); %y = mul(%d, rsqrt(%v))
    ->
    %v = reduce_mean(square(sub(%x, reduce_mean(%x)))); %y = mul(sub(%x, reduce_mean(%x)), rsqrt(%v))

    The tensor and its mean are in memory, not the difference. A loop over rows has all of them at hand.
    Requires: composites decomposed, layouts chosen. Ensures: topological order.
    """
    return repeat_for_users(graph, _centering_of)


def _centering_of(op: Op) -> list[Op] | None:
    if op.op_name != "sub":
        return None
    x, mean = op.inputs[0], op.inputs[1].producer_owner
    mean = mean.inputs[0].producer_owner if mean.op_name == "reorder" else mean
    if x.details.plain_dims != op.outputs[0].details.plain_dims or reduces_rows(mean):
        return None
    return [op] if keeps_axes(mean) else None
