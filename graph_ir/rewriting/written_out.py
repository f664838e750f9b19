"""Writes ops out as smaller ones, for formats that lack them: quantize and dequantize, and scans of extremes."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.graph import Graph, GraphTensor, Op
from ..ops.cumulative import DoubledScan
from ..ops.quantize import Dequantize, Quantize
from .rewrite import replace_ops

QUANTIZATION = ("quantize", "dequantize")


def _never(op: Op) -> bool:
    return False


def written_out(graph: Graph, has: Callable[[Op], bool] = _never) -> Graph:
    """The graph, or a copy in which the parts of such ops replace them.

    `has`: whether the format has a given quantize or dequantize. A scan along a dynamic axis stays.
    """
    if not any(_is_replaced(op, has) for op in graph.ops):
        return graph

    def arithmetic(graph: Graph, op: Op) -> list[GraphTensor] | None:
        if not _is_replaced(op, has):
            return None
        assert isinstance(op, Quantize | Dequantize | DoubledScan)
        return op.arithmetic(graph)

    twin = graph.copy()
    replace_ops(twin, arithmetic)
    return twin


def _is_replaced(op: Op, has: Callable[[Op], bool]) -> bool:
    if isinstance(op, DoubledScan):
        return op.is_static
    return isinstance(op, Quantize | Dequantize) and not has(op)
