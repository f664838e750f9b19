"""fused: a subgraph as one op."""

from __future__ import annotations

import numpy as np

from graphc.base.dtypes import F32, S8
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.verifier import verify
from graphc.graph_ir.lowering.registry import get_func
from graphc.graph_ir.ops.fused import Fused
from graphc.graph_ir.text.parser import parse_graph
from graphc.graph_ir.text.printer import print_graph
from support.graphs import graph_of
from support.lowered import context, integers


def layer() -> Graph:
    return graph_of(
        """
        %x = Node[type=input] () -> f32[4,8]
        %w = Node[type=input] () -> f32[8,5]
        %fc = Node[type=matmul_core] (inputs = (a=%x, b=%w)) -> f32[4,5]
        %act = Node[type=relu] (inputs = (x=%fc)) -> f32[4,5]
        %low = Node[type=cast] (inputs = (x=%act), attrs = {dtype: "s8"}) -> s8[4,5]
        return (y=%low)
        """
    )


def around(inner: Graph) -> tuple[Graph, Fused]:
    graph = Graph("outer")
    tensors = [graph.make_input(op.outputs[0].details, op.name) for op in inner.inputs]
    op = graph.make("fused", tensors, {"graph": inner}, "group")
    graph.make_output(op.outputs[0])
    assert isinstance(op, Fused)
    return graph, op


def test_it_is_what_the_subgraph_is() -> None:
    inner = layer()
    graph, op = around(inner)
    verify(graph)
    assert op.graph is inner
    assert op.outputs[0].details == LogicalTensor(S8, (4, 5))
    assert op.get_gflop() == inner.get_gflop() > 0
    arrays = [integers((4, 8), 1), integers((8, 5), 2)]
    np.testing.assert_array_equal(graph.evaluate(arrays)[0], inner.evaluate(arrays)[0])


def test_it_is_one_function_of_its_operands_then_its_result() -> None:
    (function,) = get_func(around(layer())[1], context()).functions
    assert [(p.name, p.dtype) for p in function.params] == [
        *(("in0", F32), ("in1", F32), ("out0", S8)),
    ]  # fmt: skip
    assert function.note.startswith("fc -> act -> low [")


def test_contents_of_the_subgraph_tell_groups_apart() -> None:
    graph, _ = around(layer())
    twin, _ = around(layer())
    assert graph.compare_contents(twin) and graph.hash_contents() == twin.hash_contents()
    other = layer()
    other.ops[3].attrs["note"] = 1
    assert not graph.compare_contents(around(other)[0])


def test_text_round_trip() -> None:
    graph, _ = around(layer())
    read = parse_graph(print_graph(graph, full=True))
    verify(read)
    assert read.compare_contents(graph)
