"""Kernels of singular values and eigenvalues: between guard pages, and on matrices that are hard for them."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32, F64, DType
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.tools.fuzz.guarded import guarded, guarded_copy

SIZES = ((2, 5, 7), (17, 17), (3, 1, 9), (15, 33), (2, 0, 3))
RNG = np.random.default_rng(9)


def transposed(x: Array) -> Array:
    return x.swapaxes(-1, -2)


def wide(*arrays: Array) -> list[Array]:
    return [x.astype(np.float64) for x in arrays]


def run(name: str, a: Array, **options: object) -> list[Array]:
    graph = Graph(name)
    dtype = F32 if a.dtype == np.float32 else F64
    for y in graph.make(name, [graph.make_input(LogicalTensor(dtype, a.shape), "a")]).outputs:
        graph.make_output(y)
    return wide(*compile_model(graph, **options)(a))  # type: ignore[arg-type]


def check_singular(a: Array, left: Array, values: Array, right: Array) -> None:
    eps, size = np.finfo(a.dtype).eps, max(a.shape[-2:])
    (a,) = wide(a)
    wanted = np.linalg.svd(a, compute_uv=False)
    limit = 4 * eps * size * wanted.max(initial=1e-30)
    np.testing.assert_allclose(values, wanted, atol=limit)
    np.testing.assert_allclose(transposed(left) @ (values[..., None] * right), a, atol=limit)
    np.testing.assert_allclose(
        left @ transposed(left) - np.eye(left.shape[-1]), 0, atol=4 * eps * size
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ["native", "avx2"])
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_every_size_between_guard_pages(dtype: DType, isa: str) -> None:
    graph, arrays = Graph("rotations"), [RNG.standard_normal(n).astype(dtype.numpy) for n in SIZES]
    for i, a in enumerate(arrays):
        x = graph.make_input(LogicalTensor(dtype, a.shape), f"x{i}")
        for y in graph.make("svd", [x]).outputs:
            graph.make_output(y)
        if a.shape[-1] == a.shape[-2]:
            for y in graph.make("eigh", [x]).outputs:
                graph.make_output(y)
    expected = graph.evaluate(arrays)
    inputs = {f"x{i}": guarded_copy(a, "end") for i, a in enumerate(arrays)}
    outputs = [guarded(y.shape, y.dtype, "end") for y in expected]
    compile_model(graph, target=isa, threads=1).bind(inputs, outputs)()
    for result, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(result, wanted, atol=1e-4 if dtype == F32 else 1e-12)


def hard(dtype: type[np.floating]) -> dict[str, Array]:
    """Square matrices of size 24: of low rank, of equal values, of values over many decades, huge and tiny."""
    x = RNG.standard_normal((24, 24))
    q, _ = np.linalg.qr(x)
    decades = 10.0 ** -np.linspace(0, 30, 24)
    low = RNG.integers(-3, 4, (24, 3)) @ RNG.integers(-3, 4, (3, 24))
    found = {
        "low rank": low, "zero": 0 * x, "identity": np.eye(24), "ones": np.ones((24, 24)),
        "equal": q @ np.diag([1.0] * 12 + [-2.0] * 12) @ q.T, "decades": decades[:, None] * x,
        "huge": 1e30 * x, "tiny": 1e-30 * x, "permutation": np.eye(24)[RNG.permutation(24)],
    }  # fmt: skip
    return {name: a.astype(dtype) for name, a in found.items()}


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", hard(np.float32))
def test_hard_matrices(name: str, dtype: type[np.floating]) -> None:
    a = hard(dtype)[name]
    left, values, right = run("svd", a)
    check_singular(a, left, values, right)
    if name == "decades":  # each row by itself is right to the precision of the type
        tail = values[values > 1e-15]
        wanted = np.linalg.svd(a.astype(np.longdouble).astype(np.float64), compute_uv=False)
        np.testing.assert_allclose(tail[:8], wanted[:8], rtol=1e3 * float(np.finfo(dtype).eps))
    symmetric = a + a.T
    vectors, values = run("eigh", symmetric)
    eps, (wanted,) = float(np.finfo(dtype).eps), wide(symmetric)
    limit = 100 * eps * max(float(np.linalg.norm(wanted)), 1e-36)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(wanted), atol=limit)
    np.testing.assert_allclose(
        transposed(vectors) @ (values[:, None] * vectors), wanted, atol=limit
    )
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(24), atol=100 * eps)


def test_a_batch_on_two_threads() -> None:
    a = RNG.standard_normal((6, 40, 50)).astype(np.float32)
    check_singular(a, *run("svd", a, threads=2))
    one, two = (run("eigh", a[:, :, :40].copy(), threads=threads) for threads in (1, 2))
    for x, y in zip(one, two, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_end(value: float) -> None:
    a = np.full((5, 5), value, np.float32)
    assert not np.isfinite(run("svd", a)[1]).any()
    assert not np.isfinite(run("eigh", a)[1]).any()
