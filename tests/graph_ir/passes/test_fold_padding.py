"""fold_padding: which pads become the padding of what reads them, and that results stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.fold_padding import fold_padding
from support.compiled import run_native
from support.graphs import run_pass
from support.lowered import context

RANDOM = np.random.default_rng(0)


def padded(
    op: str,
    before: tuple[int, ...],
    after: tuple[int, ...],
    value: float = 0.0,
    weight: float = 1.0,
    dims: tuple[Any, ...] = (2, 4, 9, 8),
    relu: bool = False,
    mode: str = "constant",
    own: tuple[int, ...] = (0, 0),
    **attrs: Any,
) -> Graph:
    """An op that reads a pad; `weight` is one of the weights of a convolution."""
    graph = Graph("padded")
    x = graph.make_input(LogicalTensor(F32, dims), "x")
    if relu:
        x = graph.make("relu", [x], {}, "relu").outputs[0]
    p = {"before": before, "after": after, "value": value, "mode": mode}
    read: list[GraphTensor] = list(graph.make("pad", [x], p, "pad").outputs)
    if op == "convolution":
        channels = read[0].details.plain_dims[1] // attrs.get("groups", 1)
        w = RANDOM.integers(-3, 4, (6, channels, 3, 3)).astype(np.float32)
        w[0, 0, 0, 0] = weight
        read.append(graph.make_constant(w, "w"))
    graph.make_output(graph.make(op, read, {**attrs, "before": own}, "op").outputs[0], "y")
    return graph


CONV, INF = "convolution", float("inf")
FOLDED: dict[str, tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]] = {
    "symmetric": ({"op": CONV, "before": (0, 0, 1, 1), "after": (0, 0, 1, 1)}, (1, 1), (1, 1)),
    "asymmetric": (
        {"op": CONV, "before": (0, 0, 0, 0), "after": (0, 0, 1, 1), "strides": (2, 2)},
        (0, 0), (1, 1),
    ),
    "with its own": (
        {"op": CONV, "before": (0, 0, 0, 2), "after": (0, 0, 3, 1), "own": (1, 0), "groups": 2},
        (1, 2), (3, 1),
    ),
    "wider than the window": (
        {"op": CONV, "before": (0, 0, 5, 0), "after": (0, 0, 0, 5), "dilations": (2, 1)},
        (5, 0), (0, 5),
    ),
    "max": (
        {"op": "max_pool", "before": (0, 0, 1, 0), "after": (0, 0, 1, 1), "value": -INF, "kernel": (3, 2)},
        (1, 0), (1, 1),
    ),
    "max of zeros": (
        {"op": "max_pool", "before": (0, 0, 1, 0), "after": (0, 0, 1, 1), "relu": True, "kernel": (3, 2)},
        (1, 0), (1, 1),
    ),
    "sum": (
        {"op": "sum_pool", "before": (0, 0, 0, 1), "after": (0, 0, 2, 0), "kernel": (2, 3)},
        (0, 1), (2, 0),
    ),
    "average": (
        {"op": "avg_pool", "before": (0, 0, 0, 1), "after": (0, 0, 1, 0), "kernel": (2, 3)},
        (0, 1), (1, 0),
    ),
}  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", FOLDED)
def test_pads_with_the_value_of_the_padding_are_folded(case: str) -> None:
    words, before, after = FOLDED[case]
    graph = padded(**words)
    x = RANDOM.integers(-9, 10, (2, 4, 9, 8)).astype(np.float32)
    (wanted,) = graph.evaluate([x])
    assert run_pass(fold_padding, graph)
    op = next(op for op in graph.ops if op.name == "op")
    assert (op.attr("before"), op.attr("after")) == (before, after)
    assert op.inputs[0].producer_owner.op_name != "pad"
    np.testing.assert_array_equal(graph.evaluate([x])[0], wanted)
    np.testing.assert_array_equal(run_native(graph, [x])[0], wanted)


SPATIAL = {"before": (0, 0, 1, 1), "after": (0, 0, 1, 1)}
KEPT: dict[str, dict[str, Any]] = {
    "another value": {"op": CONV, **SPATIAL, "value": 1.0},
    "another mode": {"op": CONV, **SPATIAL, "mode": "reflect"},
    "channels": {"op": CONV, "before": (0, 2, 0, 0), "after": (0, 0, 0, 0), "dims": (2, 2, 9, 8)},
    "cropped": {"op": CONV, "before": (0, 0, 1, -1), "after": (0, 0, 1, 0)},
    "an infinite weight": {"op": CONV, **SPATIAL, "weight": INF},
    "zeros below which there may be numbers": {"op": "max_pool", **SPATIAL, "kernel": (3, 3)},
    "zeros that a window may see alone": {
        "op": "max_pool", **SPATIAL, "relu": True, "kernel": (1, 3),
    },
    "a window that ends outside": {
        "op": "max_pool", **SPATIAL, "value": -INF, "kernel": (2, 2), "strides": (2, 2), "ceil_mode": True,
    },
    "an average that does not count its own": {
        "op": "avg_pool", "before": (0, 0, 1, 1), "after": (0, 0, 1, 1), "kernel": (3, 3), "own": (1, 1),
    },
}  # fmt: skip


@pytest.mark.parametrize("case", KEPT)
def test_other_pads_are_kept(case: str) -> None:
    assert not run_pass(fold_padding, padded(**KEPT[case]))


def test_a_pad_that_others_read_stays_for_them() -> None:
    graph = padded(CONV, (0, 0, 1, 1), (0, 0, 1, 1))
    pad = next(op for op in graph.ops if op.name == "pad")
    graph.make_output(pad.outputs[0], "p")
    assert run_pass(fold_padding, graph)
    assert next(op for op in graph.ops if op.name == "op").inputs[0].name == "x"
    assert any(op.name == "pad" for op in graph.ops)


def test_dynamic_images() -> None:
    dims = (size(Symbol("N")), 4, size(Symbol("H", 4)), 8)
    graph = padded(CONV, (0, 0, 0, 0), (0, 0, 1, 1), dims=dims, strides=(2, 2))
    assert fold_padding(graph, context())
    x = RANDOM.integers(-9, 10, (3, 4, 11, 8)).astype(np.float32)
    static = padded(CONV, (0, 0, 0, 0), (0, 0, 1, 1), dims=x.shape, strides=(2, 2))
    w = next(op for op in graph.ops if op.name == "w").attr("value")
    next(op for op in static.ops if op.name == "w").set_attr("value", w)
    np.testing.assert_array_equal(graphc.compile(graph)(x), static.evaluate([x])[0])
