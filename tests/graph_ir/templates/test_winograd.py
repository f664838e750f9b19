"""The Winograd template: integers exactly where the form allows it, else within the bound; sizes around its tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from graphc.base.contraction import f32_tiles
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.winograd import WinogradConvolution
from graphc.graph_ir.ops.winograd_form import F2, F4, WinogradForm
from graphc.graph_ir.schedule.winograd_tile import WinogradBlocking
from graphc.graph_ir.templates.winograd import WinogradTemplate
from graphc.graph_ir.templates.winograd_image import Image, WinogradProblem
from graphc.tensor_ir.nodes import Buffer, Module
from graphc.tensor_ir.pipeline import run as run_passes
from graphc.tools.fuzz.guarded import Place
from support.lowered import check_interpreted, context, integers
from support.native_functions import NativeModule, runnable_target

Pair = tuple[int, int]

# (batch, channels, outputs, height, width, before, after, dilations where they are not 1)
SIZES: tuple[tuple[Any, ...], ...] = (
    (1, 1, 1, 1, 1, (1, 1), (1, 1)),
    (2, 3, 5, 3, 2, (1, 1), (1, 1)),
    (1, 16, 17, 4, 5, (1, 1), (1, 1)),
    (1, 15, 33, 7, 9, (0, 1), (2, 0)),
    (2, 17, 16, 10, 6, (1, 1), (1, 1)),
    (1, 33, 49, 17, 13, (0, 0), (0, 0)),
    (1, 8, 70, 8, 8, (2, 3), (1, 4)),
    (
        2,
        5,
        17,
        17,
        9,
        (2, 1),
        (2, 3),
        (2, 3),
    ),  # phases of 9 and 8 rows: a tile of the second has none
    (1, 3, 5, 3, 11, (4, 1), (5, 1), (4, 1)),
)


def layer(size: tuple[Any, ...], results: int, seed: int = 0, with_post: bool = False) -> Graph:
    """A 3 x 3 convolution in a Winograd form, integers as weights; with `with_post` bias, residual and relu too."""
    batch, channels, outputs, height, width, before, after, *dilated = size
    graph = Graph("layer")
    x = graph.make_input(LogicalTensor(F32, (batch, channels, height, width)), "x")
    w = graph.make_constant(integers((outputs, channels, 3, 3), seed), "w")
    u = graph.make("winograd_weights", [w], {"results": results}, "u").outputs[0]
    attrs = {"results": results, "before": before, "after": after}
    attrs |= {"dilations": dilated[0]} if dilated else {}
    y = graph.make("winograd_convolution", [x, u], attrs, "conv").outputs[0]
    if with_post:
        bias = graph.make_constant(integers((1, outputs, 1, 1), seed + 1), "bias")
        other = graph.make_input(y.details, "other")
        y = graph.make("add", [y, bias], {}, "biased").outputs[0]
        y = graph.make("add", [y, other], {}, "sum").outputs[0]
        y = graph.make("relu", [y], {}, "relu").outputs[0]
    graph.make_output(y)
    return graph


def arrays_of(graph: Graph) -> list[Array]:
    return [integers(op.outputs[0].details.plain_dims, 7 + i) for i, op in enumerate(graph.inputs)]


def convolution(x: Array, w: Array, before: Pair, after: Pair, dilations: Pair = (1, 1)) -> Array:
    pads, (down, across) = [(0, 0), (0, 0), *zip(before, after, strict=True)], dilations
    reach = 2 * down + 1, 2 * across + 1
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, pads), reach, (2, 3))
    windows = windows[..., ::down, ::across]
    return np.asarray(np.einsum("nchwij,ocij->nohw", windows, w, optimize=True))


@pytest.mark.parametrize("isa", ["avx512", "avx2", "generic"])
@pytest.mark.parametrize("size", SIZES[1:3], ids=str)
def test_interpreted(isa: str, size: tuple[Any, ...]) -> None:
    lowered = check_interpreted(layer(size, 2, with_post=True), context(isa))
    (call,) = [call for call in lowered.calls if "winograd" in call.kernel]
    assert "conv -> biased ->" in call.note and "-> relu" in call.note, (
        "the epilogue runs on the results of the tile"
    )


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_f2_is_exact_on_integers(target: str, size: tuple[Any, ...]) -> None:
    graph = layer(size, 2, with_post=True)
    arrays = arrays_of(graph)
    (expected,) = graph.evaluate(arrays)
    result = np.asarray(graphc.compile(graph, target, threads=1)(*arrays))
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_f4_is_within_its_bound(target: str, size: tuple[Any, ...]) -> None:
    check_bound(size, 4, target)


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


def direct(x: Array, w: Array, dilation: int = 1) -> Array:
    """The padded convolution as sums over windows, term by term: infinities and NaN reach what reads them."""
    pads, reach = [(0, 0), (0, 0), *[(dilation, dilation)] * 2], (2 * dilation + 1,) * 2
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, pads), reach, (2, 3))
    windows = windows[..., ::dilation, ::dilation]
    with np.errstate(all="ignore"):
        terms = windows[:, None] * w[None, :, :, None, None]
        return np.asarray(terms.sum((2, 5, 6)))


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("results", [2, 4])
@pytest.mark.parametrize(
    ("values", "dilation"), [((np.inf,), 1), ((np.nan,), 2), ((np.inf, -np.inf), 1)]
)
def test_what_is_not_finite_reaches_only_the_windows_that_hold_it(
    values: tuple[float, ...], dilation: int, results: int, target: str
) -> None:
    pads = dilation, dilation
    graph = layer((2, 3, 37, 13, 10, pads, pads, pads), results, with_post=True)
    x, other = arrays_of(graph)
    for number, value in enumerate(values):
        x[number, 1, 5, 4 + number] = value
    w, bias = integers((37, 3, 3, 3), 0), integers((1, 37, 1, 1), 1)
    expected = np.maximum(direct(x.astype(np.float64), w, dilation) + bias + other, 0)
    result = np.asarray(graphc.compile(graph, target, threads=1)(x, other))
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("results", [2, 4])
def test_images_overflow_where_the_direct_form_does(results: int) -> None:
    """Weights of an average: results are as large as the image, but the transforms are beyond the largest number."""
    graph = Graph("average")
    x = graph.make_input(LogicalTensor(F32, (1, 2, 9, 9)), "x")
    w = graph.make_constant(np.full((17, 2, 3, 3), 1 / 18, np.float32), "w")
    u = graph.make("winograd_weights", [w], {"results": results}, "u").outputs[0]
    graph.make_output(graph.make("winograd_convolution", [x, u], {"results": results}).outputs[0])
    image = np.full((1, 2, 9, 9), 3e38, np.float32)
    image[..., ::2] = -3e38
    result = np.asarray(graphc.compile(graph, threads=1)(image))
    expected = graph.evaluate([image])[0]
    np.testing.assert_allclose(result, expected, rtol=1e-5)
    assert np.isfinite(result).all()


def test_weights_that_are_not_constant_are_transformed_when_it_runs() -> None:
    graph = Graph("layer")
    x = graph.make_input(LogicalTensor(F32, (1, 5, 6, 6)), "x")
    w = graph.make_input(LogicalTensor(F32, (7, 5, 3, 3)), "w")
    u = graph.make("winograd_weights", [w], {"results": 2}, "u").outputs[0]
    graph.make_output(graph.make("winograd_convolution", [x, u], {"results": 2}, "y").outputs[0])
    image, weights = arrays_of(graph)
    result = graphc.compile(graph, threads=1)(image, weights)
    np.testing.assert_array_equal(result, convolution(image, weights, (0, 0), (0, 0)))


@pytest.mark.parametrize("at", ["start", "end"])
@pytest.mark.parametrize(("form", "dilations"), [(F2, (1, 1)), (F4, (1, 1)), (F2, (2, 1))], ids=str)
def test_nothing_outside_the_operands_is_touched(
    form: WinogradForm, dilations: Pair, at: Place
) -> None:
    target = runnable_target("avx2")
    tile = f32_tiles(target)[-1]
    channels, outputs, columns = 9, 11, tile.columns(target)
    panels = -(-outputs // columns)
    rows = 5 - 2 * dilations[0] + 1  # a row of padding in front
    x, y = Buffer("x", F32, (5 * 7 * channels,)), Buffer("y", F32, (rows * 6 * outputs,))
    u = Buffer("u", F32, (form.products * panels * channels * columns,))
    problem = WinogradProblem(
        1, Image(x, 5, 7, channels), u, Image(y, rows, 6, outputs), 1, 0, dilations
    )
    blocking = WinogradBlocking(form, tile, 2, 1, 1)
    template = WinogradTemplate(problem, blocking, target, "serial", None)
    module = run_passes(Module((template.function("conv", (x, u, y), ""),)), target)
    arrays = [integers(buffer.shape, i) for i, buffer in enumerate((x, u, y))]
    NativeModule(module, target).check("conv", arrays, at)
