"""Rewrites byte matmuls that wrap as exact ones and a cast, for formats whose byte matmuls have s32 results."""

from __future__ import annotations

from ...base.dtypes import S32
from ..ir.graph import Graph, GraphTensor, Op
from ..ops.contraction_types import is_byte
from ..ops.convolution import Convolution
from ..ops.matmul import MatmulCore
from .rewrite import replace_ops


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
