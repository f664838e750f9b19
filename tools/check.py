"""Warnings about slow or fragile ops of a model, from its graph alone: nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..base.dtypes import F16, F64
from ..base.records import dataclass
from ..driver.memory_check import check_memory
from ..graph_ir.ir.graph import Graph, Op, subgraphs_of
from ..targets.isa import Target

_MANY_COMPARISONS = 1 << 20


@dataclass(frozen=True)
class Remark:
    """An op of the model, its type and what is to be known of it; `share` is its part of the model's work."""

    op: str
    type: str
    text: str
    share: float


def _sorting(op: Op, target: Target) -> str:
    rows = op.inputs[0].details
    size = rows.plain_dims[op.attr("axis")]
    if op.attr("k") <= 16 or rows.elements * size < _MANY_COMPARISONS:
        return ""
    return f"orders {size} elements by comparing each with all others; a k of 16 or less is quicker"


def _scattering(op: Op, target: Target) -> str:
    return "its updates are made one after the other, on one thread"


def _looping(op: Op, target: Target) -> str:
    return "its rounds follow each other: only what is inside a round is parallel"


def _large_matmuls(op: Op, target: Target) -> str:
    dtype = op.inputs[0].details.dtype
    if dtype == F64:
        return "computed in f64, at half the speed of f32 or less"
    if dtype == F16 and all(row.copied_a != F16 for row in target.table.microkernels):
        return "f16 is converted to f32 on this CPU; bf16 or f32 may be quicker"
    return ""


_RULES: dict[str, Callable[[Op, Target], str]] = {
    "top_k": _sorting,
    **dict.fromkeys(("scatter", "scatter_elements"), _scattering),
    "while": _looping,
    **dict.fromkeys(("matmul_core", "convolution", "convolution_transpose"), _large_matmuls),
}
"""Functions that return what is slow about an op, "" if nothing is, by op name."""


def check_model(graph: Graph, target: Target) -> list[Remark]:
    """Remarks on a graph as read, those on most of the work first. Raise UserError if it needs too much memory."""
    check_memory(graph)
    total = graph.get_gflop() or 1.0
    found = [
        Remark(op.name, op.op_name, text, op.get_gflop() / total)
        for op in _every_op(graph)
        if op.op_name in _RULES and (text := _RULES[op.op_name](op, target))
    ]
    return sorted(found, key=lambda remark: -remark.share)


def _every_op(graph: Graph) -> Iterator[Op]:
    for op in graph.ops:
        yield op
        for inner in subgraphs_of(op) if op.kind == "control" else ():
            yield from _every_op(inner)
