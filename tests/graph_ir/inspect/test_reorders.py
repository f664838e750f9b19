"""Changes of layout that remain in a graph."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.graph_ir.inspect.reorders import has_layouts, remaining_reorders
from graphc.graph_ir.ir.graph import Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes import pipeline
from support.lowered import context, integers


def layers(count: int, channels: int = 32) -> Graph:
    """Convolutions with bias and ReLU, one after the other."""
    graph = Graph("layers")
    x = graph.make_input(LogicalTensor(F32, (1, channels, 9, 9)), "x")
    for number in range(count):
        w = graph.make_constant(integers((32, x.details.plain_dims[1], 5, 5), number))
        x = graph.make("convolution", (x, w), {"before": (2, 2), "after": (2, 2)}).outputs[0]
        bias = graph.make_constant(np.ones((32, 1, 1), np.float32))
        x = graph.make("relu", graph.make("add", (x, bias)).outputs).outputs[0]
    graph.make_output(x)
    return graph


def optimized(graph: Graph, *disabled: str) -> Graph:
    pipeline.run(graph, context("avx512", disabled=disabled))
    return graph


@pytest.mark.parametrize("disabled", [(), ("fuse",)])
def test_layers_change_layout_at_the_edges_only(disabled: tuple[str, ...]) -> None:
    graph = optimized(layers(3), *disabled)
    found = remaining_reorders(graph)
    assert len(found) == 2 and all(one.at_edge for one in found)
    assert [one.bytes for one in found] == [2 * 4 * 32 * 81] * 2
    assert has_layouts(graph)


def test_a_first_layer_reorders_the_image_itself() -> None:
    """Three channels last: nothing larger than the image is moved."""
    first, last = remaining_reorders(optimized(layers(2, 3)))
    assert first.at_edge and last.at_edge
    assert first.bytes == 2 * 4 * 3 * 81


def test_none_without_layouts() -> None:
    graph = optimized(layers(2), "blocked-layouts")
    assert remaining_reorders(graph) == [] and not has_layouts(graph)


def test_a_reorder_between_kernels_is_inside() -> None:
    """An op that only knows plain layouts, here a reshape that joins channels and rows, causes two of them."""
    graph = layers(1)
    (output,) = graph.outputs
    y: GraphTensor = output.inputs[0]
    y = graph.make("reshape", (y,), {"shape": (1, 96, 3, 9)}).outputs[0]
    w = graph.make_constant(integers((32, 96, 3, 2), 7))
    output.set_input(0, graph.make("convolution", (y, w)).outputs[0])
    graph.sort()
    found = remaining_reorders(optimized(graph))
    assert [one.at_edge for one in found].count(False) == 2
