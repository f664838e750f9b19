"""Graphs as long as nobody writes them by hand: nothing nests as deep as they are long, and time grows with length."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import graphc
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.fold_batch_norm import fold_batch_norm
from graphc.graph_ir.passes.fuse import MAX_OPS, fuse
from graphc.graph_ir.schedule.context import LowerContext
from graphc.targets.isa import Target
from support.work import lines_run


def chain(length: int) -> Graph:
    """y = ... tanh(relu(x) + c) * c ..."""
    graph = Graph("chain")
    y = graph.make_input(LogicalTensor(F32, (4, 8)), "x")
    c = graph.make_constant(np.full((8,), 0.5, np.float32), "c")
    for number in range(length):
        op_name = ("relu", "add", "tanh", "mul")[number % 4]
        y = graph.make(op_name, [y, c] if number % 2 else [y]).outputs[0]
    graph.make_output(y)
    return graph


def sum_of(count: int) -> Graph:
    """The sum of many inputs."""
    graph = Graph("sum")
    inputs = [graph.make_input(LogicalTensor(F32, (8,)), f"x{i}") for i in range(count)]
    total = inputs[0]
    for x in inputs[1:]:
        total = graph.make("add", [total, x]).outputs[0]
    graph.make_output(total)
    return graph


@pytest.mark.exhaustive
@pytest.mark.parametrize("graph", [chain(250), chain(1000), sum_of(300)], ids=lambda g: g.name)
def test_long_chains_compile(graph: Graph) -> None:
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(-4, 5, op.outputs[0].details.plain_dims).astype(np.float32)
        for op in graph.inputs
    ]
    np.testing.assert_allclose(
        graphc.compile(graph)(*arrays), graph.evaluate(arrays)[0], rtol=1e-5, atol=1e-6
    )


def test_chains_that_begin_with_no_convolution_are_left_at_once() -> None:
    graph = Graph("offsets")
    y = graph.make_input(LogicalTensor(F32, (2, 3, 4)), "x")
    for number in range(1500):
        offset = graph.make_constant(np.full((3, 1), number, np.float32))
        y = graph.make("add", [y, offset]).outputs[0]
    graph.make_output(y)
    context = LowerContext(Target("generic"))
    lines = lines_run(lambda: fold_batch_norm(graph, context))
    # And no function calls itself as often as there are ops.
    assert max(lines.values()) < 1500 * 600


def test_groups_have_an_end() -> None:
    graph = chain(500)
    assert fuse(graph, LowerContext(Target("generic")))
    groups = [op.attrs["graph"] for op in graph.ops if op.op_name == "fused"]
    sizes = [sum(op.kind not in ("source", "sink") for op in g.ops) for g in groups]
    assert max(sizes) == MAX_OPS and sum(sizes) > 490


def test_fusing_takes_work_in_proportion() -> None:
    """Ten times the ops: about ten times the function calls, which unlike seconds are the same in every run."""
    short, long = (calls_of_fusing(chain(length)) for length in (400, 4000))
    assert long < 12 * short


def calls_of_fusing(graph: Graph) -> int:
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        fuse(graph, LowerContext(Target("generic")))
    finally:
        sys.setprofile(None)
    return calls


def test_consumers_are_requested_about_once_or_when_something_changed() -> None:
    graph = Graph("far")
    made = [graph.make_input(LogicalTensor(F32, (4, 8)), "x")]
    for number in range(
        300
    ):  # each result is read again, twice as far on: groups grow, and none of them ends
        made.append(graph.make("add", [made[-1], made[number // 2]]).outputs[0])
    graph.make_output(made[-1])
    graph.sort()
    lines = lines_run(lambda: fuse(graph, LowerContext(Target("generic"))))
    assert max(lines.values()) < 300 * MAX_OPS * 40
