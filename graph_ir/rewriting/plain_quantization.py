"""Writes quantize and dequantize out as arithmetic, for formats that lack them."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.graph import Graph, Op
from ..ops.quantize import Dequantize, Quantize

QUANTIZATION = ("quantize", "dequantize")


def _never(op: Op) -> bool:
    return False


def quantization_written_out(graph: Graph, has: Callable[[Op], bool] = _never) -> Graph:
    """The graph, or a copy in which every quantize and dequantize that the format does not have is its parts."""
    if all(op.op_name not in QUANTIZATION or has(op) for op in graph.ops):
        return graph
    twin = graph.copy()
    replaced: list[Op] = []
    for op in list(twin.ops):
        if isinstance(op, Quantize | Dequantize) and not has(op):
            (result,) = op.arithmetic(twin)
            op.outputs[0].replace_uses(result)
            replaced.append(op)
    twin.remove(replaced)
    twin.sort()
    return twin
