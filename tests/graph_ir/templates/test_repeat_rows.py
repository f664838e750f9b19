"""Rows whose elements are repeated, compiled, with shuffles and without."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from support.check_op import random_array
from support.compiled import graph_of_op


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["native", "avx2", "generic"])
@pytest.mark.parametrize("columns", [1, 5, 16, 19, 40])
@pytest.mark.parametrize("counts", [(1, 1, 2), (1, 2, 3), (2, 1, 5), (1, 3, 1)])
def test_shuffled_or_one_at_a_time(target: str, columns: int, counts: tuple[int, ...]) -> None:
    """Whole vectors and a rest of every kind, on and off."""
    x = random_array("f32", (2, 3, columns))
    graph = graph_of_op("repeat", [x], {"counts": counts})
    (expected,) = graph.evaluate([x])
    for threads, off in ((1, ()), (2, ()), (1, ("shuffled-rows",))):
        model = graphc.compile(graph, target, threads, disabled=off)
        np.testing.assert_array_equal(model(x), expected)


@pytest.mark.parametrize("dtype", ["u8", "f16", "s64", "f64", "bool"])
def test_compiled_in_every_width(dtype: str) -> None:
    x = random_array(dtype, (3, 37))
    graph = graph_of_op("repeat", [x], {"counts": (2, 2)})
    np.testing.assert_array_equal(graphc.compile(graph)(x), graph.evaluate([x])[0])
