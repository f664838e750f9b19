"""Weights are in memory once while a model is compiled, besides those of its file."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np

from graphc.base.collector import paused_collector
from graphc.base.dtypes import F32
from graphc.base.options import CompileOptions
from graphc.codegen.host import target_for
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.lowering.constant_section import LARGE_BYTES
from graphc.graph_ir.lowering.lower_graph import lower_graph
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.schedule.context import LowerContext

LAYERS, CHANNELS = 4, 256
OTHER = 4 << 20


def _network() -> Graph:
    """Convolutions whose weights are scaled by a batch norm each, and then packed into panels."""
    graph, rng = Graph("network"), np.random.default_rng(0)
    x = graph.make_input(LogicalTensor(F32, (1, CHANNELS, 4, 4)), "x")
    for _ in range(LAYERS):
        array = rng.standard_normal((CHANNELS, CHANNELS, 3, 3)).astype(np.float32)
        x = graph.make(
            "convolution", [x, graph.make_constant(array)], {"before": (1, 1), "after": (1, 1)}
        ).outputs[0]
        statistics = [
            graph.make_constant(rng.uniform(0.5, 1.5, CHANNELS).astype(np.float32))
            for _ in range(4)
        ]
        x = graph.make("batch_norm", [x, *statistics]).outputs[0]
    graph.make_output(x)
    return graph


def test_weights_are_held_once() -> None:
    graph = _network()
    ctx = LowerContext(target_for("native"), CompileOptions(1, winograd="f2"))
    gc.collect()
    tracemalloc.start()
    try:
        with paused_collector():  # as while a model is compiled: cyclic garbage stays
            pipeline.run(graph, ctx)
            packed = tracemalloc.get_traced_memory()[0]
            lowered = lower_graph(graph, ctx, consume=True)
            left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    size = len(lowered.constants)
    # Not the weights that were scaled, nor those that were packed.
    assert packed < 1.1 * size + OTHER
    assert left < 1.1 * size + OTHER


def test_a_graph_keeps_its_constants_unless_they_are_given_up() -> None:
    graph = _network()
    ctx = LowerContext(target_for("native"), CompileOptions(1))
    kept = lower_graph(pipelined(graph, ctx), ctx)
    work = pipelined(graph, ctx)
    consumed = lower_graph(work, ctx, consume=True)
    np.testing.assert_array_equal(consumed.constants, kept.constants)
    values = [op.attr("value") for op in work.ops if op.op_name == "constant"]
    assert any(value is None for value in values)
    assert all(value is None or value.nbytes < LARGE_BYTES for value in values)
    assert all(op.attr("value") is not None for op in graph.ops if op.op_name == "constant")


def pipelined(graph: Graph, ctx: LowerContext) -> Graph:
    work = graph.copy()
    pipeline.run(work, ctx)
    return work
