from __future__ import annotations

import itertools

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.graph_ir.ops.resize import Resize
from support.check_op import ALL, check_op, make_op, random_array
from support.compiled import check_native


def integers(shape, dtype=np.float32):
    return np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)


def coordinate(kind, i, size, count, roi):
    """Return the coordinate of element i of `count` among `size` elements, for scales that are the ratio of
    the sizes."""
    scale = count / size
    start, end = roi
    return {
        "half_pixel": (i + 0.5) / scale - 0.5,
        "half_pixel_symmetric": (i + 0.5) / scale - 0.5,
        "pytorch_half_pixel": (i + 0.5) / scale - 0.5 if count > 1 else 0.0,
        "align_corners": i * (size - 1) / (count - 1) if count > 1 else 0.0,
        "asymmetric": i / scale,
        "tf_half_pixel_for_nn": (i + 0.5) / scale,
        "tf_crop_and_resize": start * (size - 1) + i * (end - start) * (size - 1) / (count - 1)
        if count > 1
        else 0.5 * (start + end) * (size - 1),
    }[kind]  # fmt: skip


def cubic(d, a=-0.75):
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def slow_resize(x, count, mode, kind, roi=(0.0, 1.0), nearest="round_prefer_floor", fill=0.0):
    """One axis, one element at a time."""
    y = np.zeros(count)
    for i in range(count):
        at = coordinate(kind, i, len(x), count, roi)
        if kind == "tf_crop_and_resize" and not 0 <= at <= len(x) - 1:
            y[i] = fill
            continue
        low, part = int(np.floor(at)), at - np.floor(at)
        if mode == "nearest":
            up = {"floor": False, "ceil": part > 0, "round_prefer_floor": part > 0.5}
            index = low + up.get(nearest, part >= 0.5)
            y[i] = x[min(max(index, 0), len(x) - 1)]
            continue
        weight = (lambda d: max(1 - d, 0)) if mode == "linear" else cubic
        for j in range(low - 1, low + 3):
            y[i] += weight(abs(j - at)) * x[min(max(j, 0), len(x) - 1)]
    return y


KINDS = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_half_pixel_for_nn", "tf_crop_and_resize",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_reference_is_the_definition(mode, kind):
    roi = (0.25, 1.25)
    for size, count in itertools.product((1, 2, 5, 8), (1, 3, 5, 9)):
        x = integers((size,))
        attrs = {"shape": (count,), "mode": mode, "coordinates": kind, "extrapolation": 7.0}
        inputs = [x, np.array(roi)] if kind == "tf_crop_and_resize" else [x]
        (result,) = make_op("resize", inputs, attrs).reference(inputs)
        expected = slow_resize(x, count, mode, kind, roi, fill=7.0)
        np.testing.assert_allclose(result, expected, 1e-6, 1e-6, err_msg=str(attrs))


