"""The matmuls and convolutions of an f32 model that a lower precision may take, and the loop that replaces them."""

from __future__ import annotations

from collections.abc import Callable

from ...base.dtypes import F32
from ..ir.graph import Graph, GraphTensor, Op
from .decisions import record
from .rewrite import replace_ops

FEWEST_MULTIPLY_ADDS = 4096
"""Smaller matmuls take no time worth saving."""

MIN_GAIN = 1.05
"""Least predicted time in f32 over that in a lower precision: closer predictions are noise."""

HALVES = ("bf16", "f16")
"""The precisions in which both operands are rounded to 16 bits."""

CONTRACTIONS = ("matmul_core", "convolution", "convolution_transpose", "grouped_matmul")

Lower = Callable[[Op], tuple[GraphTensor | None, str]]
"""(the tensor that replaces the op's result, or None; why)."""


def replace_contractions(graph: Graph, precision: str, lower: Lower) -> bool:
    """Replace the matmuls and convolutions that `lower` takes; each choice is recorded with its reason."""

    def lowered(graph: Graph, op: Op) -> list[GraphTensor] | None:
        if op.op_name not in CONTRACTIONS or any(x.details.dtype != F32 for x in op.inputs[:2]):
            return None
        found, why = None, "too small to gain"
        if op.op_name == "grouped_matmul":
            why = "rows of groups have no form in a lower precision"
        elif op.get_gflop() * 1e9 >= 2 * FEWEST_MULTIPLY_ADDS:
            found, why = lower(op)
        results = [op.name] if found is None else [found.producer_owner.name]
        verdict = "stays f32" if found is None else precision
        record(graph, "precision", [op.name], results, f"{verdict}: {why}")
        return None if found is None else [found]

    return replace_ops(graph, lowered)
