from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor, known
from graphc.graph_ir.rewriting.known_sizes import with_sizes
from graphc.graph_ir.text.printer import print_graph
from graphc.targets.isa import Target


def layer(rows: object) -> Graph:
    graph = Graph("layer")
    x = graph.make_input(LogicalTensor(F32, (rows, 6)), "x")
    w = graph.make_constant(np.ones((6, 40), np.float32), "w")
    y = graph.make("relu", [graph.make("matmul_core", [x, w], name="fc").outputs[0]], name="act")
    flat = graph.make("reshape", y.outputs, {"shape": (rows * 40,)}, "flat")  # type: ignore[operator]
    graph.make_output(flat.outputs[0], "y")
    return graph


@pytest.mark.exhaustive
@pytest.mark.parametrize("optimized", [False, True])
def test_a_graph_with_numbers_for_its_sizes(optimized: bool) -> None:
    """Also as the passes leave it: with groups of ops, layouts and schedules."""
    graph = layer(size(Symbol("N", 1, 9)))
    if optimized:
        graph = compile_stages(graph, Target("avx2")).graph
    found = with_sizes(graph, {"N": 5})
    assert "[N" not in print_graph(found) and "[N" in print_graph(graph)
    assert [op.name for op in found.ops] == [op.name for op in graph.ops]
    assert [op.schedule for op in found.ops] == [op.schedule for op in graph.ops]
    x = np.arange(30, dtype=np.float32).reshape(5, 6) - 11
    assert np.array_equal(found.evaluate([x])[0], layer(5).evaluate([x])[0])


def test_what_is_known_stays_the_same() -> None:
    graph = layer(5)
    assert with_sizes(graph, {}) is graph
    assert known((1, [2], "N"), {"N": 3}) == (1, [2], "N")
    n = size(Symbol("N"))
    assert known((n, [n * 2 + 1]), {"N": 3}) == (3, [7])
    with pytest.raises(KeyError):
        with_sizes(layer(n), {"M": 1})
