"""Graphs as Graphviz files."""

from __future__ import annotations

import numpy as np

from graphc.base.dtypes import F32
from graphc.graph_ir.inspect.dot import write_dot
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor


def test_the_text() -> None:
    graph = Graph('a "name"')
    x = graph.make_input(LogicalTensor(F32, (2, 3)), "x\\y")
    w = graph.make_constant(np.ones((4, 3), np.float32), "w")
    y = graph.make("matmul_core", [x, w], {"transpose_b": True}, "fc").outputs[0]
    graph.make_output(y, "y")
    assert write_dot(graph) == (
        'digraph "a \\"name\\"" {\n'
        "  node [shape=box, fontname=Helvetica];\n"
        '  n0 [label="x\\\\y\\nf32[2,3]", shape=oval];\n'
        '  n1 [label="w\\nf32[4,3]", shape=note];\n'
        '  n2 [label="fc\\nmatmul_core\\ntranspose_b=True", shape=box];\n'
        '  n3 [label="y\\noutput", shape=oval];\n'
        '  n0 -> n2 [label="a: f32[2,3]"];\n'
        '  n1 -> n2 [label="b: f32[4,3]"];\n'
        '  n2 -> n3 [label="x: f32[2,4]"];\n'
        "}\n"
    )


def test_long_attributes_are_cut() -> None:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, (1,) * 16), "x")
    graph.make_output(graph.make("reshape", [x], {"shape": (1,) * 16}, "r").outputs[0])
    assert 'label="r\\nreshape\\nshape=(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, ..."' in write_dot(
        graph
    )
