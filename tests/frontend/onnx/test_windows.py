"""Convolution and pooling beyond the node tests of the onnx package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.frontend import load
from support.onnx_models import evaluate, expected, model, node


def integers(*shape: int) -> Any:
    return np.random.default_rng(0).integers(-3, 4, shape).astype(np.float32)


@pytest.mark.parametrize(
    ("auto_pad", "strides"),
    [
        *((pad, [1, 1]) for pad in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")),
        # SAME_LOWER: onnx's evaluator gives fewer results than its specification; tested below
        *((pad, [2, 3]) for pad in ("NOTSET", "VALID", "SAME_UPPER")),
    ],
)
@pytest.mark.parametrize("kernel", [(1, 2), (3, 4)])
def test_auto_pad(auto_pad: str, strides: list[int], kernel: tuple[int, int]) -> None:
    x, w = integers(1, 2, 7, 8), integers(3, 2, *kernel)
    conv = model(
        [node("Conv", "x w", auto_pad=auto_pad, strides=strides)], {"x": [1, 2, 7, 8]}, {"w": w}
    )
    pool = model(
        [node("MaxPool", "x", auto_pad=auto_pad, strides=strides, kernel_shape=kernel)],
        {"x": [1, 2, 7, 8]},
    )
    for proto in (conv, pool):
        (result,), (wanted,) = evaluate(proto, {"x": x}), expected(proto, {"x": x})
        if auto_pad.startswith("SAME"):
            assert result.shape[2:] == (-(-7 // strides[0]), -(-8 // strides[1]))
        np.testing.assert_array_equal(result, wanted)


def test_same_lower_puts_the_odd_element_first() -> None:
    x, w = integers(1, 2, 7, 8), integers(3, 2, 4, 5)
    results = [
        evaluate(
            model([node("Conv", "x w", strides=[2, 3], **pads)], {"x": [1, 2, 7, 8]}, {"w": w}),
            {"x": x},
        )[0]
        for pads in ({"auto_pad": "SAME_LOWER"}, {"pads": [2, 2, 1, 1]})
    ]
    assert results[0].shape == (1, 3, 4, 3)
    np.testing.assert_array_equal(*results)


def test_bias_and_groups() -> None:
    x, w, b = integers(2, 4, 5), integers(6, 2, 3), integers(6)
    proto = model([node("Conv", "x w b", group=2, pads=[1, 0])], {"x": [2, 4, 5]}, {"w": w, "b": b})
    (result,), (wanted,) = evaluate(proto, {"x": x}), expected(proto, {"x": x})
    np.testing.assert_array_equal(result, wanted)


def test_a_padded_output_shape_of_a_transposed_convolution() -> None:
    x, w = integers(1, 1, 3), integers(1, 1, 2)
    proto = model(
        [node("ConvTranspose", "x w", strides=[3], output_shape=[9])], {"x": [1, 1, 3]}, {"w": w}
    )
    (result,) = evaluate(proto, {"x": x})
    wanted = np.zeros(9)
    for i in range(3):
        wanted[3 * i : 3 * i + 2] += x[0, 0, i] * w[0, 0]
    np.testing.assert_array_equal(result[0, 0], wanted)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_global_norms(p: int) -> None:
    x = integers(2, 3, 4, 5)
    (result,) = evaluate(model([node("GlobalLpPool", "x", p=p)], {"x": list(x.shape)}), {"x": x})
    np.testing.assert_allclose(
        result, (np.abs(x) ** p).sum((2, 3), keepdims=True) ** (1 / p), rtol=1e-6
    )


BAD: list[tuple[Callable[[], Any], str]] = [
    (lambda: node("Conv", "x w", kernel_shape=[2]), "Conv 'y': kernel_shape must be that of W, got [2] and f32[3,2,3]"),
    (lambda: node("Conv", "x w b"), "Conv 'y': the bias must have shape [3], got f32[2]"),
    (lambda: node("Conv", "x w", pads=[1]), "Conv 'y': pads must have 2 entries, got [1]"),
    (lambda: node("Conv", "x w", auto_pad="SAME"),
     "Conv 'y': auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, got 'SAME'"),
    (lambda: node("Conv", "x w", auto_pad="SAME_UPPER", strides=[0]),
     "Conv 'y': strides and dilations must be 1 or more, got [0] and [1]"),
    (lambda: node("Conv", "b w"), "Conv 'y': X and W must have a common rank of 3 or more, got f32[2] and f32[3,2,3]"),
    (lambda: node("Conv", "x w", dilations=[4]),
     "convolution 'y': the window must fit into the padded input on axis 0 of 1, got 9 elements in 0 + 5 + 0"),
    (lambda: node("MaxPool", "x", kernel_shape=[2, 2]),
     "MaxPool 'y': kernel_shape must have one entry per spatial axis, got (2, 2) for f32[1,2,5]"),
    (lambda: node("GlobalMaxPool", "b"), "GlobalMaxPool 'y': the input must have spatial axes, got f32[2]"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), BAD)
def test_rejects(make: Callable[[], Any], message: str) -> None:
    weights = {"w": integers(3, 2, 3)}
    with pytest.raises(UserError) as error:
        load(model([make()], {"x": [1, 2, 5], "b": [2]}, weights))
    assert str(error.value) == message


def test_max_pool_gives_its_indices() -> None:
    pool = node("MaxPool", "x", "y i", kernel_shape=[2])
    graph = load(model([pool], {"x": [1, 2, 5]}, outputs=["y", "i"]))
    x = np.array([[[1, 5, 2, 4, 4], [9, 8, 7, 6, 7]]], np.float32)
    y, indices = graph.evaluate([x])
    np.testing.assert_array_equal(indices, [[[1, 1, 3, 3], [5, 6, 7, 9]]])
    np.testing.assert_array_equal(y, x.ravel()[indices])
