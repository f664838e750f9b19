"""Sorts of keys of 64 bits by their upper half, and by all digits where that tells few apart."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F64, S64, DType
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor


def sorted_row(dtype: DType, n: int) -> Graph:
    graph = Graph("sorted")
    x = graph.make_input(LogicalTensor(dtype, (1, n)), "x")
    for y in graph.make("sort_rows", [x], {"k": n, "largest": False}).outputs:
        graph.make_output(y)
    return graph


@pytest.mark.parametrize("low", [0, 1, 40, 3000])
@pytest.mark.parametrize("dtype", [S64, F64], ids=str)
def test_keys_that_agree_in_their_upper_half(dtype: DType, low: int) -> None:
    """None, some of them next to each other, or enough that all digits are distributed."""
    rng = np.random.default_rng(low)
    bits = rng.integers(1 << 40, 1 << 44, 6000) << 18
    bits[:low] = (5 << 50) + rng.integers(0, 9, low)
    rng.shuffle(bits)
    x = (bits.view(np.float64) if dtype == F64 else bits)[None]
    found = compile_model(sorted_row(dtype, x.size)).run(None, {"x": x})
    for y, wanted in zip(found, sorted_row(dtype, x.size).evaluate([x]), strict=True):
        np.testing.assert_array_equal(y, wanted)
