"""Switches without a test of their own: each changes the program of its network, and no result beyond rounding."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import graphc
from graphc.base.dtypes import F32
from graphc.base.options import CompileOptions
from graphc.graph_ir.ir.graph import Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.lowering.lower_graph import lower_graph
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.schedule.context import LowerContext
from graphc.graph_ir.text.printer import print_graph
from graphc.targets.isa import Target
from support.networks import arrays_of

Body = Callable[[Graph, GraphTensor], GraphTensor]
RANDOM = np.random.default_rng(0)


def made(graph: Graph, op: str, *inputs: GraphTensor, **attrs: object) -> GraphTensor:
    return graph.make(op, inputs, attrs).outputs[0]


def weights(graph: Graph, *dims: int) -> GraphTensor:
    return graph.make_constant(RANDOM.standard_normal(dims).astype(np.float32) * 0.1)


def equal_matmuls(graph: Graph, x: GraphTensor) -> GraphTensor:
    w = weights(graph, 40, 24)
    return made(graph, "add", made(graph, "matmul_core", x, w), made(graph, "matmul_core", x, w))


def identities(graph: Graph, x: GraphTensor) -> GraphTensor:
    twice = made(graph, "transpose", made(graph, "transpose", x, perm=(1, 0)), perm=(1, 0))
    return made(graph, "mul", twice, graph.make_constant(np.ones((), np.float32)))


def decomposed_softmax(graph: Graph, x: GraphTensor) -> GraphTensor:
    axis = {"axes": (-1,), "keep_dims": True}
    shifted = made(graph, "exp", made(graph, "sub", x, made(graph, "reduce_max", x, **axis)))
    return made(graph, "div", shifted, made(graph, "reduce_sum", shifted, **axis))


def convolved(graph: Graph, x: GraphTensor) -> GraphTensor:
    return made(graph, "convolution", x, weights(graph, 64, 64, 3, 3), before=(1, 1), after=(1, 1))


def one_matmul(graph: Graph, x: GraphTensor) -> GraphTensor:
    return made(graph, "matmul_core", x, weights(graph, 96, 64))


CASES: dict[str, tuple[tuple[int, ...], Body, dict[str, str], float]] = {
    "cse": ((9, 40), equal_matmuls, {}, 0),
    "simplify": ((9, 17), identities, {}, 0),
    "recompose": ((9, 17), decomposed_softmax, {}, 1e-6),
    "winograd": ((1, 64, 28, 28), convolved, {}, 1e-5),
    "keep-f32": ((256, 96), one_matmul, {"precision": "bf16"}, 0.01),
}
"""Input, network, options and the largest difference relative to the largest result."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("switch", CASES)
def test_on_and_off_agree(switch: str) -> None:
    dims, body, options, tolerance = CASES[switch]
    graph = Graph("switched")
    graph.make_output(body(graph, graph.make_input(LogicalTensor(F32, dims), "x")), "y")
    programs = set()
    for disabled in ((), (switch,)):
        ctx = LowerContext(
            Target("avx512"), CompileOptions(disabled=frozenset(disabled), **options)
        )
        optimized = graph.copy()
        pipeline.run(optimized, ctx)
        programs.add(str(lower_graph(optimized, ctx).calls) + print_graph(optimized))
    assert len(programs) == 2
    arrays = arrays_of(graph)
    on, off = (
        graphc.compile(graph, "native", 1, disabled=disabled, **options)(*arrays)
        for disabled in ((), (switch,))
    )
    np.testing.assert_allclose(on, off, rtol=0, atol=tolerance * np.abs(off).max())
