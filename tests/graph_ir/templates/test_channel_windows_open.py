"""Windows over channels of images of open height and width: the bits of the model of each size."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc import Graph
from graphc.base.dims import Size, Symbol, size
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.images import Layers, N, image


def windows(n: Size, h: Size, w: Size) -> Graph:
    """Windows over channels, products of pixels, pools: what sums in one order whatever the sizes."""
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


def pools(channels: Size) -> Graph:
    graph = Graph("pools")
    y = graph.make_input(LogicalTensor(F32, (2, channels, 5, 9)), "x")
    for name in ("max_pool", "sum_pool"):
        (y,) = graph.make(name, [y], {"kernel": (3, 3), "before": (1, 1), "after": (1, 1)}).outputs
    graph.make_output(y, "y")
    return graph


@pytest.mark.parametrize("disabled", [(), ("row-windows",)])
def test_pools_of_an_open_number_of_channels(disabled: tuple[str, ...]) -> None:
    """More and fewer than cost models assume."""
    model = graphc.compile(pools(size(Symbol("C"))), disabled=disabled)
    for channels in (1, 70):
        x = image(2, channels, 5, 9)
        wanted = pools(channels).evaluate([x])[0]
        np.testing.assert_allclose(model(x), wanted, rtol=1e-5, atol=1e-5)
