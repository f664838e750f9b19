"""The fuzzer's graphs as a Hypothesis strategy, of exact ops, for properties that hold of all graphs."""

from __future__ import annotations

from hypothesis import strategies as st

from graphc.base.dtypes import BF16, F32, S32, U8
from graphc.graph_ir.ir.graph import Graph
from graphc.tools.fuzz.generator import random_graph
from graphc.tools.fuzz.plan import Plan

EXACT = Plan(
    ops=frozenset(("neg", "abs", "relu", "square", "sign", "add", "sub", "mul", "min", "max", "div", "cast", "reshape",
                   "transpose", "slice", "pad", "broadcast", "concat", "reduce_sum", "reduce_max")),
    max_ops=9,
    max_elements=100,
    max_rank=3,
    dtypes=((F32, 2), (S32, 1), (U8, 1), (BF16, 1)),
    sizes=((1, 2), (2, 1), (3, 1)),
)  # fmt: skip
"""Elementwise ops, casts, movement and reductions on a few small numbers."""


def graphs() -> st.SearchStrategy[Graph]:
    """Small random graphs; the seed is what Hypothesis shows and shrinks."""
    return st.integers(0, 2**32 - 1).map(lambda seed: random_graph(str(seed), EXACT)[0])
