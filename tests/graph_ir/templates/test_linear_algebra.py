"""Solutions and factors of batches of matrices, between guard pages, on one thread and two."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32, F64, DType
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.templates.linear_algebra import COLUMNS
from graphc.tools.fuzz.guarded import guarded, guarded_copy

SIZES = ((2, 5, 3), (1, 17, COLUMNS + 6), (3, 1, 1), (1, 33, 1), (2, 3, 0))
"""Matrices, rows, right sides."""


def model(dtype: DType) -> tuple[Graph, list[Array]]:
    """A graph of every op at every size."""
    graph, arrays, rng = Graph("matrices"), list[Array](), np.random.default_rng(6)

    def add(value: Array) -> object:
        arrays.append(value.astype(dtype.numpy))
        return graph.make_input(LogicalTensor(dtype, value.shape), f"x{len(arrays) - 1}")

    for count, n, m in SIZES:
        a = add(rng.standard_normal((count, n, n)) + 4 * n * np.eye(n))
        b = add(rng.standard_normal((count, n, m)))
        for flags in itertools.product([False, True], repeat=3):
            attrs = dict(zip(("lower", "transpose_a", "unit_diagonal"), flags, strict=True))
            if flags[2] and n > 5:
                continue  # a unit diagonal lets rounding errors grow with each row
            graph.make_output(graph.make("triangular_solve", [a, b], attrs).outputs[0])  # type: ignore[list-item]
        for op_name, x in (("cholesky", a), ("lu", a), ("lu", b)):
            for y in graph.make(op_name, [x]).outputs:  # type: ignore[list-item]
                graph.make_output(y)
    return graph, arrays


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ["native", "avx2"])
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_every_size_between_guard_pages(dtype: DType, isa: str) -> None:
    graph, arrays = model(dtype)
    expected = graph.evaluate(arrays)
    inputs = {f"x{i}": guarded_copy(a, "end") for i, a in enumerate(arrays)}
    outputs = [guarded(y.shape, y.dtype, "end") for y in expected]
    compile_model(graph, target=isa, threads=1).bind(inputs, outputs)()
    for result, wanted in zip(outputs, expected, strict=True):
        scale = float(np.abs(wanted).max(initial=1))
        np.testing.assert_allclose(result, wanted, atol=scale * (1e-4 if dtype == F32 else 1e-10))


def test_tasks_of_two_threads() -> None:
    rng = np.random.default_rng(8)
    a, b = rng.standard_normal((6, 80, 80)) + 200 * np.eye(80), rng.standard_normal((6, 80, 150))
    graph = Graph("solve")
    left, right = (
        graph.make_input(LogicalTensor(F64, x.shape), name) for x, name in ((a, "a"), (b, "b"))
    )
    graph.make_output(graph.make("triangular_solve", [left, right]).outputs[0])
    graph.make_output(graph.make("lu", [left]).outputs[0])
    model = compile_model(graph, threads=2)
    for found, wanted in zip(model(a, b), graph.evaluate([a, b]), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-10)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "name",
    ["cholesky", "lu", "triangular_solve", "householder", "householder_product", "svd", "eigh"],
)
def test_a_dynamic_batch(name: str) -> None:
    rng, batch, graph = np.random.default_rng(2), size(Symbol("B", 0)), Graph("batch")
    right = {"triangular_solve": (5, 3), "householder_product": (5,)}.get(name)
    x = graph.make_input(LogicalTensor(F64, (batch, 5, 5)), "x")
    others = [] if right is None else [graph.make_input(LogicalTensor(F64, (batch, *right)), "y")]
    op = graph.make(name, [x, *others])
    for y in op.outputs:
        graph.make_output(y)
    model = compile_model(graph)
    for count in (0, 1, 4):
        a = rng.standard_normal((count, 5, 5))
        arrays = [a @ a.swapaxes(1, 2) + np.eye(5)]
        arrays += [] if right is None else [rng.standard_normal((count, *right))]
        found = model(*arrays)
        expected = op.reference(arrays)
        for mine, wanted in zip(found if len(expected) > 1 else (found,), expected, strict=True):
            np.testing.assert_allclose(mine, wanted, atol=1e-10)
