"""Runs a graph through the graph passes and its lowered program through the Tensor IR interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from graphc.base.dtypes import F32, DType
from graphc.base.options import CompileOptions
from graphc.graph_ir.inspect.compare import difference
from graphc.graph_ir.ir.graph import Array, Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.lowering.lower_graph import LoweredModel, lower_graph
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.schedule.context import LowerContext
from graphc.targets.isa import Target
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.parser import parse_module
from graphc.tensor_ir.passes.expand_brgemm import expand_brgemm
from graphc.tensor_ir.printer import print_module

Make = Callable[..., GraphTensor]


def context(isa: str = "avx2", threads: int = 1, disabled: Sequence[str] = ()) -> LowerContext:
    """A context for `isa`."""
    return LowerContext(Target(isa), CompileOptions(threads, frozenset(disabled)))


def build(
    shapes: dict[str, tuple[int, ...]],
    body: Callable[[Make, dict[str, GraphTensor]], GraphTensor],
    dtype: DType = F32,
) -> Graph:
    """A graph of inputs of a type; `body(make, inputs)` gives its output, `make(op, *tensors, **attrs)` adds an op."""
    graph = Graph("test")
    inputs = {n: graph.make_input(LogicalTensor(dtype, s), n) for n, s in shapes.items()}

    def make(op_name: str, *tensors: GraphTensor, **attrs: object) -> GraphTensor:
        return graph.make(op_name, tensors, attrs).outputs[0]

    graph.make_output(body(make, inputs))
    return graph


def integers(shape: Sequence[int], seed: int = 0) -> Array:
    """f32 integers from -4 to 4."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def lower(graph: Graph, ctx: LowerContext) -> LoweredModel:
    """Optimize a copy of the graph and lower it."""
    work = graph.copy()
    pipeline.run(work, ctx)
    return lower_graph(work, ctx)


def interpret(lowered: LoweredModel, arrays: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Run the lowered program in place on `outputs`."""
    constants = np.frombuffer(lowered.constants, np.uint8).copy()
    arena = np.zeros(lowered.arena_bytes, np.uint8)
    interpreter.run(lowered.module, "main", [*arrays, *outputs, constants, arena])


def check_interpreted(graph: Graph, ctx: LowerContext, exact: bool = True) -> LoweredModel:
    """The lowered program, before and after tiles are expanded, computes what the references do, and its text is it."""
    details = [op.outputs[0].details for op in graph.inputs]
    arrays = [integers(x.plain_dims, i).astype(x.dtype.numpy) for i, x in enumerate(details)]
    expected = graph.evaluate(arrays)
    lowered = lower(graph, ctx)
    assert parse_module(print_module(lowered.module)) == lowered.module
    expanded = expand_brgemm(lowered.module, ctx.target)
    for module in (lowered.module, expanded):
        results = [np.full_like(e, 77) for e in expected]
        program = LoweredModel(module, lowered.constants, lowered.arena_bytes, lowered.calls)
        interpret(program, arrays, results)
        for result, value in zip(results, expected, strict=True):
            found = difference(result, value, exact)
            assert found.ok, f"{found}: {[call.kernel for call in lowered.calls]}"
    return lowered
