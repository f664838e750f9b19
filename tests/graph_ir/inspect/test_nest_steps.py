"""The steps of matmul and convolution kernels: each runs in the interpreter and computes the same."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from graphc.base.dtypes import BF16, F32, DType
from graphc.graph_ir.inspect.nest_steps import nest_steps
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.convolution_direct import DirectConvolution
from graphc.graph_ir.ops.matmul import MatmulCore
from graphc.graph_ir.schedule.query_format import query_format
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


def test_every_step_of_a_convolution_computes_the_same() -> None:
    graph = Graph("steps")
    x = graph.make_input(LogicalTensor(F32, (1, 3, 6, 5)), "x")
    w = graph.make_input(LogicalTensor(F32, (8, 3, 3, 3)), "w")
    attrs = {"before": (1, 1), "after": (1, 1)}
    graph.make_output(graph.make("direct_convolution", (x, w), attrs).outputs[0])
    (op,) = (op for op in graph.ops if isinstance(op, DirectConvolution))
    details = [one.details for one in op.inputs]
    (choice, *_) = (c for c in query_format(op, context()) if not c.inputs[0].is_plain)
    formats = [replace(one, format=f) for one, f in zip(details, choice.inputs, strict=True)]
    found = Graph("in one layout")
    operands = [found.make_input(one, name) for one, name in zip(formats, "xw", strict=True)]
    made = found.make("direct_convolution", operands, attrs)
    made.outputs[0].details = replace(made.outputs[0].details, format=choice.outputs[0])
    rng = np.random.default_rng(0)
    sizes = [math.prod(one.physical_dims) for one in formats]
    arrays = [rng.integers(-4, 5, size).astype(np.float32) for size in sizes]
    results = []
    for _, function in nest_steps(made, context()):
        result = np.full(math.prod(made.outputs[0].details.physical_dims), np.nan, np.float32)
        interpreter.run(Module((function,)), function.name, [*arrays, result])
        results.append(result)
    assert len(results) > 4 and all(np.array_equal(results[0], one) for one in results)


def test_other_ops_have_no_steps() -> None:
    graph = Graph("other")
    x = graph.make_input(LogicalTensor(F32, (4,)), "x")
    op = graph.make("relu", (x,))
    assert list(nest_steps(op, context())) == []
