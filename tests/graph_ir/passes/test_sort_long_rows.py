"""Top_k ops that become row sorts, their axes, and equal results without the pass."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.sort_long_rows import LEAST, sort_long_rows
from support.lowered import context


def top(dims: tuple[int, ...], k: int, axis: int) -> Graph:
    graph = Graph("top")
    x = graph.make_input(LogicalTensor(F32, dims), "x")
    for y in graph.make("top_k", [x], {"k": k, "axis": axis}, "op").outputs:
        graph.make_output(y)
    return graph


@pytest.mark.parametrize(
    ("dims", "k", "axis", "ops"),
    [
        ((3, LEAST), 5, 1, ["sort_rows"]),
        ((3, LEAST - 1), 5, 1, ["top_k"]),
        ((3, 1 << 20), 5, 1, ["sort_rows"]),
        ((LEAST, 3), 5, 0, ["transpose", "sort_rows", "transpose", "transpose"]),
        ((3, LEAST), 0, 1, ["top_k"]),
    ],
)
def test_long_axes_are_sorted(dims: tuple[int, ...], k: int, axis: int, ops: list[str]) -> None:
    graph = top(dims, k, axis)
    assert sort_long_rows(graph, context()) == ("sort_rows" in ops)
    assert [op.op_name for op in graph.ops if op.kind not in ("source", "sink")] == ops


@pytest.mark.exhaustive
@pytest.mark.parametrize("axis", [0, 1])
def test_on_and_off_agree(axis: int) -> None:
    x = np.random.default_rng(6).standard_normal((70, 90)).astype(np.float32)
    graph = top(x.shape, 9, axis)
    off = {"disabled": frozenset({"sort-rows"})}
    for a, b in zip(
        compile_model(graph).run(None, {"x": x}),
        compile_model(graph, **off).run(None, {"x": x}),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
