"""Reductions of windows by runs: each element counts once, unless it may count twice; few steps."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from graphc.base.dtypes import S64
from graphc.graph_ir.ir.graph import Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.compose import Composer
from graphc.graph_ir.ops.doubling import Parts, Positions, axis_sliced, joined_runs


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 13, 16, 31])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (3, 1), (1, 2), (4, 3)])
@pytest.mark.parametrize("idempotent", [False, True])
def test_every_window(size: int, stride: int, dilation: int, idempotent: bool) -> None:
    graph, count, steps = Graph("g"), 5, 0
    length = (count - 1) * stride + (size - 1) * dilation + 1
    x = graph.make_input(LogicalTensor(S64, (2, length)), "x")
    make = Composer(graph, x.producer_owner)

    def combine(left: Parts, right: Parts) -> list[GraphTensor]:
        nonlocal steps
        steps += 1
        return [
            make("max" if idempotent else "add", *pair) for pair in zip(left, right, strict=True)
        ]

    windows = Positions(size, count, stride, dilation)
    (y,) = joined_runs([x], windows, combine, partial(axis_sliced, make, 1), idempotent)
    graph.make_output(y)
    values = np.random.default_rng(size).integers(-99, 99, (2, length))
    taps = np.arange(count)[:, None] * stride + np.arange(size) * dilation
    expected = getattr(values[:, taps], "max" if idempotent else "sum")(axis=-1)
    np.testing.assert_array_equal(graph.evaluate([values])[0], expected)
    assert steps <= 2 * (size.bit_length() - 1)
