"""Compositions of movements against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.base.errors import UserError
from graphc.frontend.correspondence.compositions.movement import index_basic
from graphc.frontend.op_builder import OpBuilder
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)


def indexed(entries: list[Any]) -> Any:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, X.shape), "x")
    graph.make_output(index_basic(OpBuilder(graph, "Slice", "s"), x, entries))
    return graph.evaluate([X])[0]


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [1],
        [-1, ..., 2],
        [..., None, slice(None, None, -2)],
        [None, slice(5, 0, -1), None],
        [slice(0), 0, slice(1, 99)],
        [0, 1, 2],
    ],
)
def test_basic_indices_are_those_of_numpy(entries: list[Any]) -> None:
    np.testing.assert_array_equal(indexed(entries), X[tuple(entries)])


@pytest.mark.parametrize(
    ("entries", "rule"),
    [
        ([0, 0, 0, 0], "indices must fit 3 axes"),
        ([..., ...], "one ellipsis at most"),
        ([3], r"the index must be in \[-3, 3\), got 3"),
        ([slice(None, None, 0)], "strides must not be 0"),
    ],
)
def test_indices_that_do_not_fit(entries: list[Any], rule: str) -> None:
    with pytest.raises(UserError, match=rule):
        indexed(entries)
