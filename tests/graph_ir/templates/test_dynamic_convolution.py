"""Convolutions of images of dynamic height and width: one model for all sizes, with the values of the reference."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc import Graph
from graphc.base.dims import Size, Symbol, size
from graphc.base.dtypes import F32, S8, U8
from graphc.base.errors import UnsupportedError
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.images import SIZES, H, Layers, N, W, agree, image


def classifier(n: Size, h: Size, w: Size) -> Graph:
    """Strides, a pool with padding, depthwise windows, a residual, a dilated window, groups, and a global mean."""
    layers = Layers(3, n, h, w)
    layers.convolve(8, 3, strides=(2, 2))
    layers.add("relu")
    kept = layers.add("max_pool", kernel=(3, 3), strides=(2, 2), before=(1, 1), after=(1, 1))
    layers.convolve(8, 3, groups=8)
    layers.convolve(8, 1)
    layers.add("add", kept)
    layers.convolve(24, 3, groups=2, strides=(1, 2))
    layers.convolve(20, 3, pad=2, dilations=(2, 2))
    layers.graph.make_output(layers.x, "features")
    layers.graph.make_output(layers.add("reduce_mean", axes=(2, 3)), "y")
    return layers.graph


@pytest.mark.exhaustive
@pytest.mark.parametrize(("isa", "threads"), [("native", 2), ("avx2", 1)])
def test_one_model_for_all_heights_and_widths(isa: str, threads: int) -> None:
    model = graphc.compile(classifier(N, H, W), isa, threads)
    assert [str(spec) for spec in model.outputs][0] == "features: f32[N,20,(H+3)//4,(W+7)//8]"
    for sizes in SIZES:
        agree(model, classifier(*sizes), image(sizes[0], 3, *sizes[1:]))


def test_images_of_bytes() -> None:
    layers = Layers(8, 1, H, W, U8)
    value = np.random.default_rng(0).integers(-9, 9, (16, 8, 3, 3)).astype(np.int8)
    weights = layers.graph.make("constant", [], {"value": value}, "w").outputs[0]
    assert weights.details.dtype == S8
    layers.add("convolution", weights, before=(1, 1), after=(1, 1), dtype="s32")
    layers.graph.make_output(layers.x, "y")
    model, random = graphc.compile(layers.graph), np.random.default_rng(1)
    for shape in ((1, 8, 3, 3), (1, 8, 13, 21)):
        x = random.integers(0, 255, shape).astype(np.uint8)
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))).astype(np.int32)
        view = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        wanted = np.einsum("nchwij,ocij->nohw", view, value.astype(np.int32))
        assert np.array_equal(model(x), wanted)


def test_a_dynamic_number_of_channels_is_refused_by_name() -> None:
    graph, channels = Graph("channels"), size(Symbol("C"))
    x, w = (graph.make_input(LogicalTensor(F32, (1, channels, 1, 1)), name) for name in "xw")
    graph.make_output(graph.make("convolution", [x, w]).outputs[0], "y")
    with pytest.raises(UnsupportedError, match="'channels': .* is not known at compile time"):
        graphc.compile(graph)
