"""Which products and convolutions of an f32 model a lower precision may take, and the loop that replaces them."""

from __future__ import annotations

from collections.abc import Callable

from ...base.dtypes import F32
from ..ir.graph import Graph, GraphTensor, Op
from .decisions import record

FEWEST_MULTIPLY_ADDS = 4096
"""Smaller products take no time worth saving."""

Lower = Callable[[Op], tuple[GraphTensor | None, str]]
"""(the tensor that replaces the op's result, or None; why)."""


def replace_products(graph: Graph, precision: str, lower: Lower) -> bool:
    """Replace the products and convolutions that `lower` takes; each choice is recorded with its reason."""
    replaced: list[Op] = []
    for op in list(graph.ops):
        if op.op_name not in ("matmul_core", "convolution"):
            continue
        if any(x.details.dtype != F32 for x in op.inputs):
            continue
        found, why = None, "too small to gain"
        if op.get_gflop() * 1e9 >= 2 * FEWEST_MULTIPLY_ADDS:
            found, why = lower(op)
        results = [op.name] if found is None else [found.producer_owner.name]
        verdict = "stays f32" if found is None else precision
        record(graph, "precision", [op.name], results, f"{verdict}: {why}")
        if found is not None:
            op.outputs[0].replace_uses(found)
            replaced.append(op)
    graph.remove(replaced)
    graph.sort()
    return bool(replaced)
