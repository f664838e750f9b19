"""Convolutions, pools and resampling of readable dumps, against sums over windows written out with NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from graphc import compile
from graphc.base.dtypes import by_name
from graphc.base.errors import GraphcError
from graphc.frontend import load
from graphc.graph_ir.ir.graph import Array
from support.ge_dumps import RETURN, const, node, run
from support.tolerance import assert_close

RNG = np.random.default_rng(0)
IMAGE = RNG.standard_normal((2, 4, 7, 6)).astype(np.float32)
LAST = np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1))
BIAS = RNG.standard_normal(6).astype(np.float32)
Pads = Sequence[tuple[int, int]]


def filters(*shape: int) -> Array:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def windows(
    x: Array, kernel: Sequence[int], steps: Sequence[int], pads: Pads, fill: float
) -> Array:
    """[N, C, positions, kernel] of x [N, C, sizes]."""
    padded = np.pad(x, ((0, 0), (0, 0), *pads), constant_values=fill)
    axes = tuple(range(2, x.ndim))
    view = np.lib.stride_tricks.sliding_window_view(padded, kernel, axes)
    return view[(slice(None), slice(None), *(slice(None, None, s) for s in steps))]


def convolved(x: Array, w: Array, steps: Sequence[int], pads: Pads, groups: int = 1) -> Array:
    view = windows(x, w.shape[2:], steps, pads, 0)
    parts = [
        np.einsum("nchwij,ocij->nohw", part, weights)
        for part, weights in zip(np.split(view, groups, 1), np.split(w, groups, 0), strict=True)
    ]
    return np.concatenate(parts, 1)


def to_last(x: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


W = filters(6, 4, 3, 2)
GROUPED = filters(6, 2, 3, 3)


@pytest.mark.parametrize(
    ("attrs", "x", "w", "expected"),
    [
        ('strides: {1, 1, 2, 1}, pads: {1, 0, 0, 1}, dilations: {1, 1, 1, 1}, groups: 1, data_format: "NCHW"',
         IMAGE, W, convolved(IMAGE, W, (2, 1), ((1, 0), (0, 1)))),
        ('strides: {1, 2, 1, 1}, pads: {1, 0, 0, 1}, data_format: "NHWC"',
         LAST, W.transpose(2, 3, 1, 0).copy(), to_last(convolved(IMAGE, W, (2, 1), ((1, 0), (0, 1))))),
        ('strides: {1, 2, 2, 1}, pads: {-1, -1, -1, -1}',
         LAST, W.transpose(2, 3, 1, 0).copy(), to_last(convolved(IMAGE, W, (2, 2), ((1, 1), (0, 0))))),
        ('strides: {1, 1, 1, 1}, pads: {1, 1, 1, 1}, groups: 2, data_format: "NCHW"',
         IMAGE, GROUPED, convolved(IMAGE, GROUPED, (1, 1), ((1, 1), (1, 1)), 2)),
    ],
)  # fmt: skip
def test_convolutions(attrs, x, w, expected):
    lines = node("Conv2D", "x=%x, filter=%w", attrs) + RETURN
    inputs = {"x": f"f32{list(x.shape)}", "w": f"f32{list(w.shape)}"}
    assert_close(run(lines, inputs, x, w)[0], expected, 64)
    biased = node("Conv2D", "x=%x, filter=%w, bias=%b", attrs) + RETURN
    shape = (6, 1, 1) if "NCHW" in attrs else (6,)
    (got,) = run(biased, {**inputs, "b": "f32[6]"}, x, w, BIAS)
    assert_close(got, expected + BIAS.reshape(shape), 64)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_a_bias_of_f32_on_an_image_of_16_bits(dtype):
    x, w = (a.astype(by_name(dtype).numpy) for a in (IMAGE, W))
    attrs = 'strides: {1, 1, 1, 1}, pads: {0, 0, 0, 0}, data_format: "NCHW"'
    inputs = {"x": f"{dtype}{list(x.shape)}", "w": f"{dtype}{list(w.shape)}", "b": "f32[6]"}
    lines = node("Conv2D", "x=%x, filter=%w, bias=%b", attrs) + RETURN
    (got,) = run(lines, inputs, x, w, BIAS)
    exact = convolved(x.astype(np.float32), w.astype(np.float32), (1, 1), ((0, 0), (0, 0)))
    assert got.dtype == x.dtype
    step = 2.0**-7 if dtype == "bf16" else 2.0**-10
    wanted = exact + BIAS.reshape(6, 1, 1)
    np.testing.assert_allclose(
        got.astype(np.float32), wanted, rtol=step, atol=step * np.abs(exact).max()
    )


def test_a_convolution_of_volumes():
    x, w = filters(1, 2, 4, 5, 3), filters(3, 2, 2, 3, 1)
    view = windows(x, (2, 3, 1), (1, 1, 1), ((0, 0), (1, 1), (0, 0)), 0)
    expected = np.einsum("ncdhwijk,ocijk->nodhw", view, w)
    attrs = 'strides: {1, 1, 1, 1, 1}, pads: {0, 0, 1, 1, 0, 0}, data_format: "NDHWC"'
    lines = node("Conv3D", "x=%x, filter=%w", attrs) + RETURN
    inputs = {"x": "f32[1,4,5,3,2]", "w": "f32[2,3,1,2,3]"}
    (got,) = run(lines, inputs, to_last(x), w.transpose(2, 3, 4, 1, 0).copy())
    assert_close(got, to_last(expected), 64)


@pytest.mark.parametrize("multiplier", [1, 2])
def test_each_channel_by_itself(multiplier):
    w = filters(4 * multiplier, 1, 3, 3)
    expected = convolved(IMAGE, w, (1, 1), ((1, 1), (1, 1)), 4)
    attrs = "strides: {1, 1, 1, 1}, pads: {1, 1, 1, 1}"
    tf = w.reshape(4, multiplier, 3, 3).transpose(2, 3, 0, 1).copy()  # HWCK
    lines = node("DepthwiseConv2D", "x=%x, filter=%w", attrs) + RETURN
    inputs = {"x": f"f32{list(LAST.shape)}", "w": f"f32{list(tf.shape)}"}
    assert_close(run(lines, inputs, LAST, tf)[0], to_last(expected), 64)
    lines = node("DepthwiseConv2D", "x=%x, filter=%w", attrs + ', data_format: "NCHW"') + RETURN
    for form in (w, w.reshape(4, multiplier, 3, 3).swapaxes(0, 1).copy()):
        inputs = {"x": f"f32{list(IMAGE.shape)}", "w": f"f32{list(form.shape)}"}
        assert_close(run(lines, inputs, IMAGE, form)[0], expected, 64)


@pytest.mark.parametrize(
    ("size", "attrs", "shape"),
    [
        ("[0 0 0 0]", 'strides: {1, 1, 2, 2}, pads: {1, 1, 0, 1}, output_padding: {0, 0, 1, 0}, data_format: "NCHW"',
         (14, 11)),
        ("[2 6 14 12]", 'strides: {1, 1, 2, 2}, pads: {-1, -1, -1, -1}, data_format: "NCHW"', (14, 12)),
    ],
)  # fmt: skip
def test_a_transposed_convolution_undoes_the_sizes(size, attrs, shape):
    """The inner product of its result with any image equals that of the convolution with x: they are transposes of
    each other."""
    w = filters(4, 6, 3, 2)
    lines = (
        const("s", size) + node("Conv2DTranspose", "input_size=%s, x=%x, filter=%w", attrs) + RETURN
    )
    (got,) = run(lines, {"x": "f32[2,4,7,6]", "w": "f32[4,6,3,2]"}, IMAGE, w)
    assert got.shape == (2, 6, *shape)
    other = filters(2, 6, *shape)
    pads = ((1, 1), (0, 1)) if "output" in attrs else ((0, 1), (0, 0))
    forward = convolved(other, w, (2, 2), pads)[:, :, :7, :6]
    np.testing.assert_allclose(np.vdot(got, other), np.vdot(IMAGE, forward), rtol=1e-4)


def pooled(x, kernel, steps, pads, is_max=True, count=False):
    view = windows(x, kernel, steps, pads, -np.inf if is_max else 0)
    if is_max:
        return view.max((-2, -1))
    ones = windows(np.ones_like(x), kernel, steps, pads, 1 if count else 0).sum((-2, -1))
    return view.sum((-2, -1)) / ones


NONE = ((0, 0), (0, 0))


@pytest.mark.parametrize(
    ("type_name", "attrs", "expected"),
    [
        ("MaxPool", 'ksize: {1, 3, 2, 1}, strides: {1, 2, 2, 1}, padding: "SAME"',
         to_last(pooled(IMAGE, (3, 2), (2, 2), ((1, 1), (0, 0))))),
        ("AvgPool", 'ksize: {1, 3, 2, 1}, strides: {1, 2, 2, 1}, padding: "SAME"',
         to_last(pooled(IMAGE, (3, 2), (2, 2), ((1, 1), (0, 0)), False))),
        ("MaxPool", 'ksize: {1, 1, 3, 2}, strides: {1, 1, 2, 2}, padding: "VALID", data_format: "NCHW"',
         pooled(IMAGE, (3, 2), (2, 2), NONE)),
        ("MaxPoolV3", "ksize: {1, 1, 3, 3}, strides: {1, 1, 2, 2}, pads: {1, 1, 1, 1}, ceil_mode: true",
         pooled(IMAGE, (3, 3), (2, 2), ((1, 1), (1, 2)))),
        ("AvgPoolV2", "ksize: {1, 1, 2, 2}, strides: {1, 1, 2, 2}, pads: {1, 0, 1, 1}",
         pooled(IMAGE, (2, 2), (2, 2), ((1, 0), (1, 1)), False)),
        ("AvgPoolV2", "ksize: {1, 1, 2, 2}, strides: {1, 1, 2, 2}, pads: {1, 0, 1, 1}, exclusive: false",
         pooled(IMAGE, (2, 2), (2, 2), ((1, 0), (1, 1)), False, True)),
        ("AvgPoolV2", "ksize: {1, 1, 2, 2}, strides: {1, 1, 1, 1}, divisor_override: 8",
         pooled(IMAGE, (2, 2), (1, 1), NONE, False) / 2),
        ("AvgPoolV2", "ksize: {1, 1, 1, 1}, strides: {1, 1, 1, 1}, global_pooling: true",
         IMAGE.mean((2, 3), keepdims=True)),
        ("Pooling", "window: {3, 2}, stride: {2, 2}", pooled(IMAGE, (3, 2), (2, 2), NONE)),
        ("Pooling", "window: {2, 2}, stride: {2, 2}", pooled(IMAGE, (2, 2), (2, 2), ((0, 1), (0, 0)))),
        ("Pooling", "mode: 1, window: {2, 2}, stride: {2, 2}, ceil_mode: 1",
         pooled(IMAGE, (2, 2), (2, 2), NONE, False)),
        ("Pooling", "mode: 1, global_pooling: true", IMAGE.mean((2, 3), keepdims=True)),
        ("AdaptiveAvgPool2d", "output_size: {7, 2}", IMAGE.reshape(2, 4, 7, 2, 3).mean(-1)),
        ("AdaptiveMaxPool2d", "output_size: {1, 6}", IMAGE.max(2, keepdims=True)),
        ("GlobalAveragePool", "", IMAGE.mean((2, 3), keepdims=True)),
    ],
)  # fmt: skip
def test_pools(type_name, attrs, expected):
    last = type_name in ("MaxPool", "AvgPool") and "NCHW" not in attrs
    x = LAST if last else IMAGE
    lines = node(type_name, "x=%x", attrs) + RETURN
    (got,) = run(lines, {"x": f"f32{list(x.shape)}"}, x)
    assert_close(got, expected, 16)


def test_resampling():
    small = np.arange(6, dtype=np.float32).reshape(1, 2, 3, 1)
    size = const("s", "[4 6]")
    lines = size + node("ResizeNearestNeighborV2", "x=%x, size=%s") + RETURN
    (got,) = run(lines, {"x": "f32[1,2,3,1]"}, small)
    np.testing.assert_array_equal(got, small.repeat(2, 1).repeat(2, 2))
    lines = size + node("ResizeBilinearV2", "x=%x, size=%s", "half_pixel_centers: true") + RETURN
    (got,) = run(lines, {"x": "f32[1,2,3,1]"}, small)
    np.testing.assert_allclose(got[0, 0, :, 0], [0, 0.25, 0.75, 1.25, 1.75, 2])
    # Channels are first where all that states a format says so.
    lines = size + node("ResizeNearestNeighborV2", "x=%x, size=%s", name="n")
    lines += node("BiasAdd", "x=%n, bias=%b", 'data_format: "NCHW"') + RETURN
    first = small.transpose(0, 3, 1, 2).copy()
    (got,) = run(lines, {"x": "f32[1,1,2,3]", "b": "f32[1]"}, first, np.zeros(1, np.float32))
    np.testing.assert_array_equal(got, first.repeat(2, 2).repeat(2, 3))
    lines = const("c", "[1.000000 1.000000 2.000000 2.000000]")
    attrs = 'coordinate_transformation_mode: "asymmetric", mode: "nearest", nearest_mode: "floor"'
    lines += node("Resize", "x=%x, scales=%c", attrs) + RETURN
    (got,) = run(lines, {"x": "f32[1,1,2,3]"}, first)
    np.testing.assert_array_equal(got, first.repeat(2, 2).repeat(2, 3))


@pytest.mark.parametrize(
    ("type_name", "inputs", "attrs", "message"),
    [
        ("Conv2D", "x=%x, filter=%w", "strides: {1, 1, 1}, pads: {0, 0, 0, 0}",
         "Conv2D 'r': strides must have 4 entries, got [1, 1, 1]"),
        ("Conv2D", "x=%x, filter=%w", "strides: {1, 1, 1, 1}, pads: {0, 0}",
         "Conv2D 'r': pads must have 4 entries, got [0, 0]"),
        ("Conv2D", "x=%x, filter=%w", "strides: {2, 1, 1, 1}, pads: {0, 0, 0, 0}",
         "Conv2D 'r': strides [2, 1, 1, 1] over batch or channels is not supported; export the model without it"),
        ("Conv2D", "x=%x, filter=%w", 'strides: {1, 1, 1, 1}, pads: {0, 0, 0, 0}, data_format: "CHWN"',
         "Conv2D 'r': data_format 'CHWN' is not supported; export the model without it"),
        ("Conv2D", "x=%x, filter=%w", "pads: {0, 0, 0, 0}",
         "Conv2D 'r': attribute 'strides' must be given, got only ['pads']"),
        ("MaxPool", "x=%x", 'ksize: {1, 2, 2, 1}, strides: {1, 2, 2, 1}, padding: "FULL"',
         "MaxPool 'r': the padding must be SAME, VALID or, with pads, CALCULATED, got 'FULL'"),
        ("DepthwiseConv2D", "x=%x, filter=%x", "strides: {1, 1, 1, 1}, pads: {0, 0, 0, 0}",
         "DepthwiseConv2D 'r': the filter must be for 4 channels, got f32[4,6,2,7]"),
        ("Pooling", "x=%x", "mode: 2", "Pooling 'r': mode must be 0 (maximum) or 1 (average), got 2"),
    ],
)  # fmt: skip
def test_windows_that_are_none(type_name, inputs, attrs, message):
    lines = node(type_name, inputs, attrs) + RETURN
    with pytest.raises(GraphcError) as error:
        run(lines, {"x": "f32[2,7,6,4]", "w": "f32[3,2,4,6]"})
    assert str(error.value) == message


def test_a_network_with_channels_last_runs_natively():
    """Convolution, normalization, pool and classifier as TensorFlow models have them."""
    same = 'strides: {1, 1, 1, 1}, pads: {-1, -1, -1, -1}, data_format: "NHWC"'
    lines = node("Conv2D", "x=%x, filter=%w, bias=%b", same, "conv")
    operands = "x=%conv, scale=%b, offset=%b, mean=%b, variance=%v"
    lines += node("BatchNorm", operands, 'data_format: "NHWC", is_training: false', "bn")
    lines += node("Relu", "x=%bn", name="act")
    window = 'ksize: {1, 2, 2, 1}, strides: {1, 2, 2, 1}, padding: "VALID"'
    lines += node("MaxPool", "x=%act", window, "pool")
    lines += node("ReduceMeanD", "x=%pool", "axes: {1, 2}", "mean")
    lines += node("MatMul", "x1=%mean, x2=%d", "transpose_x2: true") + RETURN
    w, d, variance = filters(6, 4, 3, 3), filters(3, 6), np.abs(BIAS) + 1
    sizes = {
        "x": "f32[2,7,6,4]",
        "w": "f32[3,3,4,6]",
        "b": "f32[6]",
        "v": "f32[6]",
        "d": "f32[3,6]",
    }
    data = "".join(
        f"  %{name} : [#users=1] = Node[type=Data] (attrs = {{index: {i}}})\n"
        for i, name in enumerate(sizes)
    )
    graph = load(f'graph("g"):\n{data}{lines}'.encode(), sizes)
    y = to_last(convolved(IMAGE, w, (1, 1), ((1, 1), (1, 1)))) + BIAS
    y = np.maximum((y - BIAS) / np.sqrt(variance + 1e-4) * BIAS + BIAS, 0)
    top = np.moveaxis(y[:, :6], -1, 1).reshape(2, 6, 3, 2, 3, 2).max((3, 5)).mean((2, 3))
    with compile(graph, threads=1) as model:
        got = model(LAST, w.transpose(2, 3, 1, 0).copy(), BIAS, variance, d)
    assert_close(got, top @ d.T, 512)
