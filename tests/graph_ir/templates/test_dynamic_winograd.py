"""Winograd convolutions of dynamic sizes: the bits of those of one size, whatever the blocks of tiles."""

from __future__ import annotations

import re

import numpy as np
import pytest

import graphc
from graphc.base.dims import Size, Symbol, size
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.lowering.registry import get_func
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.passes.select_convolution_algorithm import select_convolution_algorithm
from graphc.graph_ir.rewriting.decisions import log_of
from graphc.tensor_ir.nodes import Brgemm
from graphc.tensor_ir.visitor import walk_statements
from support.lowered import context

B, H, W = (size(Symbol(name, 1, most)) for name, most in (("B", 64), ("H", 99), ("W", 99)))


def network(images: Size) -> Graph:
    """A 3 x 3 convolution of 32 channels and images of 4 x 4, a bias for each element, and relu."""
    graph, rng = Graph("network"), np.random.default_rng(0)
    x = graph.make_input(LogicalTensor(F32, (images, 32, 4, 4)), "x")
    w = graph.make_constant(rng.standard_normal((32, 32, 3, 3)).astype(np.float32), "w")
    bias = graph.make_constant(rng.standard_normal((1, 32, 4, 4)).astype(np.float32), "bias")
    y = graph.make("convolution", [x, w], {"before": (1, 1), "after": (1, 1)}, "conv").outputs[0]
    graph.make_output(graph.make("relu", graph.make("add", [y, bias]).outputs).outputs[0], "y")
    return graph


def form(graph: Graph, isa: str) -> str:
    """Return the decision about the form of its convolution."""
    select_convolution_algorithm(graph, context(isa))
    (decision,) = (d for d in log_of(graph).decisions if d.kind == "form")
    return decision.text


def layer(batch: Size, height: Size, width: Size, results: int, step: int = 1) -> Graph:
    """A 3 x 3 convolution with padding in a Winograd form, bias and relu."""
    graph, rng = Graph("layer"), np.random.default_rng(0)
    x = graph.make_input(LogicalTensor(F32, (batch, 9, height, width)), "x")
    w = graph.make_constant(rng.standard_normal((33, 9, 3, 3)).astype(np.float32), "w")
    bias = graph.make_constant(rng.standard_normal((1, 33, 1, 1)).astype(np.float32), "bias")
    u = graph.make("winograd_weights", [w], {"results": results}, "u").outputs[0]
    attrs = {
        "results": results,
        **dict.fromkeys(("before", "after", "dilations"), (step, step)),
    }
    y = graph.make("winograd_convolution", [x, u], attrs, "conv").outputs[0]
    y = graph.make("relu", [graph.make("add", [y, bias]).outputs[0]]).outputs[0]
    graph.make_output(y, "y")
    return graph


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("isa", "threads", "results", "step"), [("native", 2, 4, 1), ("avx2", 1, 2, 2)]
)
def test_open_images_have_the_bits_of_known_ones(
    isa: str, threads: int, results: int, step: int
) -> None:
    by_batch = graphc.compile(layer(B, 9, 14, results, step), isa, threads)
    by_size = graphc.compile(layer(B, H, W, results, step), isa, threads)
    rng = np.random.default_rng(1)
    for shape in ((7, 9, 14), (1, 1, 1), (2, 21, 30)):
        x = rng.standard_normal((shape[0], 9, *shape[1:])).astype(np.float32)
        x[-1, 0, 0, 0] = np.inf  # its tiles are convolved directly
        wanted = graphc.compile(layer(*shape, results, step), isa, threads)(x).tobytes()
        assert by_size(x).tobytes() == wanted, shape
        if shape[1:] == (9, 14):
            assert by_batch(x).tobytes() == wanted, shape


@pytest.mark.parametrize(("isa", "more"), [("avx512", 1), ("avx2", 0)])
def test_tiles_that_registers_have_room_for_are_one_register_tile(isa: str, more: int) -> None:
    """Two would read every panel of the weights twice: nine rows of 48 columns on AVX-512."""
    graph, ctx = layer(B, 7, 7, 4), context(isa)
    pipeline.run(graph, ctx)
    (op,) = (op for op in graph.ops if op.op_name == "fused")
    body = get_func(op, ctx).functions[-1].body
    matmuls = [s for s in walk_statements(body) if isinstance(s, Brgemm)]
    assert max(int(s.m) for s in matmuls) == op.schedule.number("mr") + more
    assert all(s.m <= s.tile_rows for s in matmuls)


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ["avx2", pytest.param("avx512", marks=pytest.mark.isa("avx512f"))])
def test_few_results_have_the_form_that_is_best_for_them(isa: str) -> None:
    """Images of 4 x 4: direct for a few, F(2x2) for some and F(4x4) for many, as in the model of that number."""
    text = form(network(B), isa)
    kinds, limits = re.findall(r"winograd-f\d|direct", text), re.findall(r"up to (\d+)", text)
    assert kinds == ["winograd-f4", "winograd-f2", "direct"], text
    some, few = (int(pixels) // 16 for pixels in limits)
    for images, kind in ((1, 2), (few, 2), (few + 1, 1), (some, 1), (some + 1, 0), (99, 0)):
        assert form(network(images), isa).startswith(f"{kinds[kind]},"), images
    model = graphc.compile(network(B), isa, threads=1)
    for images in (few, some, some + 1):
        x = np.random.default_rng(images).standard_normal((images, 32, 4, 4)).astype(np.float32)
        wanted = graphc.compile(network(images), isa, threads=1)(x)
        assert model(x).tobytes() == wanted.tobytes(), images
