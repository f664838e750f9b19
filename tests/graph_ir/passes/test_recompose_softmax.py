from __future__ import annotations

import pytest

from graphc.graph_ir.passes.eliminate_common import eliminate_common
from graphc.graph_ir.passes.recompose_softmax import recompose_softmax
from support.expressions import expression_of, graph_from
from support.graphs import CONTEXT, run_pass

SHIFTED = "sub(x, reduce_max(x, axes=(-1,), keep_dims=True))"
SUM = "reduce_sum({}, axes=(2,), keep_dims=True)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"div(exp({SHIFTED}), {SUM.format(f'exp({SHIFTED})')})", "softmax(x)"),
        (f"mul(exp({SHIFTED}), reciprocal({SUM.format(f'exp({SHIFTED})')}))", "softmax(x)"),
        (f"div(exp(x), {SUM.format('exp(x)')})", "softmax(x)"),
        ("div(exp(x), reduce_sum(exp(x), axes=(0,), keep_dims=True))", "softmax(x, axis=0)"),
        (f"sub({SHIFTED}, log({SUM.format(f'exp({SHIFTED})')}))", "log_softmax(x)"),
        ("sub(x, reduce_log_sum_exp(x, axes=(1,), keep_dims=True))", "log_softmax(x, axis=1)"),
        ("log(softmax(x, axis=1))", "log_softmax(x, axis=1)"),
        ("log(softmax(x))", "log_softmax(x)"),
    ],
)
def test_patterns(before: str, after: str) -> None:
    graph = graph_from(before, x=(2, 3, 4))
    eliminate_common(graph, CONTEXT)
    assert run_pass(recompose_softmax, graph, exact=False)
    assert expression_of(graph) == after
    assert not run_pass(recompose_softmax, graph)


@pytest.mark.parametrize(
    "text",
    [
        "div(exp(x), reduce_sum(exp(y), axes=(2,), keep_dims=True))",
        "div(exp(x), reduce_sum(exp(x), axes=(1, 2), keep_dims=True))",
        "div(exp(x), reduce_sum(exp(x), axes=(0,)))",
        f"div(exp({SHIFTED}), reduce_sum(exp({SHIFTED}), axes=(1,), keep_dims=True))",
        "sub(x, log(reduce_sum(exp(x), axes=(2,), keep_dims=True)))",
    ],
)
def test_near_misses_stay(text: str) -> None:
    graph = graph_from(text, x=(4, 4, 4), y=(4, 4, 4))
    eliminate_common(graph, CONTEXT)
    assert not run_pass(recompose_softmax, graph, exact=False)
