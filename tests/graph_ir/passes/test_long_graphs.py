"""Graphs as long as nobody writes them by hand: nothing nests as deep as they are long, and time grows with length."""

from __future__ import annotations

import time

import numpy as np
import pytest

import graphc
from graphc.base.dtypes import F32
from graphc.base.target import Target
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.fuse import MOST_OPS, fuse
from graphc.graph_ir.schedule.context import LowerContext


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


def test_groups_have_an_end() -> None:
    graph = chain(500)
    assert fuse(graph, LowerContext(Target("generic")))
    groups = [op.attrs["graph"] for op in graph.ops if op.op_name == "fused"]
    sizes = [sum(op.kind not in ("source", "sink") for op in g.ops) for g in groups]
    assert max(sizes) == MOST_OPS and sum(sizes) > 490


def test_fusing_takes_time_in_proportion() -> None:
    """Ten times the ops: far from a hundred times the time."""
    seconds = []
    for length in (400, 4000):
        graph = chain(length)
        start = time.process_time()
        fuse(graph, LowerContext(Target("generic")))
        seconds.append(time.process_time() - start)
    assert seconds[1] < 40 * seconds[0]
