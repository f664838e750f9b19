"""dot of bytes with an s32 result runs on the integer kernels, whether the bytes are converted first or not."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from support.hlo_text import module

MATMULS = module(
    """x = s8[8,64] parameter(0)
    y = s8[64,32] parameter(1)
    a = s32[8,64] convert(x)
    b = s32[64,32] convert(y)
    p = s32[8,32] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    q = s32[8,32] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ROOT t = (s32[8,32], s32[8,32]) tuple(p, q)"""
)


@pytest.mark.isa("avx2", "fma")
def test_kernels_and_values() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.integers(-128, 128, (8, 64)), rng.integers(-128, 128, (64, 32))
    model = graphc.compile(MATMULS.encode(), target="avx2", threads=1)
    kernels = [call["kernel"] for call in model.stats["calls"] if "copy" not in call["kernel"]]
    assert [name.partition("_")[0] for name in kernels] == ["s8"], kernels  # one: they are the same
    for result in model(x.astype(np.int8), y.astype(np.int8)):
        np.testing.assert_array_equal(result, x @ y)
