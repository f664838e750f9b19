"""Attention of a dynamic number of queries reads the keys and values of a cache where they lie, for one query too."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc import Graph
from graphc.base.dims import Size, Symbol, maximum, size
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.isa import host_target

S, P = size(Symbol("S", 1, 40)), size(Symbol("P", 1, 100))


def attention(queries: Size, past: Size, width: int = 20, window: int = 0) -> Graph:
    """Two heads of queries over a cache that grows by as many keys, or over the `window` before them and these."""
    graph = Graph("queries")
    q, k, v = (graph.make_input(LogicalTensor(F32, (1, 2, queries, width)), name) for name in "qkv")
    caches = []
    for name, new in (("past_k", k), ("past_v", v)):
        cache = graph.make_input(LogicalTensor(F32, (1, 2, past, width)), name)
        caches.append(graph.make("concat", [cache, new], {"axis": 2}).outputs[0])
    first = maximum(past - window, 0) if window else 0
    attrs = {"starts": (0, 0, first, 0), "sizes": (1, 2, past + queries - first, width)}
    keys, values = (graph.make("slice", [x], attrs).outputs[0] if window else x for x in caches)
    scores = graph.make("matmul_core", [q, keys], {"transpose_b": True}).outputs[0]
    weights = graph.make("softmax", [scores], {"axis": -1}).outputs[0]
    graph.make_output(graph.make("matmul_core", [weights, values]).outputs[0], "y")
    for name, cache in zip(("keys", "values"), caches, strict=True):
        graph.make_output(cache, name)
    return graph


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ["avx2", "native"])
@pytest.mark.parametrize("window", [0, 12])
@pytest.mark.parametrize("past", [P, size(Symbol("P"))], ids=["bounded", "unbounded"])
def test_any_number_of_queries(isa: str, past: Size, window: int, rng: np.random.Generator) -> None:
    alias = {"keys": "past_k", "values": "past_v"}
    target = host_target(isa) if isa != "native" else "native"
    model = graphc.compile(attention(S, past, window=window), target=target, alias=alias, threads=2)
    names = [call["kernel"] for call in model.artifact.metadata.stats["calls"]]
    assert not any(name.startswith("f32_slice_1x2xP") for name in names)
    assert any("attention" in name for name in names) == (past is P or window > 0)
    for queries, length in (
        (1, 1),
        (1, 12),
        (1, 13),
        (1, 33),
        (1, 100),
        (2, 7),
        (5, 64),
        (40, 100),
    ):
        q, k, v = (rng.standard_normal((1, 2, queries, 20), np.float32) for _ in "qkv")
        caches = [np.full((1, 2, 160, 20), np.nan, np.float32) for _ in "kv"]
        for cache in caches:
            cache[:, :, :length] = rng.standard_normal((1, 2, length, 20), np.float32)
        given = [cache[:, :, :length].copy() for cache in caches]
        got = model(q, k, v, *(cache[:, :, :length] for cache in caches))
        wanted = attention(queries, length, window=window).evaluate([q, k, v, *given])
        for mine, other in zip(got, wanted, strict=True):
            np.testing.assert_allclose(mine, other, rtol=2e-5, atol=2e-6)
