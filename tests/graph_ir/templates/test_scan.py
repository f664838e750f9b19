"""Cumulative sums and cumulative products: the same values for every length, direction and type, and the same bits on
any threads."""

import itertools

import numpy as np
import pytest

from graphc.base.dtypes import BF16, F16, F32, S32, S64, DType
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.schedule.scan import BLOCKS, CHAINS, COLUMNS
from support.compiled import run_native

GROUP = CHAINS[0] * BLOCKS[0]


def running(op_name: str, dims: tuple[int, ...], dtype: DType = S32, **attrs: object) -> Graph:
    graph = Graph("running")
    x = graph.make_input(LogicalTensor(dtype, dims), "x")
    graph.make_output(graph.make(op_name, [x], attrs).outputs[0], "y")
    return graph


@pytest.mark.exhaustive
@pytest.mark.parametrize("n", [1, 7, 8, 9, 100, GROUP - 1, GROUP, GROUP + 9, 3 * GROUP + 5])
@pytest.mark.parametrize("op_name", ["cum_sum", "cum_prod"])
def test_integers_are_exact(op_name: str, n: int) -> None:
    rng = np.random.default_rng(0)
    for (reverse, exclusive), axis in itertools.product(
        itertools.product((False, True), repeat=2), (0, 1)
    ):
        dims = (n, 3) if axis == 0 else (3, n)
        graph = running(op_name, dims, axis=axis, reverse=reverse, exclusive=exclusive)
        x = rng.integers(-3, 4, dims).astype(np.int32)
        (y,) = run_native(graph, [x])
        np.testing.assert_array_equal(y, graph.evaluate([x])[0], f"{reverse} {exclusive} {axis}")


@pytest.mark.parametrize("inner", [2, 15, COLUMNS[0], COLUMNS[0] + 3])
def test_columns(inner: int) -> None:
    x = np.random.default_rng(3).integers(-9, 9, (2, 5, inner))
    (y,) = run_native(running("cum_sum", x.shape, S64, axis=1), [x])
    np.testing.assert_array_equal(y, np.cumsum(x, 1))


@pytest.mark.parametrize("dims", [(0, 5), (5, 0), (2, 0, 3)])
def test_nothing_to_add(dims: tuple[int, ...]) -> None:
    x = np.zeros(dims, np.float32)
    assert run_native(running("cum_sum", dims, F32, axis=1), [x])[0].shape == dims


@pytest.mark.exhaustive
@pytest.mark.parametrize(("dtype", "tolerance"), [(F32, 2e-6), (F16, 1e-3), (BF16, 8e-3)])
@pytest.mark.parametrize("axis", [0, 1])
def test_floats(dtype: DType, tolerance: float, axis: int) -> None:
    x = np.random.default_rng(1).standard_normal((30, 1100)).astype(dtype.numpy)
    (y,) = run_native(running("cum_sum", x.shape, dtype, axis=axis), [x])
    exact = np.cumsum(x.astype(np.float64), axis)
    bound = tolerance * np.cumsum(np.abs(x.astype(np.float64)), axis)
    assert (np.abs(y.astype(np.float64) - exact) <= bound + tolerance).all()


def test_long_sums_are_more_accurate_than_one_addition_after_the_other() -> None:
    x = np.random.default_rng(2).random((1, 1 << 20), np.float32)
    (y,) = run_native(running("cum_sum", x.shape, F32, axis=1), [x])
    exact = np.cumsum(x.astype(np.float64), 1)
    ours, naive = (np.max(np.abs(z - exact) / exact) for z in (y, np.cumsum(x, 1, np.float32)))
    assert ours < naive / 10


def test_what_is_not_finite_spreads_from_its_position_on() -> None:
    x = np.ones((2000,), np.float32)
    x[1500] = np.inf
    x[1700] = -np.inf
    (y,) = run_native(running("cum_sum", (2000,), F32, axis=0), [x])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(y, np.cumsum(x))


@pytest.mark.parametrize("axis", [0, 1])
def test_threads_give_the_same_bits(axis: int) -> None:
    x = np.random.default_rng(4).standard_normal((100, 1000)).astype(np.float32)
    one, two = (
        compile_model(running("cum_sum", x.shape, F32, axis=axis), threads=threads)(x)
        for threads in (1, 2)
    )
    np.testing.assert_array_equal(one, two)
