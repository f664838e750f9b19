"""Long sums in compiled models: their errors, and the same bits for every number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc import Graph
from graphc.base.dims import Size, Symbol, size
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.templates.partial_sums import SERIAL_BLOCK, VECTOR_BLOCK

UNIT = 2.0**-24


def compiled(op_name, arrays, threads=1, target="native", **attrs):
    graph = Graph("g")
    tensors = [graph.make_input(LogicalTensor(F32, a.shape), f"x{i}") for i, a in enumerate(arrays)]
    graph.make_output(graph.make(op_name, tensors, attrs).outputs[0])
    return graphc.compile(graph, target, threads)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((2_000_003,), (0,)),
        ((100_001, 3), (0,)),
        ((3, VECTOR_BLOCK + 1), (1,)),
        ((2, 5, VECTOR_BLOCK // 4), (1, 2)),
        ((2 * SERIAL_BLOCK + 1, 2, 5), (0,)),
        ((7, 300, 40, 2), (1, 2)),
    ],
)
@pytest.mark.parametrize("target", ["native", "avx2", "generic"])
def test_sums_of_positive_numbers_lose_few_units(shape, axes, target):
    x = np.random.default_rng(0).random(shape, np.float32)
    exact = x.astype(np.float64).sum(axes)
    got = compiled("reduce_sum", [x], target=target, axes=axes)(x)
    assert np.abs(got - exact).max() <= 8 * UNIT * exact.max()


def test_more_than_one_block_of_whole_numbers_is_exact():
    x = np.random.default_rng(0).integers(-9, 9, (3 * SERIAL_BLOCK + 5, 7)).astype(np.float32)
    got = compiled("reduce_sum", [x], axes=(0,))(x)
    np.testing.assert_array_equal(got, x.sum(0))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_stays_so(value):
    x = np.ones((1000, 2), np.float32)
    x[500, 0] = value
    got = compiled("reduce_sum", [x], axes=(0,))(x)
    np.testing.assert_array_equal(got, [value, 1000])


def test_threads_do_not_change_a_bit():
    x = np.random.default_rng(0).standard_normal((5000, 64)).astype(np.float32)
    one, three = (compiled("reduce_sum", [x], threads, axes=(0,))(x) for threads in (1, 3))
    np.testing.assert_array_equal(one, three)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("k", "most"), [(4096, 2.0), (65536, 0.6)])
def test_matmuls_add_blocks_of_k(k, most):
    """In units of what rounding once per term would lose; one chain of k terms loses 3.4 times that."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((32, k), (k, 48)))
    terms = np.abs(a).astype(float) @ np.abs(b).astype(float)
    got = compiled("matmul_core", [a, b])(a, b)
    assert (np.abs(got - a.astype(float) @ b) / (UNIT * terms)).max() <= most


def test_layer_norm_far_from_zero_loses_no_more_than_its_mean():
    x = (1e5 + np.random.default_rng(0).standard_normal((16, 768))).astype(np.float32)
    wide = x.astype(np.float64)
    centered = wide - wide.mean(1, keepdims=True)
    exact = centered / np.sqrt(np.square(centered).mean(1, keepdims=True) + 1e-5)
    got = compiled("layer_norm", [x])(x)
    assert np.abs(got - exact).max() <= 5e-3  # half a unit of 1e5 is 3.9e-3


def reduced(dims: tuple[Size, ...], axes: tuple[int, ...]) -> Graph:
    graph = Graph("reduced")
    x = graph.make_input(LogicalTensor(F32, dims), "x")
    graph.make_output(graph.make("reduce_sum", [x], {"axes": axes}).outputs[0], "y")
    return graph


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("dims", "axes"),
    [
        (("N", 4, 5), (0,)),
        ((4, "N", 5), (1,)),
        ((4, "N", 1), (1, 2)),
        (("N", 2, 90, 7), (2, 3)),
        ((3, "N", 5), (2,)),
    ],
)
def test_sums_of_dynamic_sizes_have_the_bits_of_the_sum_of_that_size(dims, axes):
    """The number of full blocks is known at run time and may be 0; some sizes have no remainder."""
    n = size(Symbol("N"))
    model = graphc.compile(reduced(tuple(n if d == "N" else d for d in dims), axes), threads=1)
    for number in (1, 3, 256, 300, 3280):
        fixed = tuple(number if d == "N" else d for d in dims)
        x = np.random.default_rng(number).standard_normal(fixed).astype(np.float32)
        alone = graphc.compile(reduced(fixed, axes), threads=1)
        assert model(x).tobytes() == alone(x).tobytes(), fixed
