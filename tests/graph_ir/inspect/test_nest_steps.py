"""The steps of matmul and convolution kernels: each runs in the interpreter and computes the same."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from graphc.base.dtypes import BF16, F32, DType
from graphc.base.options import CompileOptions
from graphc.codegen.host import target_for
from graphc.driver.request import CompileRequest
from graphc.graph_ir.inspect.nest_steps import nest_steps
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.schedule import parse_schedule
from graphc.graph_ir.lowering.registry import get_func
from graphc.graph_ir.ops.convolution import DirectConvolution
from graphc.graph_ir.ops.matmul import MatmulCore
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.schedule.query_format import query_format
from graphc.lab.grid import kernel_of
from graphc.lab.read import read_problem
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import Module
from graphc.tensor_ir.verifier import verify
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


@pytest.mark.parametrize(
    ("text", "schedule", "nests"),
    [
        ("attention h2s9d16", "rows=4", {"scores", "result"}),
        ("attention h2s5t11d8v24 causal", "", {"scores", "result"}),
        ("attention h1s7d8 bf16", "", {"scores", "result"}),
        ("attention h2s5t11d8", "softmax=online rows=3 columns=8", {"scores", "result"}),
        ("conv c2h5w6o9k3s2p1", "band=patches mc=2", {"band"}),
        ("conv c5h6w7o40k3p1", "form=f2", {"points"}),
    ],
)
def test_every_step_of_the_nests_in_a_kernel_computes_the_same(
    text: str, schedule: str, nests: set[str]
) -> None:
    problem, options = read_problem(text), CompileOptions(1)
    wanted = {problem.node: parse_schedule(schedule)} if schedule else {}
    target = target_for("avx512")
    request = CompileRequest(problem.model, target, options, problem.specs, requested=wanted)
    graph, ctx = request.source.copy(), request.context
    pipeline.run(graph, ctx)
    op, _ = kernel_of(problem, graph, ctx)
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(-2, 3, math.prod(x.details.physical_dims)).astype(x.details.dtype.numpy)
        for x in op.inputs
    ]
    results, steps = [], []
    for step, function in nest_steps(op, ctx):
        (y,) = op.outputs
        result = np.full(math.prod(y.details.physical_dims), np.nan, y.details.dtype.numpy)
        interpreter.run(Module((function,)), function.name, [*arrays, result])
        results.append(result.astype(np.float32))
        steps.append(step)
    assert steps[0] == str(op.schedule)
    assert {step.partition(":")[0] for step in steps[1:]} == nests
    assert steps[-1].partition(": ")[2].startswith("tensorize")
    for step, one in zip(steps, results, strict=True):
        np.testing.assert_allclose(one, results[-1], 2e-2, 1e-5, err_msg=step)


@pytest.mark.parametrize("text", ["attention h2s=1..5t=3..9d16", "conv n=1..3c8h5w6o40k3p1"])
def test_kernels_of_dynamic_sizes_have_steps(text: str) -> None:
    problem = read_problem(text)
    request = CompileRequest(problem.model, target_for("avx512"), CompileOptions(2), problem.specs)
    graph, ctx = request.source.copy(), request.context
    pipeline.run(graph, ctx)
    op, _ = kernel_of(problem, graph, ctx)
    functions = [function for _, function in nest_steps(op, ctx)]
    for function in functions:
        verify(Module((function,)))
    assert len(functions) > 3 and functions[-1] == get_func(op, ctx).functions[0]


def test_other_ops_have_no_steps() -> None:
    graph = Graph("other")
    x = graph.make_input(LogicalTensor(F32, (4,)), "x")
    op = graph.make("relu", (x,))
    assert list(nest_steps(op, context())) == []
