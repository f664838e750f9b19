"""The program of a graph: which kernels it has, what they are called, and where tensors are."""

from __future__ import annotations

import re

import numpy as np
import pytest

from graphc.base.dtypes import F32, U8
from graphc.graph_ir.ir.graph import Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.lowering.lower_graph import (
    LoweredModel,
    kernel_bytes,
    lower_graph,
    total_gflop,
)
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.passes.plan_memory import ALIGNMENT
from graphc.tensor_ir.nodes import Buffer, Const, Function, Invoke, Slice
from support.graphs import graph_of
from support.lowered import Make, build, check_interpreted, context, integers, lower


def lowered(text: str) -> LoweredModel:
    """Lower a graph as it stands."""
    graph = graph_of(text)
    return lower_graph(graph, context())


def main_of(model: LoweredModel) -> Function:
    return model.module.function("main")


def calls_of(model: LoweredModel) -> list[tuple[str, list[tuple[str, int]]]]:
    """(kernel, [(buffer, offset of its first index)]) of each call."""
    found = []
    for step in main_of(model).body.body:
        assert isinstance(step, Invoke)
        accesses = []
        for arg in step.args:
            assert isinstance(arg, Slice)
            assert all(isinstance(i, Const) for i in arg.indices)
            accesses.append((arg.buffer.name, int(arg.indices[0].value) if arg.indices else 0))  # type: ignore[union-attr]
        found.append((step.function, accesses))
    return found


TWINS = """
    %x = Node[type=input] () -> f32[8]
    %z = Node[type=input] () -> f32[9]
    %a = Node[type=neg] (inputs = (x=%x)) -> f32[8]
    %b = Node[type=neg] (inputs = (x=%a)) -> f32[8]
    %c = Node[type=neg] (inputs = (x=%z)) -> f32[9]
    %d = Node[type=add] (inputs = (a=%b, b=%b)) -> f32[8]
    %e = Node[type=add] (inputs = (a=%b, b=%x)) -> f32[8]
    return (y=%c, p=%d, q=%e)
"""


def test_ops_that_differ_in_names_only_share_a_kernel() -> None:
    model = lowered(TWINS)
    assert [f.name for f in model.module.functions] == [
        *("f32_neg_8__avx2", "f32_neg_9__avx2", "f32_add_8__avx2", "f32_add_8__avx2_1", "main"),
    ]  # fmt: skip
    assert [call.kernel for call in model.calls] == [
        *("f32_neg_8__avx2", "f32_neg_8__avx2", "f32_neg_9__avx2"),
        *("f32_add_8__avx2", "f32_add_8__avx2_1"),
    ]
    assert [call.op_name for call in model.calls] == ["a", "b", "c", "d", "e"]
    check_interpreted(graph_of(TWINS), context(disabled=("fuse", "simplify")))


def test_operands_are_passed_once_in_order_then_the_output() -> None:
    calls = calls_of(lowered(TWINS))
    assert calls[0] == ("f32_neg_8__avx2", [("x0", 0), ("arena", 0)])
    assert calls[1] == ("f32_neg_8__avx2", [("arena", 0), ("arena", 0)]), "in place"
    assert calls[3] == ("f32_add_8__avx2", [("arena", 0), ("y1", 0)])
    assert calls[4] == ("f32_add_8__avx2_1", [("arena", 0), ("x0", 0), ("y2", 0)])


def test_layers_of_one_shape_share_a_kernel() -> None:
    graph = Graph("deep")
    y = graph.make_input(LogicalTensor(F32, (4, 24)), "x")
    for number in range(3):
        w = graph.make_constant(integers((24, 24), number), f"w{number}")
        y = graph.make("relu", graph.make("matmul_core", (y, w)).outputs).outputs[0]
    graph.make_output(y)
    model = check_interpreted(graph, context(), exact=False)
    assert len(model.calls) == 3 and len(model.module.functions) == 2


def test_attributes_tell_kernels_apart_and_layouts_where_loops_differ() -> None:
    model = lowered(
        """
        %x = Node[type=input] () -> f32[4,4]
        %a = Node[type=matmul_core] (inputs = (a=%x, b=%x), attrs = {transpose_b: true}) -> f32[4,4]
        %b = Node[type=matmul_core] (inputs = (a=%a, b=%a)) -> f32[4,4]
        %r = Node[type=reorder] (inputs = (x=%b), attrs = {format: BA}) -> f32[4,4]{BA}
        %s = Node[type=neg] (inputs = (x=%r)) -> f32[4,4]{BA}
        %t = Node[type=neg] (inputs = (x=%b)) -> f32[4,4]
        %u = Node[type=reorder] (inputs = (x=%s), attrs = {format: AB}) -> f32[4,4]
        return (y=%t, z=%u)
        """
    )
    a, b, r, s, t, u = (call.kernel for call in model.calls)
    assert a != b and len({b, r, s}) == 3
    assert r == u and s == t  # a square matrix: the same loops whichever axis is called first


