"""Steps of attention to a cache: numbers that are not finite, and the size of blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.templates.cached_attention_steps import CachedProblem
from graphc.tensor_ir.nodes import Buffer
from support.cached_attention import arrays_of, model


def test_shares_that_vanish_and_scores_that_are_not_finite() -> None:
    """Large differences give 0 without subnormal numbers; NaN spreads to the query that meets it, and to no other."""
    graph = model(1, (2, 1), (16, 16), F32, scale=1.0)
    arrays = arrays_of(graph, 8, 40)
    arrays[0] *= 60
    arrays[0][0, 3, 1] = np.nan
    (wanted,) = next(op for op in graph.ops if op.op_name == "cached_attention").reference(arrays)
    y = compile_model(graph, threads=1)(*arrays)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(wanted))
    np.testing.assert_allclose(y, wanted, atol=1e-3)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "size", "tokens"),
    [(4, 1, 256, 64), (32, 8, 64, 64), (16, 16, 64, 128), (71, 1, 64, 8), (8, 1, 2048, 8)],
)
def test_blocks_have_enough_rows_and_fit_in_cache(
    heads: int, kv_heads: int, size: int, tokens: int
) -> None:
    any_: Any = Buffer("x", F32, (1,))
    problem = CachedProblem(
        1, 1, heads, kv_heads, 1, size, size, 1.0, 0.0, 0, any_, any_, any_, any_, (), any_
    )
    assert problem.block_tokens == tokens
