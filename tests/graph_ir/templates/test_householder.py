"""Kernels of reflections between guard pages, at sizes around a vector, and on two threads."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32, F64, DType
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.tools.fuzz.guarded import guarded, guarded_copy

SIZES = ((2, 5, 3), (17, 17), (3, 1, 9), (9, 1), (16, 33), (2, 0, 3), (33, 8))


def model(dtype: DType, sizes: tuple[tuple[int, ...], ...]) -> tuple[Graph, list[Array]]:
    """A graph of both ops at these sizes."""
    graph, arrays, rng = Graph("reflections"), list[Array](), np.random.default_rng(6)
    for dims in sizes:
        arrays.append(rng.standard_normal(dims).astype(dtype.numpy))
        x = graph.make_input(LogicalTensor(dtype, dims), f"x{len(arrays) - 1}")
        packed, scales = graph.make("householder", [x]).outputs
        graph.make_output(packed)
        if dims[-2] >= dims[-1]:
            graph.make_output(graph.make("householder_product", [packed, scales]).outputs[0])
    return graph, arrays


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ["native", "avx2"])
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_every_size_between_guard_pages(dtype: DType, isa: str) -> None:
    graph, arrays = model(dtype, SIZES)
    expected = graph.evaluate(arrays)
    inputs = {f"x{i}": guarded_copy(a, "end") for i, a in enumerate(arrays)}
    outputs = [guarded(y.shape, y.dtype, "end") for y in expected]
    compile_model(graph, target=isa, threads=1).bind(inputs, outputs)()
    for result, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(result, wanted, atol=1e-5 if dtype == F32 else 1e-13)


def test_a_batch_on_two_threads_and_large_numbers() -> None:
    graph, (x,) = model(F32, ((6, 60, 60),))
    x = x * np.float32(1e30)
    packed, q = compile_model(graph, threads=2)(x)
    error = np.abs(q.astype(np.float64) @ np.triu(packed).astype(np.float64) - x).max()
    assert error < 1e-5 * np.abs(x).max()
