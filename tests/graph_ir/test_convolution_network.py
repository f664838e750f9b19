"""A small network of convolutions: the same bits with every optimization on and off, on one thread and two."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.lowered import integers

EDGE = {"before": (1, 1), "after": (1, 1)}


def network() -> Graph:
    """A stem, a pool, a residual block with a stride, a grouped layer, a concat and a global mean."""
    graph = Graph("network")
    x = graph.make_input(LogicalTensor(F32, (2, 3, 19, 18)), "x")

    def conv(x, outputs, kernel, groups=1, **attrs):
        shape = (outputs, x.details.plain_dims[1] // groups, kernel, kernel)
        w = graph.make_constant(integers(shape, outputs + kernel))
        y = graph.make("convolution", (x, w), {"groups": groups, **attrs}).outputs[0]
        bias = graph.make_constant(integers((outputs, 1, 1), outputs))
        return graph.make("add", (y, bias)).outputs[0]

    def relu(x):
        return graph.make("relu", (x,)).outputs[0]

    stem = relu(conv(x, 20, 3, strides=(2, 2), **EDGE))
    pool = graph.make("max_pool", (stem,), {"kernel": (3, 3), "strides": (1, 1), **EDGE}).outputs[0]
    half = {"strides": (2, 2)}
    left = conv(relu(conv(pool, 32, 3, **half, **EDGE)), 32, 1)
    block = relu(graph.make("add", (left, conv(pool, 32, 1, **half))).outputs[0])
    grouped = relu(conv(block, 32, 3, 2, **EDGE))
    joined = graph.make("concat", (block, grouped), {"axis": 1}).outputs[0]
    graph.make_output(joined)
    mean = graph.make("reduce_max", (joined,), {"axes": (2, 3), "keep_dims": True}).outputs[0]
    graph.make_output(graph.make("reshape", (mean,), {"shape": (2, 64)}).outputs[0])
    return graph


@pytest.mark.exhaustive
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "off", [(), ("direct-convolution",), ("blocked-layouts",), ("fuse",), ("in-place",), ("fold",)]
)
def test_switches_do_not_change_the_result(off: tuple[str, ...], threads: int) -> None:
    graph, x = network(), integers((2, 3, 19, 18), 9)
    wanted = graph.evaluate([x])
    results = compile_model(graph, threads=threads, disabled=("winograd", *off))(x)
    for result, expected in zip(results, wanted, strict=True):
        assert np.array_equal(result, expected)
