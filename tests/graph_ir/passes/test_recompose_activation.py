from __future__ import annotations

import itertools

import pytest

from graphc.graph_ir.passes.recompose_activation import recompose_activation
from graphc.graph_ir.passes.simplify_algebra import simplify_algebra
from support.expressions import expression_of, graph_from
from support.graphs import CONTEXT, run_pass

EXP1 = "add(exp(neg(x)), c(1.0))"
ERF1 = "add(erf(div(x, c(1.4142135))), c(1.0))"
BELL = "add(tanh(mul(c(0.79788456), add(x, mul(c(0.044715), pow(x, c(3.0)))))), c(1.0))"
FAST_BELL = (
    "add(c(1.0), tanh(mul(mul(x, c(0.7978845608)), add(c(1.0), mul(mul(c(0.044715), x), x)))))"
)
RELU6 = "clamp(add(x, c(3.0)), min=0.0, max=6.0)"
HARD = "hard_sigmoid(x, alpha=0.16666666666666666)"
SHIFTED = "add(x, c(3.0))"
SIXTH = f"relu(min(add(mul({SHIFTED}, c(0.16666667)), mul({SHIFTED}, c(-4.967e-09))), c(1.0)))"

CASES = [
    (f"div(c(1.0), {EXP1})", "sigmoid(x)"),
    (f"reciprocal({EXP1})", "sigmoid(x)"),
    ("mul(x, sigmoid(x))", "silu(x)"),
    ("mul(sigmoid(x), x)", "silu(x)"),
    (f"mul(x, div(c(1.0), {EXP1}))", "silu(x)"),
    (f"div(x, {EXP1})", "silu(x)"),
    ("log(add(c(1.0), exp(x)))", "softplus(x)"),
    ("log1p(exp(x))", "softplus(x)"),
    ("mul(x, tanh(softplus(x)))", "mish(x)"),
    ("mul(x, tanh(log1p(exp(x))))", "mish(x)"),
    ("div(x, add(abs(x), c(1.0)))", "softsign(x)"),
    (f"div({RELU6}, c(6.0))", HARD),
    ("div(min(max(add(x, c(3.0)), c(0.0)), c(6.0)), c(6.0))", HARD),
    ("mul(min(relu(add(c(3.0), x)), c(6.0)), c(0.16666667))", HARD),
    (f"mul(x, div({RELU6}, c(6.0)))", "hard_swish(x)"),
    (f"div(mul(x, {RELU6}), c(6.0))", "hard_swish(x)"),
    (f"mul(mul(c(0.16666667), x), {RELU6})", "hard_swish(x)"),
    (f"mul(x, {SIXTH})", "hard_swish(x)"),
    (SIXTH, "hard_sigmoid(x, alpha=0.16666666666666666)"),
    ("relu(min(add(mul(x, c(0.2)), c(0.5)), c(1)))", "hard_sigmoid(x, alpha=0.20000000298023224)"),
    ("clamp(add(mul(x, c(0.2)), c(0.25)), min=0.0, max=1.0)", "hard_sigmoid(x, alpha=0.20000000298023224, beta=0.25)"),
    ("mul(hard_sigmoid(x, alpha=0.16666667), x)", "hard_swish(x)"),
    (f"mul(mul(x, {ERF1}), c(0.5))", "gelu(x)"),
    (f"mul(mul(x, c(0.5)), {ERF1})", "gelu(x)"),
    (f"mul(x, mul(c(0.5), {ERF1}))", "gelu(x)"),
    (f"div(mul(x, {ERF1}), c(2.0))", "gelu(x)"),
    ("mul(mul(c(0.5), x), add(c(1.0), erf(mul(x, c(0.70710677)))))", "gelu(x)"),
    ("mul(mul(x, c(0.5)), sub(c(1.0), erf(mul(x, c(-0.70710677)))))", "gelu(x)"),
    ("mul(mul(c(0.5), x), sub(c(1.0), erf(mul(neg(x), c(0.70710677)))))", "gelu(x)"),
    ("div(x, add(exp(neg(mul(add(x, mul(mul(mul(x, x), x), c(0.044715))), c(1.5957691)))), c(1.0)))",
     "gelu(x, approximate='tanh')"),
    (f"mul(mul(c(0.5), x), {BELL})", "gelu(x, approximate='tanh')"),
    (f"mul(c(0.5), mul(x, {BELL}))", "gelu(x, approximate='tanh')"),
    (f"mul(mul(x, c(0.5)), {BELL.replace('pow(x, c(3.0))', 'mul(x, mul(x, x))')})", "gelu(x, approximate='tanh')"),
    (f"mul(mul(x, c(0.5)), {FAST_BELL})", "gelu(x, approximate='tanh')"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), CASES)
def test_patterns(before: str, after: str) -> None:
    graph = graph_from(before, x=(4, 5))
    assert run_pass(recompose_activation, graph, exact=False)
    assert expression_of(graph) == after
    assert not run_pass(recompose_activation, graph)


@pytest.mark.parametrize(("before", "after"), CASES)
def test_patterns_after_simplification(before: str, after: str) -> None:
    graph = graph_from(before, x=(4, 5))
    simplify_algebra(graph, CONTEXT)
    run_pass(recompose_activation, graph, exact=False)
    assert expression_of(graph) == after


@pytest.mark.parametrize(
    "text",
    [
        "mul(x, sigmoid(y))",
        "mul(x, sigmoid(mul(x, c(1.702))))",
        "div(c(1.0), add(exp(x), c(1.0)))",
        "div(c(2.0), add(exp(neg(x)), c(1.0)))",
        f"mul(mul(y, {ERF1}), c(0.5))",
        f"mul(mul(x, {ERF1}), c(0.51))",
        f"mul(mul(x, {ERF1.replace('1.4142135', '1.5')}), c(0.5))",
        f"div(mul(y, {RELU6}), c(6.0))",
        f"div(mul(x, {RELU6.replace('6.0', '5.0')}), c(6.0))",
        "log(add(exp(x), exp(y)))",
        "div(c([[[1.0]]]), add(exp(neg(x)), c(1.0)))",
    ],
)
def test_near_misses_stay(text: str) -> None:
    assert not run_pass(recompose_activation, graph_from(text, x=(4, 5), y=(4, 5)), exact=False)


def test_parts_used_elsewhere_stay() -> None:
    graph = graph_from("mul(x, sigmoid(x))", x=(4, 5))
    graph.make_output(graph.ops[1].outputs[0], "gate")
    assert run_pass(recompose_activation, graph, exact=False)
    assert [op.op_name for op in graph.ops] == ["input", "silu", "sigmoid", "output", "output"] or [
        op.op_name for op in graph.ops
    ] == ["input", "sigmoid", "silu", "output", "output"]


def test_every_order_of_a_matmul() -> None:
    parts = ("x", "c(0.5)", ERF1)
    for a, b, c in itertools.permutations(parts):
        for text in (f"mul(mul({a}, {b}), {c})", f"mul({a}, mul({b}, {c}))"):
            graph = graph_from(text, x=(3,))
            assert run_pass(recompose_activation, graph, exact=False)
            assert expression_of(graph) == "gelu(x)"
