"""Types of kernels, as summaries group them."""

from __future__ import annotations

import pytest

from graphc.tools.profile_summary import type_of

TYPES = {
    "matmul": ["matmul_core fc", "add fc.add", "relu act"],
    "attention": ["matmul_core qk", "exp e", "reduce_sum s", "matmul_core av"],
    "convolution": ["winograd_convolution c", "relu r"],
    "pool": ["max_pool p"],
    "softmax": ["reduce_max m", "sub d", "exp e", "reduce_sum s", "div y"],
    "normalization": ["reduce_mean m", "sub d", "square q", "reduce_mean v", "rsqrt r", "mul y"],
    "reduction": ["reduce_max m"],
    "gather": ["gather g", "add a"],
    "data movement": ["transpose t", "reshape r"],
    "elementwise": ["add a", "mul m"],
    "top_k": ["top_k k"],
}


@pytest.mark.parametrize("kind", TYPES)
def test_the_type_is_that_of_the_max_expensive_op(kind: str) -> None:
    assert type_of(TYPES[kind]) == kind
