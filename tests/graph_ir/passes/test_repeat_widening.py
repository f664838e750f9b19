"""repeat_widening: consumers of a dequantized tensor each read the bytes; matmuls share one copy of the floats."""

from __future__ import annotations

from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.passes.fuse import fuse
from graphc.graph_ir.passes.repeat_widening import repeat_widening
from support.graphs import CONTEXT, graph_of, run_pass

HEAD = """
    %x = Node[type=input] () -> u8[4,4]
    %s = Node[type=constant] (attrs = {value: [0.5]}) -> f32[]
    %z = Node[type=constant] (attrs = {value: [3.0]}) -> f32[]
    %c = Node[type=cast] (inputs = (x=%x), attrs = {dtype: f32}) -> f32[4,4]
    %m = Node[type=sub] (inputs = (a=%c, b=%z)) -> f32[4,4]
    %d = Node[type=mul] (inputs = (a=%m, b=%s)) -> f32[4,4]
"""
TWO = """
    %a = Node[type=relu] (inputs = (x=%d)) -> f32[4,4]
    %t = Node[type=transpose] (inputs = (x=%d), attrs = {perm: {1, 0}}) -> f32[4,4]
    %y = Node[type=exp] (inputs = (x=%t)) -> f32[4,4]
    return (output=%a, output_1=%y)
"""


def casts(graph: Graph) -> int:
    return sum(op.op_name == "cast" for op in graph.ops)


def test_each_consumer_widens_and_no_floats_are_stored() -> None:
    graph = graph_of(HEAD + TWO)
    assert run_pass(repeat_widening, graph) and casts(graph) == 2
    assert not run_pass(repeat_widening, graph)
    fuse(graph, CONTEXT)
    assert [op.kind for op in graph.ops if op.kind not in ("source", "sink")] == ["fused", "fused"]


def test_matmuls_share_the_floats() -> None:
    matmuls = """
    %a = Node[type=matmul_core] (inputs = (a=%d, b=%d)) -> f32[4,4]
    %y = Node[type=relu] (inputs = (x=%d)) -> f32[4,4]
    return (output=%a, output_1=%y)
    """
    graph = graph_of(HEAD + matmuls)
    # One for the matmul, one for relu.
    assert run_pass(repeat_widening, graph) and casts(graph) == 2


def test_rows_are_read_together() -> None:
    rows = """
    %a = Node[type=reduce_max] (inputs = (x=%d), attrs = {axes: {1}, keep_dims: true}) -> f32[4,1]
    %y = Node[type=sub] (inputs = (a=%d, b=%a)) -> f32[4,4]
    return (output=%y)
    """
    assert not run_pass(repeat_widening, graph_of(HEAD + rows))


def test_a_kernel_ends_at_the_bytes() -> None:
    """A pool in another kernel reads bytes: the widening is not part of the kernel that makes them."""
    graph = graph_of("""
    %f = Node[type=input] () -> f32[4,4]
    %s = Node[type=constant] (attrs = {value: [0.5]}) -> f32[]
    %r = Node[type=round] (inputs = (x=%f)) -> f32[4,4]
    %q = Node[type=cast] (inputs = (x=%r), attrs = {dtype: s8}) -> s8[4,4]
    %c = Node[type=cast] (inputs = (x=%q), attrs = {dtype: f32}) -> f32[4,4]
    %d = Node[type=mul] (inputs = (a=%c, b=%s)) -> f32[4,4]
    %t = Node[type=transpose] (inputs = (x=%d), attrs = {perm: {1, 0}}) -> f32[4,4]
    return (output=%t)
    """)
    fuse(graph, CONTEXT)
    stored = [str(op.outputs[0].details) for op in graph.ops if op.kind == "fused"]
    assert stored == ["s8[4,4]", "f32[4,4]"]
