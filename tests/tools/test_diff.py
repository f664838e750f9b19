"""Comparisons of equal graphs, and reports of differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings

from graphc.base.dtypes import F32, S32
from graphc.frontend import load
from graphc.frontend.onnx import to_onnx
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.tools.diff import diff
from support.graphs import graph_of
from support.networks import NETWORKS, attention
from support.random_graphs import graphs

LAYER = """
    %x = Node[type=input] () -> f32[2,3]
    %w = Node[type=constant] (attrs = {value: [1.0 2.0 3.0]}) -> f32[3]
    %y = Node[type=mul] (inputs = (a=%x, b=%w)) -> f32[2,3]
    %z = Node[type=softmax] (inputs = (x=%y), attrs = {axis: -1}) -> f32[2,3]
    return (z=%z)
    """


def changed(old: str, new: str) -> Graph:
    assert old in LAYER
    return graph_of(LAYER.replace(old, new))


@given(graphs())
@settings(max_examples=30)
def test_a_graph_is_the_same_as_itself(graph: Graph) -> None:
    assert diff(graph, graph.copy()).same


@pytest.mark.parametrize("network", NETWORKS)
def test_another_format_is_the_same_network(network: str) -> None:
    graph = NETWORKS[network]()
    found = diff(graph, load(to_onnx(graph)))
    assert found.same and not found.renamed


@pytest.mark.parametrize(
    ("old", "new"),
    [("%w", "%weight"), ("%y", "%matmul"), ("axis: -1", "axis: 1"), ("z=%z", "result=%z"), ("%x", "%input.1"),
     ("inputs = (x=%y), attrs = {axis: -1}", "inputs = (x=%y)")],
)  # fmt: skip
def test_names_and_spellings_do_not_count(old: str, new: str) -> None:
    found = diff(graph_of(LAYER), changed(old, new))
    assert found.same
    assert found.renamed == ((("x", "input.1"),) if old == "%x" else ())


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("old", "new", "reason", "first"),
    [
        ("axis: -1", "axis: 0", "axis is 1 and 0", "softmax"),
        ("type=mul", "type=add", "mul and add", "mul"),
        ("[1.0 2.0 3.0]", "[1.0 2.5 4.0]", "2 of 3 elements, by at most 1", "constant"),
        ("(a=%x, b=%w)", "(a=%x, b=%x)", "constant and input", "constant"),
        ("type=softmax", "type=log_softmax", "softmax and log_softmax", "softmax"),
    ],
)
def test_where_they_part(old: str, new: str, reason: str, first: str) -> None:
    found = diff(graph_of(LAYER), changed(old, new))
    assert [part.reason for part in found.parts] == [reason]
    assert f"type={first}]" in found.parts[0].first
    assert not found.same and not found.only_first


def test_the_first_of_several_differences_comes_first() -> None:
    other = graph_of(LAYER.replace("[1.0 2.0 3.0]", "[0.0 2.0 3.0]"))
    other.make_output(other.make("neg", [other.ops[0].outputs[0]]).outputs[0], "more")
    found = diff(graph_of(LAYER), other)
    assert [part.reason for part in found.parts] == ["1 of 3 elements, by at most 1"]
    assert found.only_second == ("output 'more' f32[2,3]",)


def _two(build: Callable[[Graph], None]) -> Graph:
    graph = Graph("g")
    for name in "ab":
        graph.make_input(LogicalTensor(F32, (2,)), name)
    build(graph)
    return graph


def test_arguments_are_told_apart() -> None:
    def minus(graph: Graph, swapped: bool) -> None:
        a, b = (op.outputs[0] for op in graph.inputs)
        graph.make_output(graph.make("sub", (b, a) if swapped else (a, b)).outputs[0])

    found = diff(_two(lambda g: minus(g, False)), _two(lambda g: minus(g, True)))
    assert [part.reason for part in found.parts] == ["another input", "another input"]
    first, second = Graph("g"), Graph("g")
    for graph, names in ((first, "ab"), (second, "ba")):
        for name in names:
            graph.make_input(LogicalTensor(F32, (2,)), name)
        minus(graph, names == "ba")
    found = diff(first, second)
    assert [part.reason for part in found.parts] == [
        "number 0 and number 1",
        "number 1 and number 0",
    ]


def test_missing_inputs_outputs_and_constants_have_names_and_types() -> None:
    graph = graph_of(LAYER)
    extra = graph.make_input(LogicalTensor(S32, (4,)), "extra")
    graph.make_output(extra, "copy")
    graph.make_output(graph.make_constant(np.float32(7), "seven"), "lucky")
    found = diff(graph, graph_of(LAYER))
    assert found.only_first == (
        "input 'extra' s32[4]",
        "output 'copy' s32[4]",
        "constant 'seven' f32[]",
        "output 'lucky' f32[]",
    )
    assert diff(graph_of(LAYER), graph).only_second == found.only_first


def test_shapes_and_dtypes_of_inputs() -> None:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, (4, 3)), "x")
    graph.make_output(graph.make("softmax", [x], {"axis": 1}).outputs[0], "z")
    other = Graph("g")
    x = other.make_input(LogicalTensor(F32, (8, 3)), "x")
    other.make_output(other.make("softmax", [x], {"axis": 1}).outputs[0], "z")
    assert [p.reason for p in diff(graph, other).parts] == ["f32[4,3] and f32[8,3]"]


def test_order_and_dead_ops_do_not_count() -> None:
    graph = attention()
    other = graph.copy()
    other.make("neg", [other.ops[0].outputs[0]])
    other.ops[1], other.ops[2] = other.ops[2], other.ops[1]
    assert [op.op_name for op in other.ops[1:3]] != [op.op_name for op in graph.ops[1:3]]
    other.sort()
    assert diff(graph, other).same
