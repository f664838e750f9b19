"""Winograd convolutions of floats that are not finite, or overflow in the transforms."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.convolutions import arrays_of, layer
from support.lowered import integers


def direct(x: Array, w: Array, dilation: int = 1) -> Array:
    """The padded convolution as sums over windows, term by term: infinities and NaN reach what reads them."""
    pads, reach = [(0, 0), (0, 0), *[(dilation, dilation)] * 2], (2 * dilation + 1,) * 2
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, pads), reach, (2, 3))
    windows = windows[..., ::dilation, ::dilation]
    with np.errstate(all="ignore"):
        terms = windows[:, None] * w[None, :, :, None, None]
        return np.asarray(terms.sum((2, 5, 6)))


@pytest.mark.exhaustive
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
