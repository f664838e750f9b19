"""keep_rounded: inside a kernel, what is quantized and dequantized again stays f32, with the same values."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.passes.fuse import fuse
from graphc.graph_ir.passes.keep_rounded import keep_rounded
from support.graphs import CONTEXT, graph_of, run_pass

BODY = """
    %x = Node[type=input] () -> f32[4,64]
    %w = Node[type=input] () -> f32[4,64]
    %s = Node[type=constant] (attrs = {{value: [0.5]}}) -> f32[]
    %z = Node[type=constant] (attrs = {{value: [{zero}]}}) -> f32[]
    %q = Node[type=round_saturate] (inputs = (x=%x), attrs = {{zero: 3, low: 0, high: 255, dtype: u8}}) -> u8[4,64]
    %c = Node[type=cast] (inputs = (x=%q), attrs = {{dtype: f32}}) -> f32[4,64]
    %m = Node[type=sub] (inputs = (a=%c, b=%z)) -> f32[4,64]
    %d = Node[type=mul] (inputs = (a=%m, b=%s)) -> f32[4,64]
    %y = Node[type=add] (inputs = (a=%d, b=%w)) -> f32[4,64]
    return (output={result})
"""
VALUES = np.concatenate([np.linspace(-9, 300, 253), [np.nan, np.inf, -np.inf]]).astype(np.float32)
ARRAYS = [VALUES.reshape(4, 64), np.ones((4, 64), np.float32)]


def inner_of(graph: Graph) -> Graph:
    """The one group's graph."""
    (group,) = [op for op in graph.ops if op.op_name == "fused"]
    return group.attr("graph")


@pytest.mark.parametrize(("zero", "names"), [
    (3.0, ["round_saturate", "mul", "add"]),
    (2.5, ["round_saturate", "sub", "mul", "add"]),
])  # fmt: skip
def test_the_integer_is_gone_and_values_are_the_same(zero: float, names: list[str]) -> None:
    graph = graph_of(BODY.format(zero=zero, result="%y"))
    fuse(graph, CONTEXT)
    (before,) = graph.evaluate(ARRAYS)
    assert run_pass(keep_rounded, graph)
    inner = inner_of(graph)
    assert [op.op_name for op in inner.ops if op.kind == "fusible"] == names
    np.testing.assert_array_equal(graph.evaluate(ARRAYS)[0], before)
    assert not run_pass(keep_rounded, graph)


def test_between_kernels_numbers_stay_integers() -> None:
    graph = graph_of(BODY.format(zero=3.0, result="%y, output_1=%q"))
    fuse(graph, CONTEXT)
    run_pass(keep_rounded, graph)
    (_, second) = graph.outputs
    assert str(second.inputs[0].details.dtype) == "u8"