@pytest.mark.parametrize("nearest", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
def test_nearest(nearest):
    for size, count in itertools.product((1, 2, 5, 8), (1, 3, 4, 10)):
        x = integers((size,), np.int32)
        attrs = {"shape": (count,), "nearest_mode": nearest}
        (result,) = make_op("resize", [x], attrs).reference([x])
        np.testing.assert_array_equal(
            result, slow_resize(x, count, "nearest", "half_pixel", nearest=nearest)
        )


@pytest.mark.exhaustive
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_native_is_the_reference(mode, antialias):
    x = integers((2, 3, 17, 9))
    for shape in ((2, 3, 34, 27), (2, 3, 5, 4), (2, 3, 17, 20)):
        check_native(
            "resize", [x], {"shape": shape, "mode": mode, "antialias": antialias}, factor=32
        )


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
def test_native_coordinates(kind):
    attrs = {"shape": (2, 7, 5), "mode": "linear", "coordinates": kind, "extrapolation": 7.0}
    inputs = [integers((2, 3, 4))]
    if kind == "tf_crop_and_resize":
        inputs.append(np.array([0, 0.25, -0.5, 1, 1.25, 1]))
    check_native("resize", inputs, attrs, factor=8)
    check_op("resize", inputs, attrs, factor=8)


def test_weights_outside_can_be_left_out():
    x = np.array([1, 2, 3, 4], np.float32)
    attrs = {"shape": (8,), "mode": "cubic", "exclude_outside": True}
    result = check_op("resize", [np.ones(4, np.float32)], attrs, factor=4)
    np.testing.assert_allclose(result, 1, rtol=1e-6)
    inside = check_op("resize", [x], attrs, factor=8)
    at, weights = -0.25, {}
    for j in range(4):
        weights[j] = cubic(abs(j - at))
    total = sum(weights.values())
    np.testing.assert_allclose(
        inside[0], sum(weights[j] * x[j] for j in weights) / total, rtol=1e-6
    )


def test_antialiasing_averages():
    x = integers((12,))
    (result,) = make_op(
        "resize", [x], {"shape": (3,), "mode": "linear", "antialias": True}
    ).reference([x])
    weights = 1 - np.abs(np.arange(12)[None] - (np.arange(3)[:, None] * 4 + 1.5)) / 4
    weights = weights.clip(0)
    expected = (weights * x).sum(1)
    for i, j in ((0, 0), (2, -1)):  # the border stands for what is outside
        expected[i] += (4 - weights[i].sum()) * x[j]
    np.testing.assert_allclose(result, expected / 4, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ALL)
def test_every_dtype_takes_the_nearest(dtype):
    check_op("resize", [random_array(dtype, (2, 3))], {"shape": (2, 5)})


@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16"])
def test_float_dtypes(dtype):
    check_op("resize", [random_array(dtype, (2, 3))], {"shape": (3, 5), "mode": "cubic"}, factor=8)


def test_a_scale_that_gives_no_whole_size():
    x = np.array([1, 2, 3, 4], np.float32)
    attrs = {"shape": (2,), "scales": (0.6,), "mode": "linear"}
    np.testing.assert_allclose(check_op("resize", [x], attrs), [1 + 1 / 3, 3], rtol=1e-6)


def test_the_same_size_is_the_same_tensor():
    x = integers((2, 3))
    np.testing.assert_array_equal(
        check_native("resize", [x], {"shape": (2, 3), "mode": "cubic"}), x
    )


@pytest.mark.parametrize(
    ("x", "attrs", "message"),
    [
        (integers((2,)), {"shape": (0,)}, "the input and the result must have elements, got f32[2] and (0,)"),
        (integers((2,)), {}, "attribute 'shape' must be given, got no attributes"),
        (integers((2,)), {"shape": (2, 2)}, "shape must have one entry for each of the 1 axes, got [2, 2]"),
        (integers((2,)), {"shape": (3,), "mode": "area"},
         "mode must be one of nearest, linear, cubic, got 'area'"),
        (integers((2,), np.int32), {"shape": (3,), "mode": "linear"},
         "input dtype of linear and cubic must be a float, got s32; insert a cast"),
        (integers((2,)), {"shape": (3,), "scales": (-1.0,)}, "scales must be positive, got [-1.0]"),
        (integers((2,)), {"shape": (3,), "coordinates": "tf_crop_and_resize"},
         "the region of tf_crop_and_resize must be f64[2], got none"),
    ],
)  # fmt: skip
def test_rejects(x, attrs, message):
    with pytest.raises(UserError) as error:
        make_op("resize", [x], attrs)
    assert str(error.value) == f"resize 'x': {message}"


def test_nearest_rounds_coordinates_to_f32():
    """Indices by 1.1 are those that ONNX Runtime divides to, and those that PyTorch multiplies to."""
    x, scale = np.arange(640, dtype=np.int32), float(np.float32(1.1))
    i = np.arange(704).astype(np.float32)
    for by_step, wanted in ((False, i / np.float32(1.1)), (True, i * np.float32(1 / scale))):
        attrs = {"shape": (704,), "scales": (scale,), "by_step": by_step}
        op = make_op("resize", [x], {**attrs, "nearest_mode": "floor", "coordinates": "asymmetric"})
        np.testing.assert_array_equal(op.reference([x])[0], np.floor(wanted).clip(0, 639))
        assert isinstance(op, Resize) and not op.is_same_by_step
