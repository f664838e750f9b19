"""Trees that get masks, whose masks reach the leaves that walks reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from graphc.base.dims import Size, Symbol, size
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.mask_trees import mask_trees
from support.lowered import context

COLUMNS, BITS, COUNT = 6, 4, 2


def tree(rng: np.random.Generator, leaves: int, nodes: list[list[Any]]) -> tuple[int, int]:
    """(root, depth) of a random tree, whose nodes [feature, pair below, threshold, value] are appended."""

    def grow(at: int, size: int) -> int:
        if size == 1:
            nodes[at] = [0, at, np.nan, rng.standard_normal(COUNT)]
            return 0
        pair, left = len(nodes), int(rng.integers(1, size))
        nodes.extend([[], []])
        bound = rng.choice([rng.standard_normal(), np.nan, np.inf], p=[0.8, 0.1, 0.1])
        nodes[at] = [int(rng.integers(2 * COLUMNS)), pair, bound, np.zeros(COUNT)]
        return 1 + max(grow(pair, left), grow(pair + 1, size - left))

    root = len(nodes)
    nodes.append([])
    return root, grow(root, leaves)


def forest(rows: Size, sizes: list[int], targets: tuple[int, ...], reduction: str) -> Graph:
    """An ensemble of trees with these numbers of leaves, 16 trees for each of the targets."""
    rng = np.random.default_rng(len(sizes))
    nodes: list[list[Any]] = []
    found = [tree(rng, size, nodes) for size in sizes]
    roots = np.zeros(16 * len(targets), np.int32) + len(nodes)
    silent = {"add": 0.0, "min": np.inf, "max": -np.inf}[reduction]
    nodes.append([0, len(nodes), np.nan, np.full(COUNT, silent)])
    roots[: len(found)] = [root for root, _ in found]
    feature, below, threshold, values = (np.array(part) for part in zip(*nodes, strict=True))
    ways = ((below - np.arange(len(nodes))) << BITS | feature).astype(np.int32)
    said = values if targets[0] < 0 else values[:, 0]
    graph = Graph("trees")
    x = graph.make_input(LogicalTensor(F32, (rows, COLUMNS)), "x")
    lists = [ways, threshold.astype(np.float32), said.astype(np.float32), roots]
    attrs = {
        "depths": [max(depth for _, depth in found)] * len(targets), "targets": targets,
        "feature_bits": BITS, "count": COUNT, "reduction": reduction,
    }  # fmt: skip
    made = graph.make("tree_ensemble", [x, *map(graph.make_constant, lists)], attrs, "trees")
    graph.make_output(made.outputs[0], "y")
    return graph


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["native", "avx2", "generic"])
@pytest.mark.parametrize(
    ("targets", "reduction"), [((0, 0, 1), "add"), ((-1, -1, -1), "add"), ((0, 1, 1), "max")]
)
def test_masks_reach_the_leaves_of_walks(
    target: str, targets: tuple[int, ...], reduction: str
) -> None:
    """Trees of one leaf, of 32, and of several pieces; vectors of rows, single ones, several blocks."""
    sizes = [1, 2, 3, 31, 32, 33, 70, 100] * 5
    graph = forest(size(Symbol("R")), sizes, targets, reduction)
    rng = np.random.default_rng(3)
    masked = graphc.compile(graph, target, threads=2)
    walking = graphc.compile(graph, target, threads=2, disabled=("masked-trees",))
    with masked, walking:
        for rows in (1, 5, 16, 18, 333):
            x = rng.standard_normal((rows, COLUMNS)).astype(np.float32)
            x[rng.random(x.shape) < 0.1] = rng.choice([np.nan, np.inf, -np.inf])
            (wanted,) = forest(rows, sizes, targets, reduction).evaluate([x])
            np.testing.assert_allclose(masked(x), wanted, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(walking(x), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("rows", "sizes", "is_masked"),
    [(64, [8] * 16, True), (2, [99] * 16, False), (64, [1500] * 16, False)],
)
def test_large_trees_and_few_rows_are_walked(rows: int, sizes: list[int], is_masked: bool) -> None:
    graph = forest(rows, sizes, (0,), "add")
    assert mask_trees(graph, context()) == is_masked
    kind = "masked_trees" if is_masked else "tree_ensemble"
    assert [op.op_name for op in graph.ops if op.kind == "loop"] == [kind]
