"""Non-maximum suppression between guard pages: equal scores and shares, NaN, no score limit, one task and several."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32, S64
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.templates.radix_sort import BLOCK
from graphc.graph_ir.templates.suppress_boxes import COMPARED
from graphc.tools.fuzz.guarded import Edge, guarded, guarded_copy

EDGES: tuple[Edge, ...] = ("start", "end")


def suppression(images: int, classes: int, boxes: int, room: int, has_least: bool) -> Graph:
    graph = Graph("suppression")
    shapes = [(F32, (images, boxes, 4)), (F32, (images, classes, boxes)), (S64, ()), (F32, ())]
    shapes += [(F32, ())] * has_least
    inputs = [graph.make_input(LogicalTensor(*one), f"x{i}") for i, one in enumerate(shapes)]
    (taken,) = graph.make("suppress_boxes", inputs, {"room": (room,)}, "op").outputs
    graph.make_output(taken)
    return graph


def operands(graph: Graph, most: int, overlap: float, least: float) -> list[Array]:
    """Boxes on a small grid and few distinct scores, so that shares and scores are equal often; some NaN, -inf."""
    ends, scores = (op.outputs[0].details.plain_dims for op in graph.inputs[:2])
    rng = np.random.default_rng(sum(scores))
    low = rng.integers(0, 12, (*ends[:2], 2))
    corners = np.concatenate([low, low + rng.integers(0, 5, low.shape)], axis=2)
    values = rng.integers(0, 9, scores) / 8
    values[rng.random(scores) < 0.05] = np.nan
    values[rng.random(scores) < 0.05] = -np.inf
    limits = [np.array(most), *(np.array(x, np.float32) for x in (overlap, least))]
    found: list[Array] = [corners.astype(np.float32), values.astype(np.float32), *limits]
    return found[: len(graph.inputs)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ["native", "avx2"])
@pytest.mark.parametrize(
    ("shape", "most", "overlap", "has_least"),
    [
        ((1, 1, 1, 1), 1, 0.5, True),
        ((2, 3, BLOCK - 1, 4), 4, 0.25, False),
        ((1, 5, BLOCK + 1, 9), 3, 0.0, True),
        ((3, 2, 200, 50), 99, 0.5, True),
        ((1, 2, 900, COMPARED + 9), 10**6, 1.0, False),
        ((2, 2, 40, 5), 0, 0.5, False),
        ((2, 2, 40, 5), -3, 0.5, True),
    ],
)
def test_kept_boxes_between_guard_pages(
    shape: tuple[int, int, int, int], most: int, overlap: float, has_least: bool, isa: str
) -> None:
    graph = suppression(*shape, has_least)
    arrays = operands(graph, most, overlap, 0.25)
    (expected,) = graph.evaluate(arrays)
    for threads in (1, 3):
        with compile_model(graph, target=isa, threads=threads) as model:
            for where in EDGES:
                inputs = {f"x{i}": guarded_copy(a, where) for i, a in enumerate(arrays)}
                result = guarded(expected.shape, expected.dtype, where)
                model.bind(inputs, [result])()
                np.testing.assert_array_equal(result, expected)
