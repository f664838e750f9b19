"""Dequantize at compile time the constants that no integer matmul reads."""

from __future__ import annotations

from ..ir.graph import Graph, GraphTensor, Op
from ..rewriting.rewrite import rewrite
from ..rewriting.values import constant_values
from ..schedule.context import LowerContext


def dequantize_constants(graph: Graph, ctx: LowerContext) -> bool:
    """Replace dequantized constants by their values.

    %w = dequantize(%constant, %scale); %y = matmul_core(%x, %w)
    ->
    %y = matmul_core(%x, %w.folded)

    Constants of any size: dequantizing weights in every run would cost more than a matmul of a few rows.
    Requires: integer matmuls have been made. Ensures: no dequantize reads constants only.
    """
    return rewrite(graph, {"dequantize": (_fold,)})


def _fold(graph: Graph, op: Op) -> GraphTensor | None:
    known = constant_values(op.inputs)
    if known is None:
        return None
    return graph.make_constant(op.reference(known)[0], f"{op.name}.folded")
