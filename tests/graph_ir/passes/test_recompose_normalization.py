from __future__ import annotations

import pytest

from graphc.graph_ir.passes.eliminate_common import eliminate_common
from graphc.graph_ir.passes.recompose_normalization import recompose_normalization
from graphc.graph_ir.passes.simplify_algebra import simplify_algebra
from support.expressions import expression_of, graph_from
from support.graphs import CONTEXT, run_pass

MEAN = "reduce_mean({}, axes=(-1,), keep_dims=True)"
D = f"sub(x, {MEAN.format('x')})"
STD = f"sqrt(add({MEAN.format(f'pow({D}, c(2.0))')}, c(0.5)))"
RMS = f"add({MEAN.format('square(x)')}, c(0.5))"
LAST = "epsilon=0.5"

CASES = [
    (f"div({D}, {STD})", f"layer_norm(x, {LAST})"),
    (f"mul({D}, reciprocal({STD}))", f"layer_norm(x, {LAST})"),
    (f"mul({D}, div(c(1.0), {STD}))", f"layer_norm(x, {LAST})"),
    (f"mul({D}, {STD.replace('sqrt', 'rsqrt')})", f"layer_norm(x, {LAST})"),
    (f"mul({D}, pow({STD[5:-1]}, c(-0.5)))", f"layer_norm(x, {LAST})"),
    (f"div({D}, pow({STD[5:-1]}, c(0.5)))", f"layer_norm(x, {LAST})"),
    (f"mul(s, div({D}, {STD}))", f"layer_norm(x, s, {LAST})"),
    (f"add(mul(div({D}, {STD}), s), b)", f"layer_norm(x, s, b, {LAST})"),
    (f"add(b, mul(div({D}, {STD}), s))", f"layer_norm(x, s, b, {LAST})"),
    (f"add(div({D}, {STD}), b)", f"add(layer_norm(x, {LAST}), b)"),
    (f"add(mul(div({D}, {STD}), s), y)", f"add(layer_norm(x, s, {LAST}), y)"),
    (f"mul(div({D}, {STD}), y)", f"mul(layer_norm(x, {LAST}), y)"),
    (f"div(x, sqrt({RMS}))", f"rms_norm(x, {LAST})"),
    (f"mul(x, rsqrt({RMS}))", f"rms_norm(x, {LAST})"),
    (f"mul(s, mul(x, rsqrt({RMS})))", f"rms_norm(x, s, {LAST})"),
    (f"mul(mul(x, rsqrt({RMS.replace('square(x)', 'mul(x, x)')})), s)", f"rms_norm(x, s, {LAST})"),
    (f"add(mul(s, mul(x, rsqrt({RMS}))), b)", f"add(rms_norm(x, s, {LAST}), b)"),
]  # fmt: skip
SHAPES = {"x": (2, 3, 8), "y": (2, 3, 8), "s": (8,), "b": (1, 1, 8)}


@pytest.mark.parametrize(("before", "after"), CASES)
@pytest.mark.parametrize("simplified", [False, True])
def test_patterns(before: str, after: str, simplified: bool) -> None:
    graph = graph_from(before, **SHAPES)
    eliminate_common(graph, CONTEXT)
    if simplified:
        simplify_algebra(graph, CONTEXT)
    assert run_pass(recompose_normalization, graph, exact=False)
    assert expression_of(graph) == after
    assert not run_pass(recompose_normalization, graph, exact=False)


def test_several_last_axes() -> None:
    text = f"div({D}, {STD})".replace("axes=(-1,)", "axes=(1, 2)")
    graph = graph_from(text, **SHAPES)
    eliminate_common(graph, CONTEXT)
    assert run_pass(recompose_normalization, graph, exact=False)
    assert expression_of(graph) == "layer_norm(x, axis=1, epsilon=0.5)"


@pytest.mark.parametrize(
    "text",
    [
        f"div({D}, {STD})".replace("axes=(-1,)", "axes=(1,)"),
        f"div({D}, {STD})".replace("axes=(-1,)", "axes=(0, 2)"),
        f"div(x, {STD})",
        f"div(y, sqrt({RMS}))",
        f"div(x, add(sqrt({MEAN.format('square(x)')}), c(0.5)))",
        f"div(x, sqrt({MEAN.format('square(x)')}))",
    ],
)
def test_near_misses_stay(text: str) -> None:
    graph = graph_from(text, **SHAPES)
    eliminate_common(graph, CONTEXT)
    assert not run_pass(recompose_normalization, graph, exact=False)


def test_a_result_used_twice_keeps_its_own_scale() -> None:
    graph = graph_from(f"mul(div({D}, {STD}), s)", **SHAPES)
    graph.make_output(graph.outputs[0].inputs[0].producer_owner.inputs[0], "plain")
    eliminate_common(graph, CONTEXT)
    assert run_pass(recompose_normalization, graph, exact=False)
    assert expression_of(graph) == f"mul(layer_norm(x, {LAST}), s)"
