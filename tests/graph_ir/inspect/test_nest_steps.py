"""The steps of a matmul kernel: each runs in the interpreter and computes the same."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import BF16, F32, DType
from graphc.graph_ir.inspect.nest_steps import nest_steps
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.matmul import MatmulCore
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import Module
from support.lowered import context


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_every_step_of_a_kernel_computes_the_same(dtype: DType) -> None:
    graph = Graph("steps")
    a = graph.make_input(LogicalTensor(dtype, (13, 9)), "a")
    b = graph.make_input(LogicalTensor(dtype, (9, 26)), "b")
    graph.make_output(graph.make("matmul_core", (a, b)).outputs[0])
    op = next(op for op in graph.ops if isinstance(op, MatmulCore))
    rng = np.random.default_rng(0)
    left, right = (
        rng.integers(-4, 5, shape).astype(np.float32).astype(dtype.numpy)
        for shape in ((13, 9), (9, 26))
    )
    wanted = (left.astype(np.float32) @ right.astype(np.float32)).astype(dtype.numpy)
    steps = list(nest_steps(op, context()))
    assert steps[0][0] == "contraction" and steps[-1][0].startswith("tensorize")
    for step, function in steps:
        result = np.zeros((13, 26), dtype.numpy)
        arrays = [left.reshape(-1), right.reshape(-1), result.reshape(-1)]
        interpreter.run(Module((function,)), function.name, arrays)
        np.testing.assert_array_equal(result, wanted, err_msg=step)


def test_other_ops_have_no_steps() -> None:
    graph = Graph("other")
    x = graph.make_input(LogicalTensor(F32, (4,)), "x")
    op = graph.make("relu", (x,))
    assert list(nest_steps(op, context())) == []
