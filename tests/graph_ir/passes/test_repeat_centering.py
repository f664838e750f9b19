"""repeat_centering: consumers of a difference to a mean read the tensor and the mean; rows share the difference."""

from __future__ import annotations

import pytest

from graphc.graph_ir.passes.repeat_centering import repeat_centering
from support.graphs import graph_of, run_pass

NORMALIZED = """
    %x = Node[type=input] () -> f32[2,8,9]
    %m = Node[type=reduce_mean] (inputs = (x=%x), attrs = {axes: {AXIS}, keep_dims: true}) -> f32[MEAN]
    %d = Node[type=sub] (inputs = (a=%x, b=%m)) -> f32[2,8,9]
    %q = Node[type=square] (inputs = (x=%d)) -> f32[2,8,9]
    %v = Node[type=reduce_mean] (inputs = (x=%q), attrs = {axes: {AXIS}, keep_dims: true}) -> f32[MEAN]
    %r = Node[type=rsqrt] (inputs = (x=%v)) -> f32[MEAN]
    %y = Node[type=mul] (inputs = (a=%d, b=%r)) -> f32[2,8,9]
    return (output=%y)
"""


@pytest.mark.parametrize(("axis", "mean", "count"), [(1, "2,1,9", 2), (2, "2,8,1", 1)])
def test_each_consumer_subtracts_unless_a_loop_over_rows_does(
    axis: int, mean: str, count: int
) -> None:
    graph = graph_of(NORMALIZED.replace("AXIS", str(axis)).replace("MEAN", mean))
    assert run_pass(repeat_centering, graph) == (count > 1)
    assert sum(op.op_name == "sub" for op in graph.ops) == count
    assert not run_pass(repeat_centering, graph)
