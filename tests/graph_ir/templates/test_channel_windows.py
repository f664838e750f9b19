"""Channel windows as depthwise convolutions: integers exactly, over images, kernels, steps and padding of all kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.nest.convolution_geometry import ConvolutionGeometry
from graphc.graph_ir.schedule.window_tile import (
    channels_per_slice,
    pick_blocking,
    pixels_per_block,
    window_cycles,
    worth_threads,
)
from graphc.graph_ir.templates.channel_windows import WindowProblem, WindowTemplate
from graphc.targets.isa import Target
from graphc.targets.machines import ZEN5
from graphc.tensor_ir.nodes import Buffer, Module
from graphc.tensor_ir.pipeline import run as run_passes
from graphc.tools.fuzz.guarded import Edge
from support.lowered import check_interpreted, context, integers
from support.native_functions import NativeModule, runnable_target

Case = tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]
AVX512 = Target("avx512")


def cases(count: int, seed: int) -> list[Case]:
    """Random points of the boundary grid: image 1..17, channels around a vector, kernels 1..7, steps, padding."""
    rng = np.random.default_rng(seed)
    found: list[Case] = []
    while len(found) < count:
        rank = int(rng.choice([1, 2, 2]))
        channels = int(rng.choice([2, 3, 15, 16, 17, 33]))
        image, kernel = rng.integers(1, 18, rank), rng.integers(1, 8, rank)
        strides, dilations = rng.integers(1, 4, rank), rng.integers(1, 3, rank)
        before, after = rng.integers(0, 4, (2, rank))
        if ((kernel - 1) * dilations + 1 > image + before + after).any():
            continue
        attrs: dict[str, Any] = {"strides": strides, "dilations": dilations}
        attrs |= {"before": before, "after": after}
        attrs = {name: tuple(map(int, value)) for name, value in attrs.items()}
        attrs["groups"] = channels
        batch = int(rng.integers(1, 3))
        found.append(((batch, channels, *map(int, image)), (channels, 1, *map(int, kernel)), attrs))
    return found


def layer(case: Case) -> Graph:
    """A depthwise convolution with bias, residual and relu."""
    x_shape, w_shape, attrs = case
    graph = Graph("layer")
    x = graph.make_input(LogicalTensor(F32, x_shape), "x")
    w = graph.make_constant(integers(w_shape, 1), "w")
    y = graph.make("depthwise_convolution", [x, w], attrs, "conv").outputs[0]
    bias = graph.make_constant(integers((1, x_shape[1]) + (1,) * (len(x_shape) - 2), 2), "bias")
    other = graph.make_input(y.details, "other")
    y = graph.make("add", [y, bias], {}, "biased").outputs[0]
    y = graph.make("add", [y, other], {}, "sum").outputs[0]
    graph.make_output(graph.make("relu", [y], {}, "relu").outputs[0])
    return graph


@pytest.mark.parametrize("isa", ["avx512", "avx2", "generic"])
def test_interpreted(isa: str) -> None:
    for case in cases(3, 5):
        check_interpreted(layer(case), context(isa, threads=2))


def sliced() -> list[Case]:
    """More channels than one slice has, in whole slices and with a rest."""
    attrs = {"before": (1, 1), "after": (1, 1)}
    sizes = ((130, 20), (264, 17))
    return [((1, c, n, n), (c, 1, 3, 3), {**attrs, "groups": c}) for c, n in sizes]


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("case", [*cases(24, 6), *sliced()], ids=str)
def test_exact_on_integers(target: str, case: Case) -> None:
    graph = layer(case)
    arrays = [integers(op.outputs[0].details.plain_dims, i) for i, op in enumerate(graph.inputs)]
    (expected,) = graph.evaluate(arrays)
    result = np.asarray(graphc.compile(graph, target, threads=2)(*arrays))
    np.testing.assert_array_equal(result, expected)


def test_infinities_outside_the_windows_do_no_harm() -> None:
    case: Case = ((1, 16, 5, 5), (16, 1, 3, 3), {"groups": 16, "before": (1, 1), "after": (1, 1)})
    graph = layer(case)
    x, other = np.ones((1, 16, 5, 5), np.float32), np.zeros((1, 16, 5, 5), np.float32)
    x[0, :, 4, 4] = np.inf
    (expected,) = graph.evaluate([x, other])
    np.testing.assert_array_equal(np.asarray(graphc.compile(graph)(x, other)), expected)
    assert np.isfinite(expected[:, :, :3]).all()


def geometry(channels: int, size: int, kernel: int, stride: int = 1) -> ConvolutionGeometry:
    pad, out = kernel // 2, (size - 1) // stride + 1
    return ConvolutionGeometry(
        1, channels, 1, 1, (size, size), (out, out), (kernel, kernel), (stride, stride),
        before=(pad, pad),
    )  # fmt: skip


@pytest.mark.parametrize("size", [1, 7, 8, 9, 14, 112])
def test_blocks_are_about_equal(size: int) -> None:
    pixels = pixels_per_block(geometry(16, size, 3), ZEN5)
    assert 1 <= pixels <= 8
    assert -(-size // pixels) == -(-size // 8), "as few as can be"


@pytest.mark.parametrize("channels", [1, 16, 33, 384, 960])
def test_rows_of_a_slice_stay_in_l1(channels: int) -> None:
    width = channels_per_slice(geometry(channels, 14, 3), AVX512)
    slices = -(-channels // width)
    assert width % 16 == 0 and slices * width - channels < 16 * slices
    assert 3 * 14 * 4 * width <= AVX512.l1_bytes // 2 + 3 * 14 * 4 * 16


def test_no_slices_where_rows_are_hardly_read_again_or_too_long() -> None:
    assert channels_per_slice(geometry(384, 14, 3, 2), AVX512) == 384
    assert channels_per_slice(geometry(96, 112, 3), AVX512) == 96


def test_cost_is_work_or_memory() -> None:
    assert window_cycles(geometry(960, 7, 5), AVX512) > window_cycles(geometry(960, 7, 3), AVX512)
    assert window_cycles(geometry(96, 112, 3, 2), AVX512) > 96 * 112 * 112 * 4 / 16
    assert worth_threads(geometry(96, 112, 3), AVX512)
    assert not worth_threads(geometry(16, 4, 3), AVX512)


@pytest.mark.parametrize("at", ["start", "end"])
@pytest.mark.parametrize("combine", ["fma", "max"])
def test_nothing_outside_the_operands_is_touched(combine: str, at: Edge) -> None:
    target = runnable_target("avx2")
    g = geometry(11, 9, 3)
    x, y = Buffer("x", F32, (9 * 9 * 11,)), Buffer("y", F32, (9 * 9 * 11,))
    w = Buffer("w", F32, (9 * 11,))
    weights = w if combine == "fma" else None
    problem = WindowProblem(g, x, y, combine, -100.0, weights)
    template = WindowTemplate(problem, pick_blocking(g, target, 1), target, None, g)
    module = run_passes(Module((template.function("windows", (x, w, y), ""),)), target)
    arrays = [integers(buffer.shape, i) for i, buffer in enumerate((x, w, y))]
    NativeModule(module, target).check("windows", arrays, at)
