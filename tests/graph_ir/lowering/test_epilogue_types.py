"""Epilogues read the result dtype of their matmul: integers wrap before the next op."""

import numpy as np
import pytest

from graphc.base.dtypes import S8, U8, DType
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.compiled import run_native


@pytest.mark.parametrize("dtype", [S8, U8])
@pytest.mark.parametrize("after", ["relu", "pow", "max"])
@pytest.mark.parametrize("kind", ["matmul_core", "convolution"])
def test_bytes_wrap_before_the_next_op(kind: str, after: str, dtype: DType) -> None:
    rng = np.random.default_rng(0)
    dims, weights = (
        ((24, 40), (40, 32)) if kind == "matmul_core" else ((1, 40, 5, 5), (32, 40, 3, 3))
    )
    graph = Graph("bytes")
    x = graph.make_input(LogicalTensor(dtype, dims), "x")
    w = graph.make_constant(rng.integers(0, 9, weights).astype(dtype.numpy))
    matmul = graph.make(kind, [x, w]).outputs[0]
    other = graph.make_constant(np.array(3, dtype.numpy))
    operands = [matmul] if after == "relu" else [matmul, other]
    graph.make_output(graph.make(after, operands).outputs[0], "y")
    array = rng.integers(0, 9, dims).astype(dtype.numpy)
    (expected,) = graph.evaluate([array])
    np.testing.assert_array_equal(run_native(graph, [array])[0], expected)
