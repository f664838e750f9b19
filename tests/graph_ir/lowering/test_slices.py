"""Contiguous slices: copies that share a kernel, wherever they begin."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.runtime.executor import CompiledModel

PIECES = [
    ((0, 0, 0), (1, 3, 4)),
    ((1, 0, 0), (1, 3, 4)),
    ((1, 1, 0), (1, 2, 4)),
    ((0, 1, 0), (1, 2, 4)),
    ((1, 2, 1), (1, 1, 3)),
    ((0, 0, 0), (2, 3, 4)),
]
OTHERS = [((0, 0, 0), (2, 2, 4)), ((0, 0, 1), (1, 2, 2))]


def sliced(pieces: list[tuple[tuple[int, ...], tuple[int, ...]]], source: str) -> Graph:
    """Slices of an input, of a matmul, which lies in the arena, or of a reshape of the input."""
    graph = Graph("pieces")
    dims = (6, 4) if source == "reshape" else (2, 3, 4)
    x = graph.make_input(LogicalTensor(F32, dims), "x")
    if source == "matmul":
        x = graph.make(
            "matmul_core", [x, graph.make_constant(np.eye(4, dtype=np.float32))]
        ).outputs[0]
    if source == "reshape":
        x = graph.make("reshape", [x], {"shape": (2, 3, 4)}).outputs[0]
    for starts, sizes in pieces:
        graph.make_output(graph.make("slice", [x], {"starts": starts, "sizes": sizes}).outputs[0])
    return graph


@pytest.mark.parametrize("source", ["input", "matmul", "reshape"])
def test_results(source: str) -> None:
    graph = sliced([*PIECES, *OTHERS], source)
    x = np.arange(24, dtype=np.float32).reshape(graph.inputs[0].outputs[0].details.plain_dims)
    model = CompiledModel(compile_stages(graph).artifact)
    for got, wanted in zip(model(x), graph.evaluate([x]), strict=True):
        assert np.array_equal(got, wanted)


def test_pieces_of_one_size_share_a_kernel() -> None:
    graph = Graph("split")
    x = graph.make_input(LogicalTensor(F32, (200, 3)), "x")
    for row in range(200):
        graph.make_output(
            graph.make("slice", [x], {"starts": (row, 0), "sizes": (1, 3)}).outputs[0]
        )
    lowered = compile_stages(graph).lowered
    assert len(lowered.calls) == 200 and len(lowered.module.functions) == 2
