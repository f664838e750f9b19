"""Running sums and products of long axes in blocks: the same values, for every length, direction and type."""

import itertools

import numpy as np
import pytest

from graphc.base.dtypes import F16, F32, S32, DType
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.split_scans import LONGEST, split_scans
from support.compiled import run_native
from support.lowered import context


def running(op_name: str, dims: tuple[int, ...], dtype: DType = S32, **attrs: object) -> Graph:
    graph = Graph("running")
    x = graph.make_input(LogicalTensor(dtype, dims), "x")
    graph.make_output(graph.make(op_name, [x], attrs).outputs[0], "y")
    return graph


@pytest.mark.parametrize("n", [LONGEST, LONGEST + 1, 81, 82, 100, 5000])
@pytest.mark.parametrize("op_name", ["cum_sum", "cum_prod"])
def test_integers_are_the_same(op_name: str, n: int) -> None:
    rng = np.random.default_rng(0)
    for (reverse, exclusive), axis in itertools.product(
        itertools.product((False, True), repeat=2), (0, 1)
    ):
        dims = (n, 2) if axis == 0 else (2, n)
        graph = running(op_name, dims, axis=axis, reverse=reverse, exclusive=exclusive)
        x = rng.integers(-3, 4, dims).astype(np.int32)
        (expected,) = graph.evaluate([x])
        assert split_scans(graph, context()) == (n > LONGEST)
        np.testing.assert_array_equal(graph.evaluate([x])[0], expected)
        longest = [
            op.inputs[0].details.plain_dims[op.attr("axis")]
            for op in graph.ops
            if op.op_name == op_name
        ]
        assert max(longest) <= LONGEST


@pytest.mark.parametrize(("dtype", "tolerance"), [(F32, 2e-6), (F16, 1e-3)])
def test_floats_natively(dtype: DType, tolerance: float) -> None:
    x = np.random.default_rng(1).standard_normal((3, 1000)).astype(dtype.numpy)
    (y,) = run_native(running("cum_sum", (3, 1000), dtype, axis=1), [x])
    exact = np.cumsum(x.astype(np.float64), 1)
    bound = tolerance * np.cumsum(np.abs(x.astype(np.float64)), 1)
    assert (np.abs(y.astype(np.float64) - exact) <= bound + tolerance).all()


def test_what_is_not_finite_spreads_from_its_place_on() -> None:
    x = np.ones((200,), np.float32)
    x[150] = np.inf
    x[170] = -np.inf
    (y,) = run_native(running("cum_sum", (200,), F32, axis=0), [x])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(y, np.cumsum(x))
