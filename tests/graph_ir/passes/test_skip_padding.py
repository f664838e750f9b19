"""Windows that lie mostly in the padding: which elements are left out, in which regions, and what is computed."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.window import Window
from graphc.graph_ir.passes.skip_padding import Run, runs, skip_padding
from support.expressions import graph_from
from support.graphs import run_pass
from support.lowered import context, integers

# (image, kernel, strides, dilations, before, after, convolutions left: 0 where nothing is gained)
CASES = [
    ((16, 16), (3, 3), (1, 1), (24, 24), (24, 24), (24, 24), 1),
    ((16, 16), (3, 3), (1, 1), (12, 12), (12, 12), (12, 12), 9),
    ((16, 4), (3, 3), (1, 1), (12, 2), (12, 2), (12, 2), 6),
    ((16, 16), (3, 3), (1, 1), (2, 2), (2, 2), (2, 2), 0),
    ((7, 9), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 0),
    ((1, 1), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1),
    ((4, 5), (3, 5), (2, 2), (6, 6), (6, 12), (6, 12), 1),
    ((3, 3), (2, 2), (1, 1), (7, 7), (9, 7), (9, 7), 0),
    ((5, 5), (1, 1), (1, 1), (1, 1), (4, 4), (4, 4), 0),
    ((6,), (3,), (1,), (5,), (5,), (5,), 3),
]


def layer(case: tuple, groups: int) -> tuple[str, dict]:
    image, kernel, strides, dilations, before, after, _ = case
    weights = integers((8, 4 // groups, *kernel), 1).tolist()
    where = f"strides={strides}, dilations={dilations}, before={before}, after={after}"
    text = f"convolution(x, c({weights}), {where}, groups={groups})"
    return text, {"x": (2, 4, *image)}


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("groups", [1, 4])
def test_regions(case: tuple, groups: int) -> None:
    text, shapes = layer(case, groups)
    graph = graph_from(text, **shapes)
    changed = run_pass(skip_padding, graph)
    assert changed == bool(case[-1])
    left = [op for op in graph.ops if op.op_name == "convolution"]
    assert len(left) == max(case[-1], 1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", [case for case in CASES if case[-1]], ids=str)
def test_native_code(case: tuple) -> None:
    text, shapes = layer(case, 1)
    arrays = [integers(shape, i) for i, shape in enumerate(shapes.values())]
    wanted = graph_from(text, **shapes).evaluate(arrays)[0]
    for disabled in ((), ("simplify",)):
        y = compile_model(graph_from(text, **shapes), disabled=disabled)(*arrays)
        np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize(
    ("weights", "dtype", "changed"),
    [
        ("w", "f32", False),
        ("w", "s32", True),
        ("c([[[inf, 2.0, 3.0]]])", "f32", False),
        ("c([[[1.0, 2.0, 3.0]]])", "f32", True),
    ],
)
def test_weights_that_may_be_infinite_are_kept(weights: str, dtype: str, changed: bool) -> None:
    text = f"convolution(x, {weights}, dilations=(9,), before=(9,), after=(9,))"
    shapes = {"x": (1, 1, 5), "w": (1, 1, 3)} if weights == "w" else {"x": (1, 1, 5)}
    assert run_pass(skip_padding, graph_from(text, dtype, **shapes)) == changed


def test_padding_times_infinity_is_nan() -> None:
    text = "convolution(x, c([[[1.0, 2.0, inf]]]), before=(1,), after=(1,))"
    y = compile_model(graph_from(text, x=(1, 1, 1)))(np.zeros((1, 1, 1), np.float32))
    assert np.isnan(y)


def test_runs_along_an_axis() -> None:
    window = Window((3,), (1,), (12,), (12,), (12,))
    assert runs(window, 0, 16, 16) == [Run(0, 4, 1, 2), Run(4, 8, 1, 1), Run(12, 4, 0, 2)]
    assert runs(Window((2,), (1,), (1,), (3,), (0,)), 0, 2, 4) is None, "all in the padding"


def pool(kind: str, size: int, window: Window) -> Graph:
    """A pool over the last axis of x [2, size]."""
    graph = Graph("pool")
    x = graph.make_input(LogicalTensor(F32, (2, size)), "x")
    names = ("kernel", "strides", "dilations", "before", "after", "ceil_mode")
    attrs = {name: getattr(window, name) for name in names}
    graph.make_output(graph.make(kind, [x], attrs).outputs[0])
    return graph


def some_windows(count: int) -> Iterator[tuple[int, Window]]:
    """Windows of one axis, most of them with more padding than image."""
    rng = random.Random(0)
    for _ in range(count):
        size, kernel, step, dilation = (rng.randint(1, most) for most in (9, 9, 5, 4))
        before, after = rng.randint(0, 12), rng.randint(0, 12)
        if size + before + after > (kernel - 1) * dilation:
            ceil_mode = rng.random() < 0.3
            yield size, Window((kernel,), (step,), (dilation,), (before,), (after,), ceil_mode)


def test_windows_of_pools_are_cut_to_what_they_see() -> None:
    cut = 0
    for number, (size, window) in enumerate(some_windows(300)):
        graph = pool(("max_pool", "min_pool", "sum_pool", "prod_pool")[number % 4], size, window)
        x = np.arange(1.0, 2 * size + 1, dtype=np.float32).reshape(2, size)
        (wanted,) = graph.evaluate([x])
        cut += run_pass(skip_padding, graph)
        np.testing.assert_array_equal(graph.evaluate([x])[0], wanted)
    assert cut > 50


def test_a_window_of_nearly_nothing_but_padding_is_small() -> None:
    n = 10**11  # no array of this size, nor as many positions, is ever made
    graph = pool("sum_pool", 4, Window((2 * n + 1,), (1,), (1,), (n,), (n,)))
    assert skip_padding(graph, context())
    (op,) = (op for op in graph.ops if op.op_name == "sum_pool")
    assert (op.attrs["kernel"], op.attrs["before"], op.attrs["after"]) == ((7,), (3,), (3,))


def test_constant_weights_stay_constants() -> None:
    graph = graph_from(
        "convolution(x, c([[[1.0, 2.0, 3.0]]]), dilations=(9,), before=(9,), after=(9,))",
        x=(1, 1, 5),
    )
    assert run_pass(skip_padding, graph)
    (convolution,) = (op for op in graph.ops if op.op_name == "convolution")
    assert convolution.inputs[1].producer_owner.attr("value").tolist() == [[[2.0]]]
