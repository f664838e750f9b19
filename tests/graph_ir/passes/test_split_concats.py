"""Concats of very many parts in levels: the same bytes, and few kernels."""

import numpy as np
import pytest

from graphc.base.dtypes import U8
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.lowering.lower_graph import lower_graph
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.passes.split_concats import MAX_PARTS, split_concats
from support.compiled import run_native
from support.lowered import context


def joined(parts: int) -> Graph:
    graph = Graph("joined")
    xs = [graph.make_input(LogicalTensor(U8, (2, i % 3))) for i in range(parts)]
    graph.make_output(graph.make("concat", xs, {"axis": 1}).outputs[0])
    return graph


def arrays(graph: Graph) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [
        rng.integers(0, 256, op.outputs[0].details.plain_dims).astype(np.uint8)
        for op in graph.inputs
    ]


@pytest.mark.exhaustive
@pytest.mark.parametrize("parts", [1, MAX_PARTS, MAX_PARTS + 1, MAX_PARTS**2 + 1])
def test_no_concat_has_more_parts(parts: int) -> None:
    graph = joined(parts)
    given = arrays(graph)
    (expected,) = graph.evaluate(given)
    assert split_concats(graph, context()) == (parts > MAX_PARTS)
    np.testing.assert_array_equal(graph.evaluate(given)[0], expected)
    assert all(len(op.inputs) <= MAX_PARTS for op in graph.ops if op.op_name == "concat")


def test_natively() -> None:
    graph = joined(3 * MAX_PARTS + 2)
    given = arrays(graph)
    np.testing.assert_array_equal(run_native(graph, given)[0], np.concatenate(given, 1))


def test_equal_levels_share_a_kernel() -> None:
    graph = Graph("equal")
    xs = [graph.make_input(LogicalTensor(U8, (2, 3))) for _ in range(4 * MAX_PARTS)]
    graph.make_output(graph.make("concat", xs, {"axis": 1}).outputs[0])
    pipeline.run(graph, context())
    # One for each level, and the caller.
    assert len(lower_graph(graph, context()).module.functions) == 3
