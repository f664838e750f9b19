"""Resize and Upsample beyond the node tests of the onnx package."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import graphc
from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend import load
from support.onnx_models import evaluate, model, node

X = np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)
DIMS = {"x": [1, 1, 2, 3]}
DOUBLE = np.array([1, 1, 2, 2], np.float32)


@pytest.mark.parametrize(
    ("op_type", "opset"), [("Upsample", 7), ("Upsample", 9), ("Resize", 10), ("Resize", 13)]
)
def test_doubling(op_type: str, opset: int) -> None:
    if opset == 7:
        proto = model([node("Upsample", "x", scales=[1.0, 1.0, 2.0, 2.0])], DIMS, opset=7)
    else:
        inputs = "x - s" if opset == 13 else "x s"
        proto = model([node(op_type, inputs)], DIMS, {"s": DOUBLE}, opset=opset)
    (result,) = evaluate(proto, {"x": X})
    np.testing.assert_array_equal(result, X.repeat(2, 2).repeat(2, 3))


def test_old_linear_starts_at_the_first_element() -> None:
    proto = model([node("Upsample", "x s", mode="linear")], DIMS, {"s": DOUBLE}, opset=9)
    (result,) = evaluate(proto, {"x": X})
    np.testing.assert_array_equal(result[0, 0, 0], [0, 0.5, 1, 1.5, 2, 2])


def test_integers_are_interpolated_as_floats() -> None:
    proto = model(
        [node("Resize", "x - s", mode="linear")], DIMS, {"s": DOUBLE}, dtypes={"x": 6, "y": 6}
    )
    (result,) = evaluate(proto, {"x": X.astype(np.int32) * 4})
    assert result.dtype == np.int32 and result[0, 0, 0].tolist() == [0, 1, 3, 5, 7, 8]


@pytest.mark.parametrize(
    ("weights", "attrs", "message"),
    [
        ({}, {}, "scales or sizes must be given, got none"),
        ({"s": DOUBLE, "z": np.array([1, 1, 4, 6])}, {}, "scales or sizes must be given, got both"),
        ({"s": DOUBLE[:3]}, {}, "scales must have 4 entries, got 3"),
        ({"s": -DOUBLE}, {}, "scales must be positive, got [-1.0, -1.0, -2.0, -2.0]"),
        ({"s": DOUBLE}, {"axes": [0, 1, 2, 2]}, "axes must be distinct, got [0, 1, 2, 2]"),
        ({"z": np.array([1, 1, 4, 6])}, {"keep_aspect_ratio_policy": "x"},
         "keep_aspect_ratio_policy must be stretch, not_larger or not_smaller, got 'x'"),
        ({"s": DOUBLE}, {"coordinate_transformation_mode": "tf_crop_and_resize"},
         "roi must have 8 entries, got 0"),
    ],
)  # fmt: skip
def test_rejects(weights: dict[str, Any], attrs: dict[str, Any], message: str) -> None:
    inputs = f"x - {'s' if 's' in weights else '-'} {'z' if 'z' in weights else '-'}"
    with pytest.raises(UserError) as error:
        load(model([node("Resize", inputs, **attrs)], DIMS, weights, opset=18))
    assert str(error.value) == f"Resize 'y': {message}"


def test_old_nearest_both_ways_is_refused() -> None:
    proto = model(
        [node("Resize", "x s")], DIMS, {"s": np.array([1, 1, 0.5, 2], np.float32)}, opset=10
    )
    with pytest.raises(UnsupportedError, match="shrinks some axes and stretches others"):
        load(proto)


@pytest.mark.parametrize(("declared", "expected"), [("", 57), ("float[1,1,56]", 56)])
def test_sizes_by_scales_are_those_that_the_file_declares(declared, expected):
    """0.57 as f32 times 100 is 56.9999993, which f32 rounds to 57; PyTorch's exporters declare 56."""
    text = f"""<ir_version: 8, opset_import: ["": 18]> g (float[1,1,100] x) => ({declared} y) {{
        s = Constant<value_floats=[1.0,1.0,0.57]>()
        y = Resize<mode="linear">(x, , s) }}"""
    x = np.arange(100, dtype=np.float32).reshape(1, 1, 100)
    y = graphc.compile(onnx.parser.parse_model(text))(x)
    assert y.shape == (1, 1, expected)
    np.testing.assert_allclose(y[0, 0, 1:-1], (np.arange(1, expected - 1) + 0.5) / 0.57 - 0.5, 1e-5)
