"""Both numbers that queries and keys are scaled by end on the queries, so that keys are read where they lie."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc import Graph
from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.alias_outputs import alias_outputs
from graphc.graph_ir.passes.scale_queries import scale_queries
from graphc.tensor_ir.printer import print_module
from support.graphs import check_pass, graph_of, run_pass

BEFORE = """
    %q = Node[type=input] () -> f32[2,3,4]
    %k = Node[type=input] () -> f32[2,4,5]
    %s = Node[type=constant] (attrs = {value: [0.5]}) -> f32[]
    %t = Node[type=constant] (attrs = {value: [0.25]}) -> f32[1]
    %a = Node[type=mul] (inputs = (a=%q, b=%s)) -> f32[2,3,4]
    %b = Node[type=mul] (inputs = (a=%t, b=%k)) -> f32[2,4,5]
    %y = Node[type=matmul_core] (inputs = (a=%a, b=%b)) -> f32[2,3,5]
    return (z=%y)
"""
AFTER = """
    %q = Node[type=input] () -> f32[2,3,4]
    %k = Node[type=input] () -> f32[2,4,5]
    %y.scale = Node[type=constant] (attrs = {value: [0.125]}) -> f32[]
    %y.scaled = Node[type=mul] (inputs = (a=%q, b=%y.scale)) -> f32[2,3,4]
    %y.matmul = Node[type=matmul_core] (inputs = (a=%y.scaled, b=%k)) -> f32[2,3,5]
    return (z=%y.matmul)
"""
P = size(Symbol("P", 1, 100))


def test_keys_are_not_scaled() -> None:
    check_pass(scale_queries, BEFORE, AFTER)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("value: [0.25]", "value: [2.0]"),  # queries could overflow
        ("value: [0.25]", "value: [-0.25]"),
        ("value: [0.25]", "value: [1e-6]"),  # or lose bits
        ("a=%a, b=%b", "a=%q, b=%b"),  # more work where queries are not scaled yet
        ("return (z=%y)", "return (z=%y, other=%b)"),
    ],
)
def test_others_stay(old: str, new: str) -> None:
    assert not run_pass(scale_queries, graph_of(BEFORE.replace(old, new)), exact=False)


def step(joins_heads: bool) -> Graph:
    """One token of two layers of attention, as exporters write scaled_dot_product_attention: keys are scaled and
    transposed, by dynamo with joined heads; a row of which nothing is seen gives zeros."""
    graph = Graph("step")
    q, k, v = (graph.make_input(LogicalTensor(F32, (1, 4, 1, 16)), x) for x in "qkv")
    pasts = [graph.make_input(LogicalTensor(F32, (1, 4, P, 16)), f"past_{x}") for x in "kv"]
    keys, values = (
        graph.make("concat", [past, new], {"axis": 2}).outputs[0]
        for past, new in zip(pasts, (k, v), strict=True)
    )
    apart = keys
    if joins_heads:
        apart = graph.make("reshape", [apart], {"shape": (4, P + 1, 16)}).outputs[0]
    perm = (0, 2, 1) if joins_heads else (0, 1, 3, 2)
    transposed = graph.make("transpose", [apart], {"perm": perm}).outputs[0]
    if joins_heads:
        transposed = graph.make("reshape", [transposed], {"shape": (1, 4, 16, P + 1)}).outputs[0]
    root = graph.make_constant(np.float32(0.35), "root")
    scaled = [graph.make("mul", [x, root]).outputs[0] for x in (q, transposed)]
    scores = graph.make("matmul_core", scaled).outputs[0]
    weights = graph.make("softmax", [scores], {"axis": -1}).outputs[0]
    is_nan = graph.make("isnan", [weights]).outputs[0]
    zero = graph.make_constant(np.float32(0), "zero")
    seen = graph.make("select", [is_nan, zero, weights]).outputs[0]
    graph.make_output(graph.make("matmul_core", [seen, values]).outputs[0], "y")
    graph.make_output(keys, "keys")
    graph.make_output(values, "values")
    return graph


@pytest.mark.parametrize("joins_heads", [False, True])
def test_no_kernel_copies_a_cache(joins_heads: bool, rng: np.random.Generator) -> None:
    alias = {"keys": "past_k", "values": "past_v"}
    model = graphc.compile(step(joins_heads), alias=alias)
    kernels = [call["kernel"] for call in model.artifact.metadata.stats["calls"]]
    assert sum("P_1x16" in name or "16xP_1" in name for name in kernels) == 0
    plain = graphc.compile(step(joins_heads), disabled=("simplify",))
    for length in (1, 2, 33, 100):
        q, k, v = (rng.standard_normal((1, 4, 1, 16), np.float32) for _ in "qkv")
        caches = [np.zeros((1, 4, 128, 16), np.float32) for _ in "kv"]
        for cache in caches:
            cache[:, :, :length] = rng.standard_normal((1, 4, length, 16), np.float32)
        wanted = plain(q, k, v, *(cache[:, :, :length].copy() for cache in caches))
        got = model(q, k, v, *(cache[:, :, :length] for cache in caches))
        for mine, other in zip(got, wanted, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


def test_caches_are_shown_in_loops() -> None:
    graph = step(False)
    alias_outputs(graph, {"keys": "past_k", "values": "past_v"})
    text = print_module(compile_stages(graph, "avx2").lowered.module)
    assert "1, 4, size_P" in text.replace("(", "").replace(")", "")
