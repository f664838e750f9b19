"""Row sorts between guard pages: every type, rows with equal values, NaN and infinities, few and all elements kept."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dims import Symbol, size
from graphc.base.dtypes import ALL, F32, S64, DType
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.schedule.sort_rows import FEW, GROUPS
from graphc.graph_ir.templates.radix_sort import BLOCK, INSERTED, WIDE_ROWS
from graphc.tools.fuzz.guarded import Edge, guarded, guarded_copy

EDGES: tuple[Edge, ...] = ("start", "end")
SMALL = GROUPS * FEW
SHAPES = (
    (3, 1, 1), (3, 5, 5), (2, INSERTED + 1, INSERTED), (2, SMALL - 1, 3), (2, SMALL, 3), (2, SMALL + BLOCK + 1, 20),
    (1, 700, 140), (1, WIDE_ROWS + 3, WIDE_ROWS),
)  # fmt: skip


def awkward(dtype: DType, rows: int, n: int) -> Array:
    """Many equal values; floats have both zeros, infinities and NaN."""
    rng = np.random.default_rng(n)
    value = np.round(rng.standard_normal((rows, n)) * 30)
    if not dtype.is_float:
        return (value if dtype.is_signed else np.abs(value)).astype(dtype.numpy)
    for special in (0.0, -0.0, np.inf, -np.inf, np.nan):
        value[rng.random((rows, n)) < 0.05] = special
    return value.astype(dtype.numpy)


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ["native", "avx2"])
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_type_between_guard_pages(dtype: DType, isa: str) -> None:
    graph, arrays = Graph("sorts"), list[Array]()
    for rows, n, k in SHAPES:
        x = graph.make_input(LogicalTensor(dtype, (rows, n)), f"x{len(arrays)}")
        attrs = {"k": k, "largest": len(arrays) % 2 == 0}
        for y in graph.make("sort_rows", [x], attrs).outputs:
            graph.make_output(y)
        arrays.append(awkward(dtype, rows, n))
    expected, model = graph.evaluate(arrays), compile_model(graph, target=isa)
    for at in EDGES:
        inputs = {f"x{i}": guarded_copy(a, at) for i, a in enumerate(arrays)}
        outputs = [guarded(y.shape, y.dtype, at) for y in expected]
        model.bind(inputs, outputs)()
        for result, wanted in zip(outputs, expected, strict=True):
            np.testing.assert_array_equal(result.view(np.uint8), wanted.view(np.uint8))


@pytest.mark.exhaustive
@pytest.mark.parametrize("value", [np.arange(5000.0), np.arange(5000.0)[::-1], np.zeros(5000)])
@pytest.mark.parametrize("k", [1, 50, 5000])
def test_rows_that_are_sorted_already_or_equal(value: Array, k: int) -> None:
    x = np.stack([value, value]).astype(np.float32)
    found = compile_model(top(F32, x.shape, k)).run(None, {"x": x})
    for y, wanted in zip(found, top(F32, x.shape, k).evaluate([x]), strict=True):
        np.testing.assert_array_equal(y, wanted)


@pytest.mark.exhaustive
@pytest.mark.parametrize("k", [FEW, 50, 400])
@pytest.mark.parametrize("largest", [True, False])
def test_few_different_values_between_guard_pages(largest: bool, k: int) -> None:
    """Rows of ties that begin and end before, at and after the k-th: no more than k of them are sorted."""
    n = 5003
    x = np.zeros((6, n), np.float32)
    x[1] = np.arange(n) % 2
    x[2] = np.arange(n) % 3 - 1
    x[2][x[2] == 0] = -0.0
    x[3, 1 - k :] = 1
    x[4, : k + 1] = -np.inf
    x[5] = np.where(np.arange(n) % 7 == 0, np.nan, np.inf)
    graph = top(F32, x.shape, k, largest=largest)
    expected, model = graph.evaluate([x]), compile_model(graph)
    for at in EDGES:
        outputs = [guarded(y.shape, y.dtype, at) for y in expected]
        model.bind({"x": guarded_copy(x, at)}, outputs)()
        for result, wanted in zip(outputs, expected, strict=True):
            np.testing.assert_array_equal(result.view(np.uint8), wanted.view(np.uint8))


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", [F32, S64], ids=str)
@pytest.mark.parametrize("k", [50, 20_000, 140_001])
def test_rows_that_fit_no_stack(dtype: DType, k: int) -> None:
    x = awkward(dtype, 1, 140_001)
    found = compile_model(top(dtype, x.shape, k)).run(None, {"x": x})
    for y, wanted in zip(found, top(dtype, x.shape, k).evaluate([x]), strict=True):
        np.testing.assert_array_equal(y.view(np.uint8), wanted.view(np.uint8))


@pytest.mark.parametrize("rows", [1, 3, 5])
def test_tasks_have_entries_of_their_own(rows: int) -> None:
    x = np.random.default_rng(rows).integers(-999, 999, (rows, 9000))
    found = compile_model(top(S64, x.shape, 9000), threads=4).run(None, {"x": x})
    for y, wanted in zip(found, top(S64, x.shape, 9000).evaluate([x]), strict=True):
        np.testing.assert_array_equal(y, wanted)


def test_threads_share_rows() -> None:
    x = np.random.default_rng(5).integers(-99, 99, (64, 600))
    one, two = (
        compile_model(top(S64, x.shape, 7), threads=threads).run(None, {"x": x})
        for threads in (1, 2)
    )
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


def top(dtype: DType, dims: tuple[int, ...], k: int, axis: int = -1, largest: bool = True) -> Graph:
    graph = Graph("top")
    x = graph.make_input(LogicalTensor(dtype, dims), "x")
    for y in graph.make("top_k", [x], {"k": k, "axis": axis, "largest": largest}, "op").outputs:
        graph.make_output(y)
    return graph


@pytest.mark.exhaustive
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", [F32, S64], ids=str)
@pytest.mark.parametrize(("k", "axis"), [(1, 1), (10, 1), (40, 1), (10, 0)])
def test_rows_of_dynamic_size(dtype: DType, k: int, axis: int, threads: int) -> None:
    """Rows that are too short for a selection, and rows that are not."""
    first, second = (
        size(Symbol(name, 40 if axis == at else 1, 4096)) for at, name in enumerate("NS")
    )
    graph = top(dtype, (first, second), k, axis)
    with compile_model(graph, threads=threads) as model:
        for rows, n in ((1, 40), (5, 41), (2, GROUPS * FEW), (3, 4 * GROUPS * FEW + 5)):
            given = awkward(dtype, rows, n)
            given = given if axis == 1 else np.ascontiguousarray(given.T)
            wanted = top(dtype, given.shape, k, axis).evaluate([given])
            for y, expected in zip(model.run(None, {"x": given}), wanted, strict=True):
                np.testing.assert_array_equal(y.view(np.uint8), expected.view(np.uint8))
