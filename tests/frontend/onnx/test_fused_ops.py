"""com.microsoft's matmuls and convolutions with an activation, against the standard ops they stand for."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto

from graphc.base.errors import UnsupportedError
from graphc.frontend import load
from support.onnx_models import Array, evaluate, model, node

RNG = np.random.default_rng(4)
X, W = (
    RNG.standard_normal((1, 2, 5, 5)).astype(np.float32),
    RNG.standard_normal((3, 2, 3, 3)).astype(np.float32),
)
B, Z = (
    RNG.standard_normal(3).astype(np.float32),
    RNG.standard_normal((1, 3, 3, 3)).astype(np.float32),
)
MS, QONNX_LAST = "com.microsoft", "qonnx.custom_op.channels_last"


def run(nodes: list[NodeProto], **arrays: Array) -> Array:
    proto = model(
        nodes, {name: list(x.shape) for name, x in arrays.items()}, domains=[MS, QONNX_LAST]
    )
    return evaluate(proto, arrays)[0]


@pytest.mark.parametrize(
    ("attrs", "then"),
    [
        ({}, node("Identity", "s")),
        ({"activation": "Relu"}, node("Relu", "s")),
        ({"activation": "HardSwish"}, node("HardSwish", "s")),
        (
            {"activation": "LeakyRelu", "activation_params": [0.25]},
            node("LeakyRelu", "s", alpha=0.25),
        ),
        (
            {"activation": "HardSigmoid", "activation_params": [0.25, 0.5]},
            node("HardSigmoid", "s", alpha=0.25, beta=0.5),
        ),
    ],
)
def test_convolutions(attrs: dict[str, Any], then: NodeProto) -> None:
    plain = [node("Conv", "x w b", "c"), node("Add", "c z", "s"), then]
    fused = [node("FusedConv", "x w b z", domain=MS, **attrs)]
    arrays = {"x": X, "w": W, "b": B, "z": Z}
    assert np.array_equal(run(plain, **arrays), run(fused, **arrays))


def test_matmuls() -> None:
    a, b = (
        RNG.standard_normal((4, 3)).astype(np.float32),
        RNG.standard_normal((3, 4)).astype(np.float32),
    )
    kept = {"alpha": 0.5, "transA": 1, "transB": 1}
    plain = [node("Gemm", "a b c", "g", **kept), node("LeakyRelu", "g", alpha=0.125)]
    attrs = kept | {"activation": "LeakyRelu", "activation_alpha": 0.125}
    fused = [node("FusedGemm", "a b c", domain=MS, **attrs)]
    assert np.array_equal(run(plain, a=a, b=b, c=B), run(fused, a=a, b=b, c=B))


def test_channels_last() -> None:
    plain = run([node("Conv", "x w b")], x=X, w=W, b=B)
    last = run([node("NhwcConv", "x w b", domain=MS)], x=np.moveaxis(X, 1, -1).copy(), w=W, b=B)
    assert np.array_equal(np.moveaxis(last, -1, 1), plain)


@pytest.mark.parametrize("name", ["Conv", "MaxPool", "BatchNormalization"])
def test_channels_last_of_qonnx(name: str) -> None:
    """Weights of convolutions have their channels last too."""
    count = X.shape[1]
    more: dict[str, Any] = {
        "Conv": {"w": W, "b": B},
        "MaxPool": {},
        "BatchNormalization": {
            key: np.abs(RNG.standard_normal(count)).astype(np.float32) for key in "sbmv"
        },
    }[name]
    kernel = {"kernel_shape": [3, 2], "pads": [1, 0, 0, 1], "strides": [2, 1]}
    options: dict[str, dict[str, Any]] = {
        "Conv": {"kernel_shape": list(W.shape[2:]), "pads": [1, 0, 0, 1], "strides": [2, 1]},
        "MaxPool": kernel,
        "BatchNormalization": {"epsilon": 0.25, "momentum": 0.5},
    }
    attrs = options[name]
    names = " ".join(("x", *more))
    plain = run([node(name, names, **attrs)], x=X, **more)
    moved = {key: np.moveaxis(v, 1, -1).copy() if key == "w" else v for key, v in more.items()}
    x = np.moveaxis(X, 1, -1).copy()
    last = run([node(name, names, domain=QONNX_LAST, **attrs)], x=x, **moved)
    assert np.array_equal(np.moveaxis(last, -1, 1), plain)


def test_an_activation_that_is_not_known() -> None:
    proto = model(
        [node("FusedGemm", "a a", domain=MS, activation="Cosine")], {"a": [2, 2]}, domains=[MS]
    )
    with pytest.raises(UnsupportedError, match=re.escape("activation Cosine is not supported")):
        load(proto)


def test_batch_norm_in_training_mode() -> None:
    arrays = {"x": X, **{name: RNG.random(2).astype(np.float32) + 0.5 for name in "sbmv"}}
    made = node("BatchNormalization", "x s b m v", "y n w", training_mode=1, momentum=0.75)
    proto = model([made], {k: list(a.shape) for k, a in arrays.items()}, outputs=["y", "n", "w"])
    y, mean, variance = evaluate(proto, arrays)
    own = X.mean((0, 2, 3)), X.var((0, 2, 3))
    shaped = [a.reshape(2, 1, 1) for a in (*own, arrays["s"], arrays["b"])]
    wanted = (X - shaped[0]) / np.sqrt(shaped[1] + 1e-5) * shaped[2] + shaped[3]
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mean, 0.75 * arrays["m"] + 0.25 * own[0], rtol=1e-5)
    np.testing.assert_allclose(variance, 0.75 * arrays["v"] + 0.25 * own[1], rtol=1e-5)
