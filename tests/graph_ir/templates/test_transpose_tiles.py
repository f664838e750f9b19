"""Transposes through register tiles, between guard pages: every permutation, edges of tiles, every element size."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from graphc.base.dtypes import BF16, F32, F64, S8, S64, U16, DType
from graphc.codegen.host import host_supports
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.format import parse_format
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.lowering.registry import get_func
from graphc.tensor_ir import interpreter
from graphc.tools.fuzz.guarded import Edge, guarded, guarded_copy
from support.lowered import context

ISAS = [isa for isa in ("avx512", "avx2", "generic") if host_supports(isa)]
EDGES: tuple[Edge, ...] = ("start", "end")
SHAPES = ((33, 70), (3, 40), (40, 3), (2, 17, 5), (5, 1, 19, 4), (2, 3, 4, 5, 6), (2, 35), (4, 34))


def transposes(dtype: DType) -> tuple[Graph, list[Array]]:
    """One graph of many transposes."""
    graph, arrays = Graph("transposes"), list[Array]()
    for shape in SHAPES:
        perms = list(itertools.permutations(range(len(shape))))
        for perm in perms if len(perms) <= 6 else perms[1 :: len(perms) // 6]:
            x = graph.make_input(LogicalTensor(dtype, shape), f"x{len(arrays)}")
            y = graph.make("transpose", [x], {"perm": perm}).outputs[0]
            graph.make_output(y, f"y{len(arrays)}")
            arrays.append(np.arange(x.details.elements).reshape(shape).astype(dtype.numpy))
    return graph, arrays


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [F32, F64, BF16, U16, S8, S64], ids=str)
def test_every_permutation_between_guard_pages(isa: str, dtype: DType) -> None:
    graph, arrays = transposes(dtype)
    expected = graph.evaluate(arrays)
    for at, threads in zip(EDGES, (1, 2), strict=True):
        model = compile_model(graph, target=isa, threads=threads)
        inputs = {f"x{i}": guarded_copy(a, at) for i, a in enumerate(arrays)}
        outputs = [guarded(y.shape, y.dtype, at) for y in expected]
        model.bind(inputs, outputs)()
        for y, wanted in zip(outputs, expected, strict=True):
            np.testing.assert_array_equal(y, wanted)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "schedule", ["inner=tiles block=16", "inner=tiles block=40", "inner=vector"]
)
@pytest.mark.parametrize("threads", [1, 2])
def test_blocks_and_the_way_without_tiles_agree(schedule: str, threads: int) -> None:
    graph = Graph("transpose")
    x = graph.make_input(LogicalTensor(F32, (300, 210)), "x")
    graph.make_output(graph.make("transpose", [x], {"perm": (1, 0)}, "op").outputs[0], "y")
    value = np.random.default_rng(0).random((300, 210), np.float32)
    model = compile_model(graph, threads=threads, schedules={"op": schedule})
    np.testing.assert_array_equal(model(value), value.T)


@pytest.mark.parametrize(("source", "result"), [("NCHW", "NHWC"), ("NHWC", "NCHW")])
def test_reorders_are_permutations_too(source: str, result: str) -> None:
    dims = (2, 5, 3, 7)
    graph = Graph("reorder")
    x = graph.make_input(LogicalTensor(F32, dims, parse_format(source, "NCHW")), "x")
    op = graph.make("reorder", (x,), {"format": parse_format(result, "NCHW")})
    value = np.arange(210, dtype=np.float32).reshape(dims)
    memory = op.outputs[0].details.format.pack(value) * 0
    module = get_func(op, context("avx512"))
    assert "shuffle(" in str(module.functions[0].body) or "Shuffle(" in repr(module)
    function = module.functions[0]
    flat = x.details.format.pack(value).reshape(-1), memory.reshape(-1)
    interpreter.run(module, function.name, list(flat))
    np.testing.assert_array_equal(op.outputs[0].details.format.unpack(memory, dims), value)
