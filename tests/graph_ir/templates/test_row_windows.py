"""Row windows as depthwise convolutions and pools of plain images: integers exactly, between guard pages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from graphc.base.dtypes import BF16, F16, F32, F64, DType
from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.schedule import Schedule
from graphc.graph_ir.nest.convolution_geometry import ConvolutionGeometry
from graphc.graph_ir.schedule.row_windows import (
    line_elements,
    pick_row_blocking,
    row_cycles,
    rows_at_once,
    staged_lines,
)
from graphc.graph_ir.templates.channel_windows import WindowProblem
from graphc.graph_ir.templates.row_windows import RowWindowTemplate
from graphc.targets.isa import Target
from graphc.tensor_ir.nodes import Buffer, Module
from graphc.tensor_ir.pipeline import run as run_passes
from graphc.tools.fuzz.guarded import Edge
from support.lowered import check_interpreted, context, integers
from support.native_functions import NativeModule, runnable_target

AVX512 = Target("avx512")
Case = tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]


def cases(count: int, seed: int) -> list[Case]:
    """Random points of the boundary grid: image 1..40, 1 to 5 channels, kernels 1..7, steps, padding."""
    rng = np.random.default_rng(seed)
    found: list[Case] = []
    while len(found) < count:
        rank = int(rng.choice([1, 2, 2, 2]))
        channels = int(rng.choice([2, 3, 5]))
        image, kernel = rng.integers(1, 41, rank), rng.integers(1, 8, rank)
        strides, dilations = rng.integers(1, 4, rank), rng.integers(1, 3, rank)
        before, after = rng.integers(0, 4, (2, rank))
        if ((kernel - 1) * dilations + 1 > image + before + after).any():
            continue
        attrs: dict[str, Any] = {"strides": strides, "dilations": dilations}
        attrs |= {"before": before, "after": after}
        attrs = {name: tuple(map(int, value)) for name, value in attrs.items()}
        found.append(((2, channels, *map(int, image)), tuple(map(int, kernel)), attrs))
    return found


def layer(case: Case, kind: str, dtype: DType = F32) -> Graph:
    """A depthwise convolution, or a pool, with a bias for each channel, a residual and relu."""
    x_shape, kernel, attrs = case
    graph, channels = Graph("layer"), x_shape[1]
    x = graph.make_input(LogicalTensor(dtype, x_shape), "x")
    if kind == "depthwise_convolution":
        w = graph.make_constant(integers((channels, 1, *kernel), 1).astype(dtype.numpy), "w")
        y = graph.make(kind, [x, w], {**attrs, "groups": channels}, "window").outputs[0]
    else:
        y = graph.make(kind, [x], {**attrs, "kernel": kernel}, "window").outputs[0]
    bias = integers((1, channels) + (1,) * len(kernel), 2).astype(dtype.numpy)
    y = graph.make("add", [y, graph.make_constant(bias, "bias")], {}, "biased").outputs[0]
    other = graph.make_input(y.details, "other")
    y = graph.make("add", [y, other], {}, "sum").outputs[0]
    graph.make_output(graph.make("relu", [y], {}, "relu").outputs[0])
    return graph


BY_ROW = {"window": "algorithm=row-windows"}
KINDS = ("depthwise_convolution", "max_pool", "sum_pool")


@pytest.mark.parametrize("isa", ["avx512", "avx2", "generic"])
def test_interpreted(isa: str) -> None:
    for case in cases(2, 5):
        check_interpreted(layer(case, "max_pool"), context(isa, threads=2))


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("number", range(10))
def test_exact_on_integers(target: str, number: int) -> None:
    case, kind = cases(10, 6)[number], KINDS[number % 3]
    graph = layer(case, kind)
    arrays = [integers(op.outputs[0].details.plain_dims, i) for i, op in enumerate(graph.inputs)]
    (expected,) = graph.evaluate(arrays)
    requested = BY_ROW if kind == "depthwise_convolution" else {}
    model = graphc.compile(graph, target, threads=2, schedules=requested)
    np.testing.assert_array_equal(np.asarray(model(*arrays)), expected)
    off = graphc.compile(layer(case, kind), target, threads=1, disabled=("row-windows",))
    np.testing.assert_array_equal(np.asarray(off(*arrays)), expected)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", [F64, F16, BF16], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_types(kind: str, dtype: DType) -> None:
    case: Case = ((1, 3, 9, 21), (3, 3), {"strides": (1, 2), "before": (1, 1), "after": (1, 1)})
    graph = layer(case, kind, dtype)
    arrays = [
        integers(op.outputs[0].details.plain_dims, i).astype(dtype.numpy)
        for i, op in enumerate(graph.inputs)
    ]
    (expected,) = graph.evaluate(arrays)
    requested = BY_ROW if kind == "depthwise_convolution" else {}
    np.testing.assert_array_equal(
        np.asarray(graphc.compile(graph, schedules=requested)(*arrays)), expected
    )


def test_one_kernel_alone_and_none_of_reorders() -> None:
    case: Case = ((1, 96, 56, 56), (3, 3), {"before": (1, 1), "after": (1, 1)})
    for kind in KINDS:
        options = CompileOptions()
        (call,) = compile_stages(layer(case, kind), AVX512, options).lowered.calls
        assert "row-windows" in call.note
        off = CompileOptions(disabled=frozenset({"row-windows"}))
        assert all(
            "row-windows" not in c.note
            for c in compile_stages(layer(case, kind), AVX512, off).lowered.calls
        )


def test_nan_is_kept_and_padding_is_no_number() -> None:
    case: Case = ((1, 2, 5, 20), (3, 3), {"before": (1, 1), "after": (1, 1)})
    graph = Graph("pool")
    x = graph.make_input(LogicalTensor(F32, case[0]), "x")
    graph.make_output(graph.make("max_pool", [x], {**case[2], "kernel": (3, 3)}).outputs[0])
    values = -np.ones(case[0], np.float32)
    values[0, 0, 2, 7] = np.nan
    (expected,) = graph.evaluate([values])
    np.testing.assert_array_equal(np.asarray(graphc.compile(graph)(values)), expected)
    assert np.isnan(expected).sum() == 9


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["max_pool", "sum_pool"])
def test_long_windows_are_loops(kind: str) -> None:
    case: Case = (
        (1, 2, 90, 140),
        (70, 80),
        {"strides": (7, 3), "before": (0, 69), "after": (4, 60)},
    )
    graph = layer(case, kind)
    arrays = [integers(op.outputs[0].details.plain_dims, i) for i, op in enumerate(graph.inputs)]
    np.testing.assert_array_equal(
        np.asarray(graphc.compile(graph, threads=1)(*arrays)), graph.evaluate(arrays)[0]
    )
    few, many = (
        layer(((1, 1, n, n), (n // 2, n // 2), {"before": (n // 4,) * 2}), kind)
        for n in (200, 2000)
    )
    short, long = (len(str(compile_stages(g, AVX512).lowered)) for g in (few, many))
    assert long < 2 * short


def geometry(size: int, kernel: int, stride: int = 1, channels: int = 3) -> ConvolutionGeometry:
    pad, out = kernel // 2, (size - 1) // stride + 1
    return ConvolutionGeometry(
        1, channels, 1, 1, (size, size), (out, out), (kernel, kernel), (stride, stride),
        before=(pad, pad),
    )  # fmt: skip


def test_staged_lines_stay_in_l1() -> None:
    for size, kernel, stride in ((7, 3, 1), (112, 3, 2), (224, 7, 2), (1000, 5, 1)):
        for is_convolution in (False, True):
            g = geometry(size, kernel, stride)
            schedule = pick_row_blocking(g, is_convolution, AVX512, 1)
            rows, height = schedule.number("rows"), schedule.number("height")
            lines = staged_lines(g, is_convolution, rows)
            assert 1 <= height <= rows <= g.result[0]
            assert lines * line_elements(g) * 4 <= AVX512.l1_bytes // 2 or rows == 1
    for size, channels, split in ((56, 96, "parallel"), (4, 3, "serial")):
        found = pick_row_blocking(geometry(size, 3, channels=channels), True, AVX512, 2)
        assert found.word("split") == split


def test_a_column_of_weights_and_the_sums_stay_in_registers() -> None:
    for isa in ("avx512", "avx2", "generic"):
        target = Target(isa)
        for kernel in (1, 3, 5, 7, 8):
            height = rows_at_once(geometry(56, kernel), target, 56)
            assert 1 <= height <= max(target.table.registers - kernel - 2, 1)
    assert (
        rows_at_once(geometry(56, 7), AVX512, 56) == 14
    )  # four groups, not three of 16 and one of 8
    assert rows_at_once(geometry(56, 7), Target("avx2"), 56) == 7


def test_a_wide_window_alone_runs_in_rows() -> None:
    """7x7: channels last with a reorder on each side take 202 us, rows 157."""
    graph = layer(((1, 96, 56, 56), (7, 7), {"before": (3, 3), "after": (3, 3)}), KINDS[0])
    (call,) = compile_stages(graph, AVX512, CompileOptions()).lowered.calls
    assert "row-windows rows=56 height=14" in call.note


def test_cost_is_work_or_memory() -> None:
    assert row_cycles(geometry(28, 5), True, AVX512) > row_cycles(geometry(28, 3), True, AVX512)
    assert row_cycles(geometry(28, 5), False, AVX512) < row_cycles(geometry(28, 5), True, AVX512)
    assert row_cycles(geometry(112, 1), False, AVX512) >= 2 * 3 * 112 * 112 * 4 / 12


@pytest.mark.exhaustive
@pytest.mark.parametrize("at", ["start", "end"])
@pytest.mark.parametrize("isa", ["avx2", "avx512"])
@pytest.mark.parametrize("combine", ["fma", "max"])
def test_nothing_outside_the_operands_is_touched(combine: str, isa: str, at: Edge) -> None:
    target = runnable_target(isa)
    g = geometry(21, 3, 2)
    x, y = Buffer("x", F32, (3 * 21 * 21,)), Buffer("y", F32, (3 * 11 * 11,))
    w = Buffer("w", F32, (3 * 9,))
    problem = WindowProblem(g, x, y, combine, 0.0, w if combine == "fma" else None)
    height = 2 if combine == "fma" else 1
    schedule = Schedule.of("row-windows", rows=4, height=height, split="serial")
    template = RowWindowTemplate(problem, schedule, target, None)
    module = run_passes(Module((template.function("windows", (x, w, y), ""),)), target)
    arrays = [integers(buffer.shape, i) for i, buffer in enumerate((x, w, y))]
    NativeModule(module, target).check("windows", arrays, at)