def test_names_say_dtype_kind_sizes_and_isa() -> None:
    def body(make: Make, x: dict[str, GraphTensor]) -> GraphTensor:
        return make("tanh", make("add", make("matmul_core", x["x"], x["w"]), x["b"]))

    model = lower(build({"x": (2, 5, 7), "w": (7, 9), "b": (9,)}, body), context("avx512"))
    (call,) = model.calls
    assert re.fullmatch(r"f32_gemm_add_tanh_10x9x7_\d+x\d+__avx512", call.kernel)
    assert call.note.startswith("matmul_core -> add -> tanh [split n ")
    for function in model.module.functions:
        assert re.fullmatch(r"main|[a-z0-9_]+__avx512(\.\d+)?", function.name)


def test_a_scalar_is_called_one() -> None:
    model = lowered(
        "%x = Node[type=input] () -> s8[]\n%y = Node[type=neg] (inputs = (x=%x)) -> s8[]\nreturn (y=%y)"
    )
    assert [call.kernel for call in model.calls] == ["s8_neg_scalar__avx2"]


def test_views_run_no_kernel_and_share_the_address() -> None:
    model = lowered(
        """
        %x = Node[type=input] () -> f32[2,6]
        %v = Node[type=reshape] (inputs = (x=%x), attrs = {shape: {12}}) -> f32[12]
        %a = Node[type=exp] (inputs = (x=%v)) -> f32[12]
        %w = Node[type=reshape] (inputs = (x=%a), attrs = {shape: {3, 4}}) -> f32[3,4]
        %b = Node[type=neg] (inputs = (x=%w)) -> f32[3,4]
        %u = Node[type=reshape] (inputs = (x=%b), attrs = {shape: {4, 3}}) -> f32[4,3]
        return (y=%u)
        """
    )
    assert calls_of(model) == [
        ("f32_exp_12__avx2", [("x0", 0), ("arena", 0)]),
        ("f32_neg_3x4__avx2", [("arena", 0), ("y0", 0)]),
    ]
    assert [(p.name, p.shape) for p in main_of(model).params if isinstance(p, Buffer)] == [
        *(("x0", (2, 6)), ("y0", (4, 3)), ("constants", (0,)), ("arena", (64,))),
    ]  # fmt: skip


def test_equal_constants_are_kept_once_each_at_its_alignment() -> None:
    graph = Graph("constants")
    x = graph.make_input(LogicalTensor(F32, (3,)), "x")
    values = [[1, 2, 3], [4, 5, 6], [1, 2, 3], [7, 8, 9]]
    constants = [
        graph.make_constant(np.array(v, np.float32), f"c{i}") for i, v in enumerate(values)
    ]
    y = x
    for constant in constants:
        y = graph.make("sub", (y, constant)).outputs[0]
    graph.make_output(y)
    model = lower_graph(graph, context())
    offsets = [accesses[1] for _, accesses in calls_of(model)]
    assert offsets == [("constants", 0), ("constants", 64), ("constants", 0), ("constants", 128)]
    assert all(offset % ALIGNMENT == 0 for _, offset in offsets)
    assert len(model.constants) == 128 + 12
    np.testing.assert_array_equal(model.constants[64:76].view(np.float32), [4, 5, 6])
    assert not model.constants[12:64].any()


def test_constants_are_laid_out_in_their_format() -> None:
    graph = Graph("packed")
    x = graph.make_input(LogicalTensor(F32, (4, 3)), "x")
    weight = integers((3, 25), 1)
    graph.make_output(graph.make("matmul_core", (x, graph.make_constant(weight, "w"))).outputs[0])
    model = check_interpreted(graph, context())
    pipeline.run(graph, context())
    (constant,) = [op for op in graph.ops if op.op_name == "constant"]
    fmt = constant.outputs[0].details.format
    width = fmt.blocks[-1]
    assert str(fmt) == f"NK{width}n"
    packed = model.constants.view(np.float32).reshape(-1, 3, width)
    np.testing.assert_array_equal(packed[0], weight[:, :width])
    np.testing.assert_array_equal(packed[-1][:, : 25 % width], weight[:, 25 - 25 % width :])
    assert not packed[-1][:, 25 % width :].any(), "padding is zero"


def test_the_sections_are_the_last_parameters() -> None:
    params = main_of(lowered(TWINS)).params
    assert [p.name for p in params] == ["x0", "x1", "y0", "y1", "y2", "constants", "arena"]
    assert all(isinstance(p, Buffer) and p.dtype is U8 for p in params[-2:])


def test_progress_counts_every_kernel_call() -> None:
    graph = graph_of(TWINS)
    seen: list[tuple[int, int]] = []
    lower_graph(graph, context(), lambda done, total: seen.append((done, total)))
    assert seen == [(i, 5) for i in range(1, 6)]


def test_work_and_bytes() -> None:
    model = lowered(TWINS)
    assert total_gflop(model.calls) == pytest.approx((4 * 8 + 9) * 1e-9)
    assert [kernel_bytes(op) for op in graph_of(TWINS).ops if op.name in "de"] == [64, 96]


def test_a_graph_without_work() -> None:
    model = lower(graph_of("%x = Node[type=input] () -> f32[0,3]\nreturn (y=%x)"), context())
    assert [call.kernel for call in model.calls] == ["f32_copy_0x3__avx2"]
    empty = lowered("%x = Node[type=input] () -> f32[3]")
    assert main_of(empty).body.body == () and not len(empty.constants) and empty.arena_bytes == 0
