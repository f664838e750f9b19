"""Graphs written as dumps and read back."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.dtypes import by_name
from graphc.errors import UnsupportedError
from graphc.frontend import load
from graphc.frontend.ge import dump_constants, write_ge
from graphc.graph_ir.graph import Graph
from graphc.graph_ir.logical_tensor import LogicalTensor
from support.op_cases import CASES, graph_of, inputs_of


def read_back(graph, full=False):
    specs = {op.name: str(op.outputs[0].details) for op in graph.inputs}
    return load(write_ge(graph, full=full).encode(), specs, dump_constants(graph))


@pytest.mark.parametrize(("name", "types", "attrs"), CASES)
def test_reading_gives_the_graph_that_was_written(name, types, attrs):
    graph = graph_of(name, types, attrs)
    again = read_back(graph)
    inputs = inputs_of(name, types)
    for mine, wanted in zip(again.evaluate(inputs), graph.evaluate(inputs), strict=True):
        assert mine.dtype == wanted.dtype
        np.testing.assert_array_equal(mine, wanted)
    assert read_back(again).compare_contents(again)
    assert write_ge(read_back(again)) == write_ge(again)


def test_the_text():
    graph = graph_of("softmax", [("f32", (2, 3))], {"axis": 1})
    assert write_ge(graph) == (
        'graph("g"):\n'
        "  %x0 : [#users=1] = Node[type=Data] (attrs = {index: 0})\n"
        "  %/layer.0/op : [#users=1] = Node[type=SoftmaxV2] (inputs = (x=%x0), "
        "attrs = {axes: {1}, half_to_float: false})\n"
        "\n"
        "  return (%/layer.0/op)\n"
    )


def test_long_constants_are_elided_unless_full():
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(by_name("f32"), (7,)), "x")
    weight = graph.make_constant(np.arange(7, dtype=np.float32) / 3, "w")
    graph.make_output(graph.make("add", [x, weight], name="y").outputs[0])
    assert (
        "%w : [#users=1] = Node[type=Const] (attrs = {value: [0.000000 0.333333 0.666667 ... 1.333333"
        in write_ge(graph)
    )
    full = load(write_ge(graph, full=True).encode(), {"x": "f32[7]"})
    (y,) = full.evaluate([np.zeros(7, np.float32)])
    np.testing.assert_allclose(y, np.arange(7) / 3, atol=1e-6)
    assert read_back(graph).compare_contents(graph)


def test_all_ops_without_a_node_are_named():
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(by_name("s32"), (2,)), "x")
    y = graph.make("xor", [x, graph.make("and", [x, x]).outputs[0]]).outputs[0]
    graph.make_output(graph.make("xor", [y, y]).outputs[0])
    with pytest.raises(UnsupportedError) as error:
        write_ge(graph)
    assert str(error.value) == (
        "graph 'g': GE has no node for these ops: and with integers (1x), xor (2x)"
    )
