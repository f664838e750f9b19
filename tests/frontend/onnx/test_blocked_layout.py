"""com.microsoft.nchwc: images and weights with channels in blocks, against the same network of plain ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import NodeProto

from graphc.base.errors import UnsupportedError
from graphc.frontend import load
from support.onnx_models import Array, evaluate, model, node

DOMAIN = "com.microsoft.nchwc"
RNG = np.random.default_rng(0)


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def filled(x: Array, axis: int, block: int) -> Array:
    """X with zeros up to whole blocks of an axis."""
    after = [(0, -n % block if i == axis else 0) for i, n in enumerate(x.shape)]
    return np.pad(x, after)


def blocked(w: Array, block: int, inputs: bool) -> Array:
    """Weights as ONNX Runtime lays them: O/b (I/b) height width (bI) bO, in the shape of the plain ones."""
    w = filled(w, 0, block)
    w = filled(w, 1, block) if inputs else w
    outputs, channels, *kernel = w.shape
    if inputs:
        cut = w.reshape(outputs // block, block, channels // block, block, *kernel)
        return cut.transpose(0, 2, 4, 5, 3, 1).reshape(w.shape)
    cut = w.reshape(outputs // block, block, channels, *kernel)
    return cut.transpose(0, 2, 3, 4, 1).reshape(w.shape)


def nchwc(op_type: str, inputs: str, outputs: str, **attrs: Any) -> NodeProto:
    return node(op_type, inputs, outputs, domain=DOMAIN, **attrs)


def run(nodes: list[NodeProto], x: Array, weights: dict[str, Array]) -> Array:
    proto = model(nodes, {"x": list(x.shape)}, weights, domains=[DOMAIN])
    return evaluate(proto, {"x": x})[0]


@pytest.mark.parametrize("block", [8, 16])
def test_a_network(block: int) -> None:
    """An image of three channels, a pool that is plain, depthwise and dense windows, a sum and its activation."""
    x, side = floats(2, 3, 6, 7), {"pads": [1] * 4}
    w, b, v, z = floats(40, 3, 3, 3), floats(40), floats(40, 1, 3, 3), floats(20, 40, 1, 1)
    plain = [
        node("Conv", "x w b", "t", **side), node("Relu", "t", "u"),
        node("MaxPool", "u", "p", kernel_shape=[2, 2]), node("Conv", "p v", "q", group=40, **side),
        node("Add", "q p", "r"), node("Clip", "r low high", "s"), node("Conv", "s z", "c"),
        node("Resize", "c - scales", "y", mode="nearest", coordinate_transformation_mode="asymmetric",
             nearest_mode="floor"),
    ]  # fmt: skip
    numbers: dict[str, Array] = {
        "low": np.zeros((), np.float32),
        "high": np.full((), 6, np.float32),
        "scales": np.array([1, 1, 2, 3], np.float32),
    }
    wanted = run(plain, x, {"w": w, "b": b, "v": v, "z": z, **numbers})
    groups = 40 + -40 % block
    reordered = [
        nchwc("Conv", "x w b", "t", activation="Relu", **side),
        nchwc("MaxPool", "t", "p", kernel_shape=[2, 2]),
        nchwc("Conv", "p v - p", "s", group=groups, activation="Clip", activation_params=[0.0, 6.0], **side),
        nchwc("Conv", "s z", "c"), nchwc("Upsample", "c", "o", scales=[1, 1, 2, 3]),
        nchwc("ReorderOutput", "o", "y", channels=20),
    ]  # fmt: skip
    weights = {
        "w": blocked(w, block, False), "b": filled(b, 0, block), "v": blocked(v, block, False),
        "z": blocked(z, block, True),
    }  # fmt: skip
    np.testing.assert_allclose(run(reordered, x, weights), wanted, rtol=1e-5, atol=1e-5)


def test_channels_last_and_zeros_behind_those_of_an_image() -> None:
    x, w = floats(1, 5, 4, 24), floats(20, 24, 2, 2)
    plain = [
        node("Transpose", "x", "t", perm=[0, 3, 1, 2]), node("Conv", "t w", "c"),
        node("GlobalAveragePool", "c", "g"), node("Transpose", "g", "y", perm=[0, 2, 3, 1]),
    ]  # fmt: skip
    reordered = [
        nchwc("ReorderInput", "x", "t", channels_last=1), nchwc("Conv", "t w", "c"),
        nchwc("GlobalAveragePool", "c", "g"),
        nchwc("ReorderOutput", "g", "y", channels=20, channels_last=1),
    ]  # fmt: skip
    found = run(reordered, x, {"w": blocked(w, 16, True)})
    np.testing.assert_allclose(found, run(plain, x, {"w": w}), rtol=1e-5, atol=1e-5)


def test_dynamic_blocks_are_refused() -> None:
    nodes = [nchwc("Conv", "x w", "y")]
    proto = model(nodes, {"x": [1, 32, 4, 4]}, {"w": floats(32, 32, 1, 1)}, domains=[DOMAIN])
    with pytest.raises(UnsupportedError, match="blocks of 8 or of 16, .* ORT_ENABLE_EXTENDED"):
        load(proto)


def test_zeros_behind_the_weights_tell_the_length_of_a_block() -> None:
    x, w = floats(1, 32, 4, 4), floats(24, 32, 2, 2)
    found = run([nchwc("Conv", "x w", "y")], x, {"w": blocked(w, 16, True)})
    wanted = run([node("Conv", "x w")], x, {"w": w})
    np.testing.assert_allclose(found[:, :24], wanted, rtol=1e-5, atol=1e-5)
