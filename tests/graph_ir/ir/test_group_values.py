"""Names and types of what a group reads."""

import numpy as np
import pytest

from graphc.base.dtypes import BF16, F8E8M0FNU, F32, S4, SMALL, U4, DType, by_name
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.group_values import GroupValues, narrow, parameters, widen
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.nodes import Buffer, Cast, Load, Var
from support.lowered import build


def test_sixteen_bit_floats_are_widened_and_narrowed() -> None:
    x = Var("x", BF16)
    assert widen(x) == Cast(x, F32)
    assert widen(Var("y", F32)) == Var("y", F32)
    assert narrow(Var("y", F32), BF16) == Cast(Var("y", F32), BF16)


def test_a_value_used_twice_is_computed_once() -> None:
    graph = build({"a": (4,)}, lambda make, x: make("mul", *[make("neg", x["a"])] * 2))
    a, y = graph.inputs[0].outputs[0], graph.outputs[0].inputs[0]
    values = GroupValues({a: Buffer("a", F32, (4,))})
    values.read(y)((t.as_expr(0),))
    loads = [let for let in values.lets if isinstance(let.value, Load)]
    assert len(loads) == 1
    assert len(values.lets) == 3


def test_values_are_named_after_what_computes_them() -> None:
    graph = build({"20.bias": (4,)}, lambda make, x: make("relu", make("neg", x["20.bias"])))
    a, y = graph.inputs[0].outputs[0], graph.outputs[0].inputs[0]
    values = GroupValues({a: Buffer("in0", F32, (4,))}, suffix="s")
    values.read(y)((t.as_expr(0),))
    assert [let.var.name for let in values.lets] == ["in0_sv0", "neg_sv1", "relu_sv2"]


def test_parameters_are_numbered_and_appear_once() -> None:
    graph = build({"a/b": (4,)}, lambda make, x: make("neg", x["a/b"]))
    a, y = graph.inputs[0].outputs[0], graph.outputs[0].inputs[0]
    names = [b.name for b in parameters([a, a], [y]).values()]
    assert names == ["in0", "out0"]


NARROW = [dtype for dtype in SMALL if dtype is not F8E8M0FNU]
UNARY, BINARY = ("neg", "abs"), ("add", "sub", "mul", "min", "max")


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["native", "generic"])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_values_of_narrow_types_round_or_wrap_inside_a_kernel(dtype: DType, target: str) -> None:
    """Each result of an op has its type before the next op of the same kernel reads it."""
    every = np.arange(1 << min(dtype.bits, 6), dtype=np.uint8) << max(dtype.bits - 6, 0)
    values = every.view(dtype.numpy) if dtype.is_float else every.astype(dtype.numpy)
    a, b = (x.ravel() for x in np.meshgrid(values, values))
    wide = "f32" if dtype.is_float else "s32"
    graph = Graph("narrow")
    x, y = (graph.make_input(LogicalTensor(dtype, a.shape), name) for name in "ab")
    for op in (*UNARY, *BINARY):
        once = graph.make(op, [x] if op in UNARY else [x, y]).outputs[0]
        twice = graph.make("add", [once, y]).outputs[0]
        for value in (once, twice):
            graph.make_output(graph.make("cast", [value], {"dtype": wide}).outputs[0], "y")
    found = compile_model(graph, target=target, threads=1).run(None, {"a": a, "b": b})
    for ours, wanted in zip(found, graph.evaluate([a, b]), strict=True):
        np.testing.assert_array_equal(ours, wanted)


@pytest.mark.parametrize("dtype", [by_name("f8e4m3fn"), by_name("f4e2m1fn"), S4, U4], ids=str)
def test_sums_of_narrow_types_have_the_type_before_they_are_converted(dtype: DType) -> None:
    """Reductions, and matmuls of integers, whose results stay in the kernel that converts them."""
    values = np.random.default_rng(0).integers(-2 * dtype.is_signed, 3, (5, 7)).astype(dtype.numpy)
    graph = Graph("narrow")
    x = graph.make_input(LogicalTensor(dtype, values.shape), "x")
    sums = [graph.make("reduce_sum", [x], {"axes": (1,)}).outputs[0]]
    if not dtype.is_float:
        sums += graph.make("matmul_core", [x, x], {"transpose_b": True}).outputs
    for value in sums:
        graph.make_output(graph.make("cast", [value], {"dtype": "f64"}).outputs[0], "y")
    found = compile_model(graph, threads=1).run(None, {"x": values})
    for ours, wanted in zip(found, graph.evaluate([values]), strict=True):
        np.testing.assert_array_equal(ours, wanted)
