"""Graphs for formats that lack something: ops as smaller ones (quantize and dequantize, scans of extremes, matmuls of
bytes that wrap), and names that every format can represent."""

from __future__ import annotations

from collections.abc import Callable

from ...base.dtypes import S32
from ..ir.graph import Graph, GraphTensor, Op
from ..ops.contraction_types import is_byte
from ..ops.convolution import Convolution
from ..ops.cumulative import DoubledScan
from ..ops.matmul import MatmulCore
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


def with_names(graph: Graph, written: Callable[[str], str]) -> Graph:
    """The graph, or a copy in which every op is named `written(name)`, with a numeric suffix if needed."""
    names = [written(op.name) for op in graph.ops]
    if names == [op.name for op in graph.ops]:
        return graph
    twin = graph.copy()
    for op, name in zip(twin.ops, names, strict=True):
        if op.name != name:
            twin.rename(op, name)
    return twin


def _wraps(op: Op) -> bool:
    """Return whether the accumulators of a byte matmul are kept as bytes."""
    is_matmul = isinstance(op, Convolution | MatmulCore)
    return is_matmul and is_byte(op.outputs[0].details.dtype)


def with_exact_matmuls(graph: Graph) -> Graph:
    """Return the graph, or a copy whose byte matmuls are in s32 and cast: both wrap, so that values are the same."""
    if not any(map(_wraps, graph.ops)):
        return graph
    twin = graph.copy()
    replace_ops(twin, _exact)
    return twin


def _exact(graph: Graph, op: Op) -> list[GraphTensor] | None:
    if not _wraps(op):
        return None
    exact = graph.make(op.op_name, op.inputs, {**op.attrs, "dtype": S32}, op.name)
    dtype = op.outputs[0].details.dtype
    return graph.make("cast", exact.outputs, {"dtype": dtype}, f"{op.name}.cast").outputs
