"""Batches of matmuls with one shared matrix: those that become one matmul, and the results of native code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphc.driver.compiler import compile as compile_model
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.schedule import parse_schedule
from graphc.graph_ir.passes.merge_batches import merge_batches
from graphc.graph_ir.passes.pipeline import run
from support.expressions import expression_of, graph_from
from support.graphs import run_pass
from support.lowered import context, integers

SHAPES = {
    "x": (5, 1, 4),
    "deep": (2, 3, 2, 4),
    "w": (4, 6),
    "wide": (1, 4, 6),
    "own": (5, 4, 6),
    "t": (5, 4, 1),
    "row": (6, 4),
    "one": (1, 5, 4),
    "cache": (1, 9, 6),
}
CASES = [
    ("matmul_core(x, w)",
     "reshape(matmul_core(reshape(x, shape=(5, 4)), w), shape=(5, 1, 6))"),
    ("matmul_core(deep, w)",
     "reshape(matmul_core(reshape(deep, shape=(12, 4)), w), shape=(2, 3, 2, 6))"),
    ("matmul_core(x, wide)",
     "reshape(matmul_core(reshape(x, shape=(5, 4)), reshape(wide, shape=(4, 6))), shape=(5, 1, 6))"),
    ("matmul_core(x, row, transpose_b=True)",
     "reshape(matmul_core(reshape(x, shape=(5, 4)), row, transpose_b=True), shape=(5, 1, 6))"),
    ("matmul_core(x, own)", ""),
    ("matmul_core(one, slice(cache, starts=(0, 0, 0), sizes=(1, 4, 6)))", ""),
    ("matmul_core(t, w, transpose_a=True)", ""),
    ("matmul_core(reshape(x, shape=(5, 4)), w)", ""),
    ("matmul_core(softmax(matmul_core(x, w), axis=2), row)", "softmax"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), CASES)
def test_cases(before: str, after: str) -> None:
    graph = graph_from(before, **SHAPES)
    changed = run_pass(merge_batches, graph)
    assert changed == bool(after)
    if after and after != "softmax":
        assert expression_of(graph) == expression_of(graph_from(after, **SHAPES))
    assert not run_pass(merge_batches, graph)


def test_attention_keeps_its_batches() -> None:
    scores = "matmul_core(q, k, transpose_b=True)"
    text = f"matmul_core(softmax({scores}, axis=2), v)"
    graph = graph_from(text, q=(3, 8, 4), k=(8, 4), v=(8, 4))
    calls = compile_stages(graph, "avx2").lowered.calls
    assert len(calls) == 1, "one kernel: both matmuls and the softmax between them"


@pytest.mark.parametrize("rows", [1, 2, 11])
def test_one_kernel_with_its_epilogue(rows: int) -> None:
    text = "relu(add(matmul_core(x, w), b))"
    sizes = {"x": (13, rows, 33), "w": (33, 50), "b": (50,)}
    graph = graph_from(text, **sizes)
    assert len(compile_stages(graph, "avx2").lowered.calls) == 1
    x, w, b = (integers(shape, i) for i, shape in enumerate(sizes.values()))
    for disabled in ((), ("simplify",)):
        y = compile_model(graph_from(text, **sizes), disabled=disabled)(x, w, b)
        np.testing.assert_array_equal(y, np.maximum(x @ w + b, 0))


def test_the_matmul_keeps_its_name_and_takes_its_schedule() -> None:
    graph = graph_from("matmul_core(x, w)", x=(13, 1, 33), w=(33, 50))
    y = graph.outputs[0].inputs[0].producer_owner
    ctx = replace(context(), requested={y.name: parse_schedule("gemm mc=7")})
    run(graph, ctx)
    (matmul,) = (op for op in graph.ops if op.op_name == "matmul_core")
    assert matmul.name == "matmul_core" and "split m 7;" in str(matmul.schedule)
