"""Winograd convolutions of open sizes: the bits of those of one size, whatever the blocks of tiles."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc.base.dims import Size, Symbol, size
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor

B, H, W = (size(Symbol(name, 1, most)) for name, most in (("B", 64), ("H", 99), ("W", 99)))


def layer(batch: Size, height: Size, width: Size, results: int) -> Graph:
    """A 3 x 3 convolution with padding in a Winograd form, bias and relu."""
    graph, rng = Graph("layer"), np.random.default_rng(0)
    x = graph.make_input(LogicalTensor(F32, (batch, 9, height, width)), "x")
    w = graph.make_constant(rng.standard_normal((33, 9, 3, 3)).astype(np.float32), "w")
    bias = graph.make_constant(rng.standard_normal((1, 33, 1, 1)).astype(np.float32), "bias")
    u = graph.make("winograd_weights", [w], {"results": results}, "u").outputs[0]
    attrs = {"results": results, "before": (1, 1), "after": (1, 1)}
    y = graph.make("winograd_convolution", [x, u], attrs, "conv").outputs[0]
    y = graph.make("relu", [graph.make("add", [y, bias]).outputs[0]]).outputs[0]
    graph.make_output(y, "y")
    return graph


@pytest.mark.parametrize(("isa", "threads", "results"), [("native", 2, 4), ("avx2", 1, 2)])
def test_open_images_have_the_bits_of_known_ones(isa: str, threads: int, results: int) -> None:
    by_batch = graphc.compile(layer(B, 9, 14, results), isa, threads)
    by_size = graphc.compile(layer(B, H, W, results), isa, threads)
    rng = np.random.default_rng(1)
    for shape in ((7, 9, 14), (1, 1, 1), (2, 21, 30)):
        x = rng.standard_normal((shape[0], 9, *shape[1:])).astype(np.float32)
        x[-1, 0, 0, 0] = np.inf  # its tiles are convolved directly
        wanted = graphc.compile(layer(*shape, results), isa, threads)(x).tobytes()
        assert by_size(x).tobytes() == wanted, shape
        if shape[1:] == (9, 14):
            assert by_batch(x).tobytes() == wanted, shape


def test_few_results_have_the_form_that_is_best_for_them() -> None:
    """512 channels of 7 x 7 pixels: F(2x2) for few images, F(4x4) for more, as in the model of that number."""
    graph = layer(B, 7, 7, 4)
    conv = next(op for op in graph.ops if op.op_name == "winograd_convolution")
    u_few = graph.make(
        "winograd_weights", [conv.inputs[1].producer_owner.inputs[0]], {"results": 2}
    ).outputs[0]
    attrs = {**conv.attrs, "few": 2 * 49}
    both = graph.make("winograd_convolution", [*conv.inputs, u_few], attrs, "both").outputs[0]
    (relu,) = [op for op in graph.ops if op.op_name == "relu"]
    relu.inputs[0].producer_owner.set_input(0, both)
    graph.sort()
    model = graphc.compile(graph, threads=1)
    for images, results in ((2, 2), (3, 4)):
        x = np.random.default_rng(images).standard_normal((images, 9, 7, 7)).astype(np.float32)
        wanted = graphc.compile(layer(images, 7, 7, results), threads=1)(x)
        assert model(x).tobytes() == wanted.tobytes(), images
