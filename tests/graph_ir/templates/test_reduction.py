"""Reductions in blocks of columns, along the result and along the terms, compiled: they agree in every shape."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc.base.dtypes import by_name
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.lowering.registry import get_func
from graphc.graph_ir.passes.fuse import fuse
from graphc.graph_ir.schedule.spaces import space_of
from graphc.graph_ir.templates.partial_sums import SERIAL_BLOCK
from graphc.graph_ir.templates.reduction import ROWS, column_block
from graphc.tensor_ir.nodes import For
from graphc.tensor_ir.visitor import walk_statements
from support.lowered import build, context

SHAPES = [
    ((ROWS, 16), (0,)),
    ((ROWS - 1, 33), (0,)),
    ((2 * ROWS + 3, 40), (0,)),
    ((SERIAL_BLOCK + 1, 17), (0,)),
    ((5, 7, 3, 40), (1, 2)),
    ((4, 3, 7, 7), (2, 3)),
    ((3, 50, 20, 35), (1, 2)),
    ((3, 5, 17), (0, 2)),
    ((6, 2500), (0,)),
    ((1, 9, 1, 32), (1,)),
]


def reduced(op_name: str, dims: tuple[int, ...], dtype: str = "f32", **attrs: object) -> Graph:
    graph = Graph("reduced")
    x = graph.make_input(LogicalTensor(by_name(dtype), dims), "x")
    graph.make_output(graph.make("neg", graph.make(op_name, [x], attrs).outputs).outputs[0])
    return graph


@pytest.mark.exhaustive
@pytest.mark.parametrize(("dims", "axes"), SHAPES)
def test_every_way_gives_the_same(dims: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = np.random.default_rng(3).integers(-9, 9, dims).astype(np.float32)
    for keep_dims in (True, False):
        graph = reduced("reduce_sum", dims, axes=axes, keep_dims=keep_dims)
        for off in (frozenset(), frozenset({"column-blocks"})):
            for threads in (1, 2):
                model = graphc.compile(graph, "native", threads, disabled=off)
                np.testing.assert_array_equal(model(x), -x.sum(axes, keepdims=keep_dims))


@pytest.mark.parametrize("op_name", ["reduce_max", "reduce_prod", "reduce_mean"])
@pytest.mark.parametrize("dtype", ["f16", "s32", "s64", "f64"])
def test_operations_and_types(op_name: str, dtype: str) -> None:
    graph = reduced(op_name, (11, 50), dtype, axes=(0,), keep_dims=False)
    x = np.random.default_rng(4).integers(1, 3, (11, 50)).astype(by_name(dtype).numpy)
    (expected,) = graph.evaluate([x])
    np.testing.assert_array_equal(graphc.compile(graph)(x), expected)


def test_nan_and_infinity_reach_their_column_alone() -> None:
    x = np.ones((3 * SERIAL_BLOCK, 40), np.float32)
    x[200, 3], x[201, 4] = np.inf, np.nan
    y = graphc.compile(reduced("reduce_sum", x.shape, axes=(0,), keep_dims=False))(x)
    np.testing.assert_array_equal(y, -x.sum(0))


def test_neighboring_axes_are_one_loop() -> None:
    """7 x 7 terms follow each other in memory, and so do the 4 x 3 results."""
    graph = build(
        {"x": (4, 3, 7, 7)}, lambda make, x: make("reduce_sum", x["x"], axes=(2, 3), keep_dims=True)
    )
    fuse(graph, context("avx2"))
    (op,) = [op for op in graph.ops if op.kind not in ("source", "sink")]
    space = space_of(op, context("avx2"))
    assert space is not None
    op.schedule = space.complete(space.pick)
    (function,) = get_func(op, context("avx2")).functions
    loops = [s for s in walk_statements(function.body) if isinstance(s, For)]
    assert [str(loop.end.value) for loop in loops] == ["12", "49"]


@pytest.mark.parametrize(
    ("dims", "tasks", "columns"),
    [
        ((1024,), 1, 512),
        ((1024,), 4, 256),
        ((3, 1024), 4, 512),
        ((16,), 2, 16),
        ((), 2, 0),
        ((0,), 1, 16),
    ],
)
def test_blocks_of_columns(dims: tuple[int, ...], tasks: int, columns: int) -> None:
    graph = Graph("x")
    x = graph.make_input(LogicalTensor(by_name("f32"), dims), "x")
    assert column_block(x, tasks, 32 << 10) == columns
