"""Copies of subgraphs: inlined, and with other inputs and outputs."""

from __future__ import annotations

import numpy as np

from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.verifier import verify
from graphc.graph_ir.rewriting.subgraph import inline, needed_inputs, needed_ops, with_arguments
from support.control import made, subgraph

X = LogicalTensor(F32, (3,))


def three() -> Graph:
    """(a + b, -c, a)."""
    return subgraph(
        "three", [X] * 3, lambda g, a, b, c: [made(g, "add", a, b), made(g, "neg", c), a]
    )


def test_what_results_need() -> None:
    graph = three()
    assert [needed_inputs(graph, [i]) for i in range(3)] == [{0, 1}, {2}, {0}]
    assert needed_inputs(graph, []) == set() and needed_inputs(graph, [1, 2]) == {0, 2}
    assert [op.op_name for op in needed_ops(graph, [1])] == ["input", "neg"]


def test_inlining_copies_only_what_is_wanted() -> None:
    graph = Graph("outer")
    x, y = graph.make_input(X, "x"), graph.make_input(X, "y")
    results = inline(graph, three(), {0: x, 1: y}, [0, 2])
    assert results[1] is x and results[0].producer_owner.inputs == [x, y]
    assert [op.op_name for op in graph.ops] == ["input", "input", "add"]


def test_other_arguments() -> None:
    two = np.full(3, 2, np.float32)
    made_graph = with_arguments(three(), {0: 1, 1: two, 2: 0}, [0, 1])
    verify(made_graph)
    assert [op.name for op in made_graph.inputs] == ["v2", "v0"]
    c, a = np.array([1, 2, 3], np.float32), np.array([5, 6, 7], np.float32)
    total, negative = made_graph.evaluate([c, a])
    np.testing.assert_array_equal(total, a + 2)
    np.testing.assert_array_equal(negative, -c)


def test_one_input_for_two() -> None:
    double = with_arguments(three(), {0: 0, 1: 0}, [0])
    a = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(double.evaluate([a])[0], 2 * a)
    assert len(double.inputs) == 1


def test_the_original_is_left_alone() -> None:
    graph = three()
    before = graph.hash_contents()
    with_arguments(graph, {0: 0, 1: 1, 2: 2}, [2])
    assert graph.hash_contents() == before
