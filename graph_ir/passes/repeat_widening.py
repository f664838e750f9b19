"""Widen bytes where they are read instead of storing them wide."""

from __future__ import annotations

from ..ir.graph import Graph
from ..rewriting.repetition import repeat_for_users
from ..rewriting.widening import widening_of
from ..schedule.context import LowerContext


def repeat_widening(graph: Graph, ctx: LowerContext) -> bool:
    """Give each consumer of a dequantized tensor its own dequantization, which then fuses with it.

    %d = mul(sub(cast(%q), 3), 0.5); %a = relu(%d); %b = add(%d, %x)
    ->
    %a = relu(mul(sub(cast(%q), 3), 0.5)); %b = add(mul(sub(cast(%q), 3), 0.5), %x)

    The bytes are in memory, not the floats.
    Requires: composites decomposed, layouts chosen. Ensures: topological order.
    """
    return repeat_for_users(graph, widening_of)
