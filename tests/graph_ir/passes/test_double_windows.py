"""Large windows are reduced in passes: which, that results are those of reading each window, and sums stay exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import BF16, BOOL, F32, F64, S8, S32, DType
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.double_windows import double_windows
from support.lowered import context


def pool(op_name: str, dtype: DType, dims: tuple[int, ...], **attrs: Any) -> Graph:
    graph = Graph("pool")
    x = graph.make_input(LogicalTensor(dtype, dims), "x")
    graph.make_output(graph.make(op_name, [x], attrs, "op").outputs[0])
    return graph


def values(dtype: DType, dims: tuple[int, ...]) -> Array:
    rng = np.random.default_rng(sum(dims))
    if dtype == BOOL:
        return rng.random(dims) < 0.01
    found = rng.integers(-3, 4, dims).astype(dtype.numpy)
    if dtype.is_float:
        found[rng.random(dims) < 0.002] = np.nan
    return found


@pytest.mark.parametrize(
    ("dims", "attrs", "is_doubled"),
    [
        ((1, 8, 4000), {"kernel": (500,)}, True),
        ((1, 8, 4000), {"kernel": (500,), "strides": (500,)}, False),
        ((1, 8, 4000), {"kernel": (3,)}, False),
        ((1, 8, 64, 64), {"kernel": (3, 3)}, False),
        ((1, 8, 256, 256), {"kernel": (99, 99)}, True),
        ((1, 2, 320, 320), {"kernel": (256, 256)}, True),  # rows of all columns, for few results
        ((1, 64, 112, 112), {"kernel": (3, 3), "strides": (2, 2), "before": (1, 1), "after": (1, 1)}, False),
        ((1, 64, 56, 56), {"kernel": (56, 56)}, False),
        ((2, 4, 32, 32, 32), {"kernel": (5, 5, 5)}, True),
    ],
)  # fmt: skip
def test_windows_are_chosen_by_cost(
    dims: tuple[int, ...], attrs: dict[str, Any], is_doubled: bool
) -> None:
    graph = pool("max_pool", F32, dims, **attrs)
    assert double_windows(graph, context()) == is_doubled
    assert any(op.op_name == "max_pool" for op in graph.ops) != is_doubled


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("op_name", "dtype"),
    [("max_pool", F32), ("max_pool", BF16), ("max_pool", S8), ("max_pool", BOOL), ("min_pool", F64), ("min_pool", BOOL),
     ("sum_pool", F32), ("sum_pool", BF16), ("sum_pool", S32), ("prod_pool", F32), ("avg_pool", F32), ("lp_pool", F32),
     ("max_pool_indices", F32), ("max_pool_indices", S8)],
)  # fmt: skip
@pytest.mark.parametrize(
    ("dims", "attrs"),
    [
        ((3, 300), {"kernel": (255,)}),
        ((2, 300), {"kernel": (64,), "before": (40,), "after": (63,), "ceil_mode": True}),
        ((1, 2, 700), {"kernel": (100,), "dilations": (3,), "strides": (2,), "before": (99,)}),
        ((1, 2, 61, 67), {"kernel": (33, 31), "before": (16, 9), "after": (15, 30)}),
        ((1, 1, 40, 90), {"kernel": (1, 80)}),
    ],
)
def test_results_are_those_of_reading_each_window(
    op_name: str, dtype: DType, dims: tuple[int, ...], attrs: dict[str, Any]
) -> None:
    graph = pool(op_name, dtype, dims, **attrs)
    x = values(dtype, dims)
    if op_name == "prod_pool":
        x = np.sign(x) + (x == 0)  # values stay in range
    (expected,) = graph.evaluate([x])
    (found,) = compile_model(graph).run(None, {"x": x})
    if op_name in ("avg_pool", "lp_pool"):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    else:
        wide = np.float32 if dtype == BF16 else found.dtype
        np.testing.assert_array_equal(found.astype(wide), expected.astype(wide))


def test_sums_are_as_exact_as_sums_of_parts() -> None:
    """A large element outside a window does not disturb the sum of the window."""
    x = np.ones((1, 1, 9000), np.float32)
    x[..., 4000] = 1e20
    (found,) = compile_model(pool("sum_pool", F32, x.shape, kernel=(999,))).run(None, {"x": x})
    (is_small,) = np.nonzero(found[0, 0] < 1e19)
    assert is_small.size == found.shape[-1] - 999
    np.testing.assert_array_equal(found[0, 0, is_small], np.float32(999))


def test_off_and_on_agree() -> None:
    x = values(S32, (2, 3, 900))
    graph = pool("max_pool", S32, x.shape, kernel=(300,))
    on, off = (
        compile_model(graph, disabled=frozenset(names)).run(None, {"x": x})[0]
        for names in ((), ("double-windows",))
    )
    np.testing.assert_array_equal(on, off)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kernel", [(3,), (1, 3)])
@pytest.mark.parametrize("op_name", ["max_pool", "avg_pool"])
def test_rows_that_fit_no_stack(kernel: tuple[int, ...], op_name: str) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (1, 1, *(1,) * (len(kernel) - 1), 800_001))
    x = x.astype(np.float32)
    graph = pool(op_name, F32, x.shape, kernel=kernel)
    (found,) = compile_model(graph).run(None, {"x": x})
    np.testing.assert_allclose(found, graph.evaluate([x])[0], rtol=1e-6)


def test_depthwise_convolutions_of_rows_that_fit_no_stack() -> None:
    rng, channels, length = np.random.default_rng(3), 2, 800_001
    x = rng.integers(-9, 9, (1, channels, length)).astype(np.float32)
    w = rng.integers(-9, 9, (channels, 1, 3)).astype(np.float32)
    graph = Graph("convolution")
    inputs = [graph.make_input(LogicalTensor(F32, a.shape), n) for a, n in ((x, "x"), (w, "w"))]
    attrs = {"groups": channels, "before": (1,), "after": (1,)}
    graph.make_output(graph.make("convolution", inputs, attrs, "op").outputs[0])
    (found,) = compile_model(graph).run(None, {"x": x, "w": w})
    wide = np.pad(x, [(0, 0), (0, 0), (1, 1)])
    expected = sum(wide[..., tap : tap + length] * w[:, :, tap] for tap in range(3))
    np.testing.assert_array_equal(found, expected)
