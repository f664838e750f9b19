"""Reshapes that leave a layout where it is."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.graph_ir.inspect.reorders import remaining_reorders
from graphc.graph_ir.ir.format import Format, parse_format, plain
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.reshape_layout import reshaped_formats
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.rewriting.groups import is_view
from support.lowered import check_interpreted, context, integers

LAST = parse_format("NHWC")


@pytest.mark.parametrize(
    ("source", "result", "order"),
    [
        ((1, 12, 5, 6), (1, 3, 4, 5, 6), (0, 3, 4, 1, 2)),
        ((2, 12, 5, 6), (2, 12, 30), (0, 2, 1)),
        ((2, 12, 5, 6), (2, 12, 5, 6, 1), (0, 2, 3, 4, 1)),
        ((1, 12, 1, 1), (1, 12), (0, 1)),
    ],
)
def test_split_and_merged_axes_stay_in_place(
    source: tuple[int, ...], result: tuple[int, ...], order: tuple[int, ...]
) -> None:
    kept = reshaped_formats(source, result, LAST)
    assert kept is not None
    assert kept[0] == LAST and kept[1].order == order
    values = np.arange(np.prod(source)).reshape(source)
    same = kept[1].pack(values.reshape(result)).reshape(-1)
    assert np.array_equal(LAST.pack(values).reshape(-1), same)


def test_merged_axes_that_lie_apart_are_brought_together() -> None:
    kept = reshaped_formats((1, 12, 5, 6), (1, 360), LAST)
    assert kept is not None and kept[0].is_plain and kept[1].is_plain
    apart = Format(plain(5).axes, (0, 3, 4, 2, 1), (0,) * 5)
    kept = reshaped_formats((1, 4, 3, 5, 6), (1, 12, 5, 6), apart)
    assert kept is not None and kept[0].order == (0, 3, 4, 1, 2) and kept[1] == LAST


def test_blocks_and_empty_tensors_want_the_plain_layout() -> None:
    assert reshaped_formats((1, 32, 5, 6), (1, 2, 16, 5, 6), parse_format("NCHW16c")) is None
    assert reshaped_formats((0, 32, 5, 6), (0, 32, 30), LAST) is None


def shuffled() -> Graph:
    """Two convolutions and a channel shuffle between them."""
    graph = Graph("shuffle")
    x = graph.make_input(LogicalTensor(F32, (1, 12, 5, 6)), "x")

    def conv(x, number):
        w = graph.make_constant(integers((12, 12, 5, 5), number))
        edge = {"before": (2, 2), "after": (2, 2)}
        return graph.make("direct_convolution", (x, w), edge).outputs[0]

    x = conv(x, 1)
    x = graph.make("reshape", (x,), {"shape": (1, 3, 4, 5, 6)}).outputs[0]
    x = graph.make("transpose", (x,), {"perm": (0, 2, 1, 3, 4)}).outputs[0]
    x = graph.make("reshape", (x,), {"shape": (1, 12, 5, 6)}).outputs[0]
    graph.make_output(conv(x, 2))
    return graph


def test_a_channel_shuffle_is_one_copy() -> None:
    graph = shuffled()
    check_interpreted(graph, context("avx512"))
    pipeline.run(graph, context("avx512"))
    inside = [one for one in remaining_reorders(graph) if not one.at_edge]
    moved = [op for op in graph.ops if op.op_name == "transpose"]
    assert len(inside) == 1 and all(map(is_view, moved))
