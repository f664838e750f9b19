"""The operands of a graph that name an expert for each row, and values for them as a router gives."""

from __future__ import annotations

import numpy as np

from ..ir.graph import Array, Graph, GraphTensor
from ..ops.matmul import GroupedMatmul
from ..ops.matmul_nbits import MatmulNBits


def expert_operands(graph: Graph) -> dict[GraphTensor, int]:
    """Return the tensors that name an expert of a matmul for each row, with the number of experts."""
    found: dict[GraphTensor, int] = {}
    for op in graph.ops:
        if isinstance(op, GroupedMatmul):
            found[op.inputs[2]] = int(op.inputs[1].details.plain_dims[0])
        elif isinstance(op, MatmulNBits) and (expert := op.part("expert")) is not None:
            found[expert] = op.experts
    return found


def sorted_experts(rows: int, experts: int) -> Array:
    """Return the expert of each row, s64 [rows]: all experts have as many rows, each of them neighbors."""
    return np.arange(rows, dtype=np.int64) * experts // max(rows, 1)
