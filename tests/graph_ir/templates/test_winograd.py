"""The Winograd template: integers exactly where the form allows it, else within the bound; sizes around its tiles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.winograd import WinogradConvolution
from graphc.graph_ir.ops.winograd_form import F2, F4, WinogradForm
from graphc.graph_ir.schedule.winograd_tile import WinogradBlocking, tiles_along
from graphc.graph_ir.templates.winograd import WinogradTemplate
from graphc.graph_ir.templates.winograd_tiles import Image, WinogradProblem
from graphc.targets.microkernels import f32_tiles
from graphc.tensor_ir.nodes import Buffer, Module
from graphc.tensor_ir.pipeline import run as run_passes
from graphc.tools.fuzz.guarded import Edge
from support.convolutions import SIZES, Pair, arrays_of, convolution, layer
from support.lowered import check_interpreted, context, integers
from support.native_functions import NativeModule, runnable_target


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ["avx512", "avx2", "generic"])
@pytest.mark.parametrize("size", SIZES[1:3], ids=str)
def test_interpreted(isa: str, size: tuple[Any, ...]) -> None:
    lowered = check_interpreted(layer(size, 2, with_post=True), context(isa))
    (call,) = [call for call in lowered.calls if "winograd" in call.kernel]
    assert "conv -> biased ->" in call.note and "-> relu" in call.note, (
        "the epilogue runs on the results of the tile"
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_f2_is_exact_on_integers(target: str, size: tuple[Any, ...]) -> None:
    graph = layer(size, 2, with_post=True)
    arrays = arrays_of(graph)
    (expected,) = graph.evaluate(arrays)
    result = np.asarray(graphc.compile(graph, target, threads=1)(*arrays))
    np.testing.assert_array_equal(result, expected)


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_f4_is_within_its_bound(target: str, size: tuple[Any, ...]) -> None:
    check_bound(size, 4, target)


@pytest.mark.exhaustive
@pytest.mark.parametrize("results", [2, 4])
def test_many_channels_are_within_the_bound(results: int) -> None:
    check_bound((1, 300, 40, 6, 6, (1, 1), (1, 1)), results, "native")


def check_bound(size: tuple[Any, ...], results: int, target: str) -> None:
    graph = layer(size, results)
    op = next(op for op in graph.ops if isinstance(op, WinogradConvolution))
    rng = np.random.default_rng(3)
    x = rng.standard_normal(op.inputs[0].details.plain_dims).astype(np.float32)
    w, u = (i.producer_owner for i in (op.inputs[1].producer_owner.inputs[0], op.inputs[1]))
    exact = convolution(x.astype(np.float64), w.attrs["value"].astype(np.float64), *size[5:])
    result = np.asarray(graphc.compile(graph, target, threads=1)(x))
    scale = op.error_scale(x, u.reference([w.attrs["value"]])[0])
    bound = (size[1] + 24) * 2.0**-24 * scale
    assert np.all(np.abs(result - exact) <= bound)
    # What is found is far below what is possible: nearly all roundings cancel.
    largest = convolution(np.abs(x), np.abs(w.attrs["value"]), *size[5:]).max()
    assert np.abs(result - exact).max() <= {2: 4, 4: 24}[results] * 2.0**-24 * largest


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "size",
    [
        (1, 40, 70, 20, 18, (1, 1), (1, 1)),
        (3, 64, 64, 4, 4, (1, 1), (1, 1)),
        (2, 33, 5, 2, 6, (1, 1), (1, 1)),  # fewer tiles than rows of a register tile
    ],
    ids=str,
)
@pytest.mark.parametrize("results", [2, 4])
def test_the_thread_count_changes_no_bit(size: tuple[Any, ...], results: int) -> None:
    graph = layer(size, results)
    x = np.random.default_rng(4).standard_normal(graph.inputs[0].outputs[0].details.plain_dims)
    found = [graphc.compile(graph, threads=n)(x.astype(np.float32)) for n in (1, 2, 3)]
    assert all(np.array_equal(found[0], other) for other in found[1:])


def test_weights_that_are_not_constant_are_transformed_when_it_runs() -> None:
    graph = Graph("layer")
    x = graph.make_input(LogicalTensor(F32, (1, 5, 6, 6)), "x")
    w = graph.make_input(LogicalTensor(F32, (7, 5, 3, 3)), "w")
    u = graph.make("winograd_weights", [w], {"results": 2}, "u").outputs[0]
    graph.make_output(graph.make("winograd_convolution", [x, u], {"results": 2}, "y").outputs[0])
    image, weights = arrays_of(graph)
    result = graphc.compile(graph, threads=1)(image, weights)
    np.testing.assert_array_equal(result, convolution(image, weights, (0, 0), (0, 0)))


@pytest.mark.exhaustive
@pytest.mark.parametrize("at", ["start", "end"])
@pytest.mark.parametrize(("form", "dilations"), [(F2, (1, 1)), (F4, (1, 1)), (F2, (2, 1))], ids=str)
def test_nothing_outside_the_operands_is_touched(
    form: WinogradForm, dilations: Pair, at: Edge
) -> None:
    target = runnable_target("avx2")
    tile = f32_tiles(target)[-1]
    channels, outputs, columns = 9, 11, tile.columns(target)
    panels = -(-outputs // columns)
    rows = 5 - 2 * dilations[0] + 1  # a row of padding in front
    x, y = Buffer("x", F32, (5 * 7 * channels,)), Buffer("y", F32, (rows * 6 * outputs,))
    u = Buffer("u", F32, (form.matmuls * panels * channels * columns,))
    problem = WinogradProblem(
        1, Image(x, 5, 7, channels), u, Image(y, rows, 6, outputs), 1, 0, dilations
    )
    blocking = WinogradBlocking(form, tile, 2, 1, 1)
    sizes = zip((rows, 6), dilations, strict=True)
    total = math.prod(tiles_along(size, form.results, step) for size, step in sizes)
    template = WinogradTemplate(problem, blocking, target, "serial", None, total)
    module = run_passes(Module((template.function("conv", (x, u, y), ""),)), target)
    arrays = [integers(buffer.shape, i) for i, buffer in enumerate((x, u, y))]
    NativeModule(module, target).check("conv", arrays, at)
