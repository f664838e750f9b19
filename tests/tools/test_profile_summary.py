"""Types of kernels, as summaries group them."""

from __future__ import annotations

import pytest

from graphc.bench.roofline import Roofline
from graphc.tools.profile import Profile
from graphc.tools.profile_summary import type_of, unattributed

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
def test_the_type_is_that_of_the_costliest_op(kind: str) -> None:
    assert type_of(TYPES[kind]) == kind


@pytest.mark.parametrize(("outside", "missing"), [(0.5, 0.5), (0.99, 0.0), (1.2, 0.0)])
def test_a_run_may_take_longer_than_its_parts(outside: float, missing: float) -> None:
    roofs = Roofline("a CPU", "avx2", 1, 100.0, ())
    found = Profile("m", 1, 5, 1.0, outside, 0.0, 2, 0.0, 1.0, 1.0, (), roofs)
    assert unattributed(found) == pytest.approx(missing)
