from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from graphc.base.dtypes import BF16, F16, F32, S32
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.select_convolution_algorithm import select_convolution_algorithm
from graphc.graph_ir.rewriting.decisions import log_of
from graphc.graph_ir.schedule.convolution_forms import MIN_ROWS
from support.graphs import run_pass
from support.lowered import context


def after(op_name, dtype, shapes, attrs, step=select_convolution_algorithm):
    """Names of the ops that one op became; the meaning is checked."""
    graph = Graph("one")
    inputs = [graph.make_input(LogicalTensor(dtype, shape)) for shape in shapes]
    graph.make_output(graph.make(op_name, inputs, attrs).outputs[0])
    changed = run_pass(step, graph)
    assert not run_pass(step, graph)
    names = [op.op_name for op in graph.ops if op.kind not in ("source", "sink")]
    assert changed or names == [op_name]
    return sorted(names)


MATMUL = ["matmul_core", "reshape", "reshape", "reshape"]


@pytest.mark.parametrize(
    ("w", "attrs", "names"),
    [
        ((8, 4, 1, 1), {}, MATMUL),
        ((8, 4, 1, 1), {"strides": (2, 1)}, ["im2col", *MATMUL]),
        ((8, 4, 2, 3), {}, ["im2col", *MATMUL]),
        ((8, 4, 2, 3), {"before": (1, 0)}, ["im2col", "matmul_core", "pad", *MATMUL[1:]]),
        ((16, 2, 2, 3), {"groups": 2}, ["im2col", *MATMUL]),
        ((8, 1, 2, 3), {"groups": 4}, ["convolution"]),
        ((8, 1, 2, 3), {"groups": 4, "after": (0, 2)}, ["convolution", "pad"]),
        ((MIN_ROWS - 1, 4, 2, 3), {}, ["convolution"]),
    ],
)
def test_im2col(w, attrs, names):
    assert after("convolution", F32, [(2, 4, 4, 5), w], attrs, without_direct) == names


def without_direct(graph, ctx):
    options = replace(ctx.options, disabled=frozenset({"direct-convolution"}))
    return select_convolution_algorithm(graph, replace(ctx, options=options))


@pytest.mark.parametrize(
    ("x", "w", "attrs"),
    [
        ((2, 4, 4, 5), (8, 4, 2, 3), {"before": (1, 0), "strides": (2, 1)}),
        ((2, 32, 4, 5), (32, 16, 2, 3), {"groups": 2}),
        ((1, 16, 9), (16, 16, 3), {"after": (1,)}),
    ],
)
def test_direct(x, w, attrs):
    names = after("convolution", F32, [x, w], attrs)
    assert names == ["direct_convolution", "reshape"][: 1 + ("groups" in attrs)]


@pytest.mark.parametrize(
    ("around", "names"), [("relu", MATMUL), ("transpose", ["direct_convolution"])]
)
def test_single_pixels_between_plain_layouts_are_matmuls(around, names):
    graph = Graph("pointwise")
    x, w = (
        graph.make_input(LogicalTensor(F32, shape)) for shape in ((2, 64, 9, 9), (64, 64, 1, 1))
    )
    attrs = {"perm": (0, 1, 3, 2)} if around == "transpose" else {}
    y = graph.make(around, (x,), attrs).outputs[0]
    y = graph.make("convolution", (y, w)).outputs[0]
    graph.make_output(graph.make(around, (y,), attrs).outputs[0])
    run_pass(select_convolution_algorithm, graph)
    made = [op.op_name for op in graph.ops if op.kind not in ("source", "sink")]
    assert sorted(name for name in made if name != around) == names


@pytest.mark.parametrize(("last", "form"), [("relu", "patches"), ("reduce_max", "direct")])
def test_a_result_that_is_returned_has_its_channels_put_first_again(last, form):
    """Few terms and many results: moving the result takes longer than the matmuls."""
    attrs = {"axes": (1,)} if last == "reduce_max" else {}
    graph = Graph("audio")
    x, w = (graph.make_input(LogicalTensor(F32, shape)) for shape in ((1, 1, 8000), (256, 1, 10)))
    y = graph.make("convolution", (x, w), {"strides": (5,)}).outputs[0]
    graph.make_output(graph.make(last, (y,), attrs).outputs[0])
    run_pass(select_convolution_algorithm, graph)
    (decision,) = [d for d in log_of(graph).decisions if d.kind == "form"]
    assert decision.text.startswith(f"{form}, ")


def test_more_than_two_spatial_axes_are_patches():
    names = after("convolution", F32, [(2, 4, 3, 4, 5), (8, 4, 2, 2, 2)], {})
    assert "im2col" in names and "matmul_core" in names


def test_the_choice_is_recorded_with_what_the_others_would_take():
    graph = Graph("one")
    inputs = [graph.make_input(LogicalTensor(F32, s)) for s in ((1, 8, 9, 9), (16, 8, 3, 3))]
    graph.make_output(graph.make("convolution", inputs, name="conv").outputs[0])
    run_pass(select_convolution_algorithm, graph)
    (decision,) = [d for d in log_of(graph).decisions if d.kind == "form"]
    assert decision.subjects == ("conv",)
    assert re.fullmatch(
        r"direct, [\d.e+]+ predicted cycles; im2col [\d.e+]+ \([\d.]+ times\)", decision.text
    )


def test_other_types_keep_their_loop():
    assert after("convolution", S32, [(2, 4, 5), (8, 4, 3)], {"before": (1,)}) == [
        "convolution",
        "pad",
    ]


@pytest.mark.parametrize("dtype", [BF16, F16], ids=str)
def test_floats_of_16_bits_are_convolved_in_f32_where_only_f32_has_the_fastest_form(dtype):
    for size, expected in ((3, F32), (1, dtype)):
        graph = Graph("one")
        x = graph.make_input(LogicalTensor(dtype, (1, 64, 28, 28)), "x")
        w = np.random.default_rng(0).standard_normal((64, 64, size, size)).astype(dtype.numpy)
        pads = {"before": (size // 2,) * 2, "after": (size // 2,) * 2}
        y = graph.make("convolution", [x, graph.make_constant(w)], pads, "conv").outputs[0]
        graph.make_output(y)
        array = np.random.default_rng(1).standard_normal((1, 64, 28, 28)).astype(dtype.numpy)
        (wanted,) = graph.evaluate([array])
        select_convolution_algorithm(graph, context())
        (tuned,) = [op for op in graph.ops if op.kind == "tunable"]
        assert tuned.outputs[0].details.dtype == expected
        (found,) = graph.evaluate([array])
        assert found.dtype == wanted.dtype
        wide, exact = found.astype(np.float64), wanted.astype(np.float64)
        np.testing.assert_allclose(wide, exact, rtol=0.01, atol=0.05)


@pytest.mark.parametrize(
    ("weight", "is_winograd"), [(1.0, True), (np.inf, False), (np.nan, False), (1e36, False)]
)
def test_weights_that_winograds_transform_would_spread_are_convolved_directly(weight, is_winograd):
    graph = Graph("one")
    x = graph.make_input(LogicalTensor(F32, (1, 64, 56, 56)))
    weights = np.ones((64, 64, 3, 3), np.float32)
    weights[3, 2, 1, 0] = weight
    graph.make_output(graph.make("convolution", [x, graph.make_constant(weights)]).outputs[0])
    select_convolution_algorithm(graph, context("avx512"))
    assert is_winograd == any(op.op_name == "winograd_convolution" for op in graph.ops)
