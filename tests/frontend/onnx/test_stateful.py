"""Layers of opset 27 and later, natively and where they are wrong; their values are those of onnx's own cases."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from graphc.base.errors import GraphcError
from graphc.driver.compiler import compile
from graphc.frontend import load
from support.onnx_models import Array, expected, model, node

PREVIEW = "ai.onnx.preview"


def of(*dims: int) -> Array:
    return np.random.default_rng(sum(dims)).standard_normal(dims).astype(np.float32) / 2


def made(
    op_type: str, inputs: str, given: list[Array], outputs: str = "y", **attrs: Any
) -> tuple[ModelProto, dict[str, Array]]:
    feeds = dict(zip(dict.fromkeys(inputs.split()), given, strict=True))
    shapes = {name: x.shape for name, x in feeds.items()}
    domains = [PREVIEW] if op_type.startswith("Flex") else []
    one = node(op_type, inputs, outputs, domain=(*domains, "")[0], **attrs)
    names = outputs.split()
    return model([one], shapes, opset=27, outputs=names, domains=domains), feeds


def modifier(op_type: str, factor: float) -> Any:
    """A graph that combines its input with a number."""
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["b", "h", "q", "k"]) for n in "st"]
    number = helper.make_tensor("n", TensorProto.FLOAT, [], [factor])
    return helper.make_graph([node(op_type, "s n", "t")], "m", info[:1], info[1:], [number])


LINEAR = {"q_num_heads": 4, "kv_num_heads": 2}
CASES = {
    "rows that are corrected and fade": made(
        "LinearAttention",
        "q k v s d b",
        [of(2, 3, 16), of(2, 3, 8), of(2, 3, 6), of(2, 2, 4, 3), -abs(of(2, 3, 2)), of(2, 3, 1)],
        "y last",
        **LINEAR,
    ),
    "a state without a past": made(
        "LinearAttention",
        "q k v",
        [of(1, 2, 8), of(1, 2, 4), of(1, 2, 4)],
        "y last",
        update_rule="linear",
        scale=0.5,
        **LINEAR,
    ),
    "fewer tokens than the window": made(
        "CausalConvWithState",
        "x w b s",
        [of(2, 3, 2), of(3, 1, 4), of(3), of(2, 3, 3)],
        "y last",
        activation="silu",
    ),
    "scores and weights that are changed": made(
        "FlexAttention",
        "q k v",
        [of(1, 4, 3, 8), of(1, 2, 5, 8), of(1, 2, 5, 6)],
        score_mod=modifier("Add", 0.5),
        prob_mod=modifier("Mul", 2.0),
        scale=0.25,
    ),
    "moved points of groups": made(
        "DeformConv",
        "x w o b m",
        [of(2, 4, 5, 6), of(6, 2, 3, 2), 3 * of(2, 24, 3, 3), of(6), of(2, 12, 3, 3)],
        group=2,
        offset_group=2,
        strides=[2, 2],
        dilations=[1, 2],
        pads=[1, 0, 1, 1],
    ),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", CASES)
def test_native_code(case: str) -> None:
    proto, feeds = CASES[case]
    results = compile(proto, threads=1).run(None, feeds)
    for result, wanted in zip(results, expected(proto, feeds), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=2e-4, atol=1e-5)


KERNELS: list[tuple[str, str, list[Array], dict[str, Any]]] = [
    (
        "CausalConvWithState",
        "x w b s",
        [of(2, 3, 2), of(3, 1, 4), of(3), of(2, 3, 6)],
        {"dilation": 2},
    ),
    (
        "CausalConvWithState",
        "x w b s",
        [of(2, 5, 3, 2), of(6, 1, 4), of(6), of(2, 3, 3, 2)],
        {"channels_last": 1, "activation": "swish", "ndim": 1, "state_window": 0},
    ),
    (
        "LinearAttention",
        "q k v s d b",
        [of(2, 3, 16), of(2, 3, 8), of(2, 3, 6), of(2, 2, 4, 3), -abs(of(2, 3, 2)), of(2, 3, 1)],
        LINEAR,
    ),
    (  # each head of queries and keys for two of values
        "LinearAttention",
        "q k v s d b",
        [of(2, 3, 8), of(2, 3, 8), of(2, 3, 12), of(2, 4, 4, 3), -abs(of(2, 3, 4)), of(2, 3, 4)],
        {"q_num_heads": 2, "kv_num_heads": 4},
    ),
]


@pytest.mark.parametrize("case", range(len(KERNELS)))
def test_layers_of_onnxruntime(case: int) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    op_type, inputs, given, attrs = KERNELS[case]
    feeds = dict(zip(inputs.split(), given, strict=True))
    one = node(op_type, inputs, "y last", domain="com.microsoft", **attrs)
    shapes = {name: x.shape for name, x in feeds.items()}
    proto = model([one], shapes, opset=21, outputs=["y", "last"], domains=["com.microsoft"])
    wanted = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)
    for result, want in zip(load(proto).evaluate(given), wanted, strict=True):
        np.testing.assert_allclose(result, want, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (
            model(
                [node("CausalConvWithState", "x w", domain="com.microsoft", state_window=2)],
                {"x": (1, 3, 2), "w": (3, 1, 2)},
                domains=["com.microsoft"],
            ),
            "state_window=2 is not supported",
        ),
        (
            made("LinearAttention", "q q q", [of(1, 2, 8)], q_num_heads=2, kv_num_heads=2)[0],
            "decay must be given for update_rule",
        ),
        (
            made("LinearAttention", "q q q d", [of(1, 2, 8), of(1, 2, 3)], **LINEAR, update_rule="gated")[0],
            "query, key and value must be",
        ),
        (made("CausalConvWithState", "x w", [of(1, 3, 2), of(2, 1, 4)])[0], "weight [C, 1, k]"),
        (made("FlexAttention", "q k k", [of(1, 3, 2, 4), of(1, 2, 2, 4)])[0], "K's heads must divide Q's"),
        (
            made("FlexAttention", "q q q", [of(1, 1, 2, 4)], score_mod=modifier("Less", 0))[0],
            "score_mod must return f32[1,1,2,2], got bool[1,1,2,2]",
        ),
        (
            made("DeformConv", "x w o", [of(1, 2, 4, 4), of(2, 2, 2, 2), of(1, 8, 4, 3)])[0],
            "offset must have shape [1, 8, 3, 3], got f32[1,8,4,3]",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit(proto: ModelProto, message: str) -> None:
    with pytest.raises(GraphcError, match=re.escape(message)):
        load(proto)
