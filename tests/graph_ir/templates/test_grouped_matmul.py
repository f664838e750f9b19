"""Matmuls of groups of rows between guard pages, on one thread and two."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32, F64, S32, S64, DType
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.tools.fuzz.guarded import guarded, guarded_copy

CASES: tuple[tuple[int, tuple[int, ...], list[int]], ...] = (
    (31, (3, 2, 5, 64), [17, 17, 29]),
    (8, (2, 1, 7, 20), [8, 8]),
    (5, (3, 2, 1, 1), [-3, 4, 2]),
    (1, (2, 3, 4, 16), [0, 1]),
    (4, (0, 2, 3, 8), []),
)
"""Rows, panels, and where groups end."""


def model(dtype: DType) -> tuple[Graph, list[Array]]:
    """A graph of every case."""
    graph, arrays, rng = Graph("groups"), list[Array](), np.random.default_rng(6)
    for number, (rows, panels, ends) in enumerate(CASES):
        kind = S32 if number % 2 else S64
        given = (rng.standard_normal((rows, panels[2])), rng.standard_normal(panels))
        arrays += [*(x.astype(dtype.numpy) for x in given), np.array(ends, kind.numpy)]
        inputs = [
            graph.make_input(LogicalTensor(t, x.shape), f"x{len(arrays) - 3 + i}")
            for i, (t, x) in enumerate(zip((dtype, dtype, kind), arrays[-3:], strict=True))
        ]
        graph.make_output(graph.make("grouped_matmul", inputs).outputs[0])
    return graph, arrays


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ["native", "avx2", "generic"])
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_every_case_between_guard_pages(dtype: DType, isa: str) -> None:
    graph, arrays = model(dtype)
    expected = graph.evaluate(arrays)
    inputs = {f"x{i}": guarded_copy(a, "end") for i, a in enumerate(arrays)}
    outputs = [guarded(y.shape, y.dtype, "end") for y in expected]
    compile_model(graph, target=isa, threads=1).bind(inputs, outputs)()
    for result, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(result, wanted, atol=1e-5 if dtype == F32 else 1e-12)


def test_tasks_of_two_threads_give_the_same_bits() -> None:
    rng = np.random.default_rng(8)
    graph, ends = Graph("groups"), np.array([40, 41, 90])
    weights = rng.standard_normal((3, 8, 96, 64), dtype=np.float32)
    a = graph.make_input(LogicalTensor(F32, (100, 96)), "a")
    at = graph.make_input(LogicalTensor(S64, (3,)), "ends")
    graph.make_output(
        graph.make("grouped_matmul", [a, graph.make_constant(weights, "b"), at]).outputs[0]
    )
    x = rng.standard_normal((100, 96), dtype=np.float32)
    one, two = (compile_model(graph, threads=n)(x, ends) for n in (1, 2))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_allclose(one, graph.evaluate([x, ends])[0], atol=1e-4)
