"""Windows over channels of images of dynamic height and width: the bits of the model of each size."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc import Graph
from graphc.base.dims import Size, Symbol, size
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.lowering.registry import get_func
from graphc.graph_ir.passes import pipeline
from graphc.tensor_ir.nodes import Allocate
from graphc.tensor_ir.visitor import walk_statements
from support.images import Layers, N, image
from support.lowered import context


def windows(n: Size, h: Size, w: Size) -> Graph:
    """Windows over channels, matmuls of pixels, pools: ops whose summation order does not depend on the sizes."""
    layers = Layers(16, n, h, w)
    layers.convolve(24, 1)
    layers.convolve(24, 3, groups=24, strides=(2, 2))
    layers.add("relu")
    layers.convolve(16, 1)
    layers.convolve(16, 5, groups=16, pad=1)
    layers.add("max_pool", kernel=(2, 2), strides=(2, 2))
    layers.graph.make_output(layers.add("sigmoid"), "y")
    return layers.graph


def test_bits_of_the_model_of_that_size() -> None:
    tall, wide = size(Symbol("H", 12)), size(Symbol("W", 12))
    model = graphc.compile(windows(N, tall, wide))
    for n, h, w in ((1, 12, 12), (2, 13, 24), (1, 31, 18)):
        x = image(n, 16, h, w)
        assert model(x).tobytes() == graphc.compile(windows(n, h, w))(x).tobytes(), (n, h, w)


def test_what_whole_blocks_leave_is_in_lower_ones() -> None:
    """One result after the other, as at the border, took half of the time of images of 14 x 14."""
    layers = Layers(32, N, size(Symbol("H", 12)), size(Symbol("W", 12)))
    layers.convolve(32, 3, groups=32, pad=1)
    layers.graph.make_output(layers.x, "y")
    ctx = context("avx512")
    pipeline.run(layers.graph, ctx)
    (op,) = (op for op in layers.graph.ops if "windows" in str(op.schedule))
    found = walk_statements(get_func(op, ctx).functions[-1].body)
    sums = {s.buffer.shape[0] for s in found if isinstance(s, Allocate)}
    assert sums == {1, 2, 4, op.schedule.number("np")}


def pools(channels: Size) -> Graph:
    graph = Graph("pools")
    y = graph.make_input(LogicalTensor(F32, (2, channels, 5, 9)), "x")
    for name in ("max_pool", "sum_pool"):
        (y,) = graph.make(name, [y], {"kernel": (3, 3), "before": (1, 1), "after": (1, 1)}).outputs
    graph.make_output(y, "y")
    return graph


@pytest.mark.parametrize("disabled", [(), ("row-windows",)])
def test_pools_of_a_dynamic_number_of_channels(disabled: tuple[str, ...]) -> None:
    """More and fewer than cost models assume."""
    model = graphc.compile(pools(size(Symbol("C"))), disabled=disabled)
    for channels in (1, 70):
        x = image(2, channels, 5, 9)
        wanted = pools(channels).evaluate([x])[0]
        np.testing.assert_allclose(model(x), wanted, rtol=1e-5, atol=1e-5)
