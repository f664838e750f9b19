"""Trees walked natively against the reference, for row counts around those that are walked together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from graphc.base.errors import UserError
from support.check_op import make_op
from support.compiled import graph_of_op

RNG = np.random.default_rng(11)
NODES, GROUPS, COUNT = 300, 3, 2
BITS = {True: 4, False: 3}
"""Feature bits of six columns: with negated features for odd numbers of rows."""


def operands(rows: int, dtype: Any = np.float32, dense: bool = False) -> list[np.ndarray]:
    """Any nodes: what leads nowhere in particular is walked as well, and some indices lie outside."""
    x = RNG.standard_normal((rows, 6)).astype(dtype)
    x[:1, 2] = np.nan
    bits = BITS[rows % 2 == 1]
    features = RNG.integers(0, 1 << bits, NODES)
    ways = (RNG.integers(-NODES, NODES, NODES) << bits | features).astype(np.int32)
    threshold = RNG.standard_normal(NODES).astype(dtype)
    values = RNG.standard_normal((NODES, COUNT) if dense else NODES).astype(np.float32)
    roots = RNG.integers(0, NODES, 16 * GROUPS).astype(np.int32)
    return [x, ways, threshold, values, roots]


@pytest.mark.exhaustive
@pytest.mark.parametrize("rows", [0, 1, 3, 4, 9, 600])
@pytest.mark.parametrize("target", ["native", "generic"])
def test_rows(rows: int, target: str) -> None:
    for dense, reduction in ((False, "add"), (True, "max")):
        arrays = operands(rows, dense=dense)
        targets = (-1,) * 3 if dense else (0, 1, 1)
        attrs = {
            "depths": (4, 2, 2),
            "targets": targets,
            "feature_bits": BITS[rows % 2 == 1],
            "count": COUNT,
            "reduction": reduction,
        }
        graph = graph_of_op("tree_ensemble", arrays, attrs)
        (wanted,) = graph.evaluate(arrays)
        with graphc.compile(graph, target, threads=2) as compiled:
            np.testing.assert_allclose(compiled(*arrays), wanted, rtol=1e-5, atol=1e-5)


def test_doubles() -> None:
    arrays = operands(5, np.float64)
    attrs = {
        "depths": (4, 2, 1),
        "targets": (0, 1, 1),
        "feature_bits": BITS[True],
        "count": COUNT,
        "reduction": "min",
    }
    graph = graph_of_op("tree_ensemble", arrays, attrs)
    with graphc.compile(graph) as compiled:
        assert np.array_equal(compiled(*arrays), graph.evaluate(arrays)[0])


def test_operands_that_do_not_fit() -> None:
    attrs: dict[str, Any] = {
        "depths": (1,) * 3,
        "targets": (0,) * 3,
        "feature_bits": 3,
        "count": 2,
        "reduction": "add",
    }
    arrays = operands(4)
    for index, other, text in (
        (1, arrays[1][:5], "nodes must have one entry in every list"),
        (0, arrays[0].astype(np.float64), "of the thresholds' type"),
        (4, arrays[4][:16], "there must be 16 roots for each group"),
        (1, arrays[1].astype(np.int64), "indices must be s32"),
    ):
        with pytest.raises(UserError, match=text):
            make_op("tree_ensemble", [*arrays[:index], other, *arrays[index + 1 :]], attrs)
    with pytest.raises(UserError, match=r"targets must be in \[0, 2\)"):
        make_op("tree_ensemble", arrays, attrs | {"targets": (0, 1, 2)})
