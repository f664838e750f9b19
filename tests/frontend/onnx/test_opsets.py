"""Spellings of older opsets, against onnx's own evaluator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto

from graphc.base.errors import UserError
from graphc.frontend import load
from support.onnx_models import Array, Dims, evaluate, expected, model, node
from support.tolerance import assert_close


def check(proto: ModelProto, rng: np.random.Generator, factor: float = 8) -> None:
    feeds = {
        info.name: rng.standard_normal(
            [d.dim_value for d in info.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for info in proto.graph.input
    }
    for got, want in zip(evaluate(proto, feeds), expected(proto, feeds), strict=True):
        assert got.dtype == want.dtype
        assert_close(got, want, factor)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


X: Mapping[str, Dims] = {"x": [2, 3, 4]}
CASES: dict[str, tuple[int, NodeProto, dict[str, Array]]] = {
    "squeeze attribute": (11, node("Squeeze", "x", axes=[0, -1]), {}),
    "unsqueeze attribute": (11, node("Unsqueeze", "x", axes=[0, 3]), {}),
    "unsqueeze input": (13, node("Unsqueeze", "x a"), {"a": ints(-1, 1)}),
    "reduce attribute": (7, node("ReduceMean", "x", axes=[0, 2], keepdims=0), {}),
    "reduce all": (7, node("ReduceSum", "x"), {}),
    "reduce input": (18, node("ReduceL2", "x a", keepdims=0), {"a": ints(1)}),
    "reduce sum input": (13, node("ReduceSum", "x a"), {"a": ints(-1)}),
    "reduce no axes": (18, node("ReduceSum", "x", noop_with_empty_axes=1), {}),
    "log sum exp": (13, node("ReduceLogSumExp", "x", axes=[1], keepdims=0), {}),
    "slice attribute": (9, node("Slice", "x", starts=[1, -3], ends=[9, -1], axes=[1, 2]), {}),
    "slice negative step": (
        13,
        node("Slice", "x s e a t"),
        {"s": ints(5, -1), "e": ints(-9, 0), "a": ints(2, 1), "t": ints(-2, -1)},
    ),
    "slice nothing": (13, node("Slice", "x s e"), {"s": ints(2), "e": ints(1)}),
    "split attribute": (11, node("Split", "x", "y z", axis=2, split=[1, 3]), {}),
    "split equal": (11, node("Split", "x", "y z", axis=-1), {}),
    "split uneven": (18, node("Split", "x", "y z", axis=1, num_outputs=2), {}),
    "pad input": (
        13,
        node("Pad", "x p v"),
        {"p": ints(0, 1, 0, 2, 0, 1), "v": np.array(7, np.float32)},
    ),
    "pad reflect": (13, node("Pad", "x p", mode="reflect"), {"p": ints(0, 2, 1, 1, 0, 3)}),
    "pad wrap": (19, node("Pad", "x p", mode="wrap"), {"p": ints(0, 2, 0, 1, 0, 3)}),
    "reshape zero": (7, node("Reshape", "x s"), {"s": ints(0, -1)}),
    "flatten": (7, node("Flatten", "x", axis=2), {}),
    "clip input": (13, node("Clip", "x - h"), {"h": np.array(0.5, np.float32)}),
    "gather scalar": (13, node("Gather", "x i", axis=1), {"i": np.array(-1)}),
    "gather matrix": (13, node("Gather", "x i", axis=2), {"i": np.array([[0, 3], [-4, 1]])}),
    "dropout": (7, node("Dropout", "x", ratio=0.9), {}),
    "hard sigmoid": (7, node("HardSigmoid", "x"), {}),
    "elu": (7, node("Elu", "x", alpha=2.0), {}),
    "transpose": (7, node("Transpose", "x"), {}),
    "expand both ways": (13, node("Expand", "x s"), {"s": ints(5, 1, 1, 4)}),
    "crop and pad": (18, node("CenterCropPad", "x s", axes=[2, 1]), {"s": ints(3, 5)}),
    "tile": (13, node("Tile", "x r"), {"r": ints(2, 1, 3)}),
    "mean of three": (13, node("Mean", "x x w"), {"w": np.array([[1], [2], [3]], np.float32)}),
    "swap by trilu": (14, node("Trilu", "x k", upper=0), {"k": np.array(-1)}),
    "layer norm statistics": (17, node("LayerNormalization", "x s b", "y m v", axis=1), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_spelling(name: str, rng: np.random.Generator) -> None:
    opset, proto, weights = CASES[name]
    outputs = tuple(proto.output)
    if name == "layer norm statistics":
        weights = {"s": rng.standard_normal((3, 4), np.float32), "b": np.ones((3, 4), np.float32)}
    dims = {"x": [1, 3, 1]} if name == "squeeze attribute" else X
    check(model([proto], dims, weights, opset, outputs), rng)


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1, -2])
@pytest.mark.parametrize("opset", [7, 11, 12, 13])
def test_softmax(op_type: str, axis: int | None, opset: int, rng: np.random.Generator) -> None:
    attrs: dict[str, Any] = {} if axis is None else {"axis": axis}
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    proto = model([node(op_type, "x", **attrs)], X, opset=opset)
    matrix = x.astype(np.float64)
    if (
        opset < 13
    ):  # the evaluator takes one axis in every opset; before 13 it is all from `axis` on
        first = (1 if axis is None else axis) % 3
        matrix = matrix.reshape(int(np.prod(x.shape[:first])), -1)
        softmax = np.exp(matrix) / np.exp(matrix).sum(1, keepdims=True)
    else:
        softmax = np.exp(matrix) / np.exp(matrix).sum(-1 if axis is None else axis, keepdims=True)
    want = np.log(softmax) if op_type == "LogSoftmax" else softmax
    (got,) = evaluate(proto, {"x": x})
    assert_close(got, want.reshape(x.shape).astype(np.float32), 4)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3,), (3,)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
        ((5, 2, 3), (3,)),
        ((3,), (5, 3, 4)),
        ((2, 3), (5, 3, 4)),
    ],
)
def test_matmul_of_vectors(a: Sequence[int], b: Sequence[int], rng: np.random.Generator) -> None:
    check(model([node("MatMul", "a b")], {"a": list(a), "b": list(b)}), rng)


@pytest.mark.parametrize("c", [None, (), (1,), (5,), (4, 1), (1, 5), (4, 5)])
@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
def test_gemm(
    c: tuple[int, ...] | None, trans_a: int, trans_b: int, rng: np.random.Generator
) -> None:
    inputs: dict[str, Dims] = {
        "a": [3, 4] if trans_a else [4, 3],
        "b": [5, 3] if trans_b else [3, 5],
    }
    weights = {} if c is None else {"c": rng.standard_normal(c, np.float32)}
    attrs: dict[str, Any] = {"transA": trans_a, "transB": trans_b, "alpha": 0.5, "beta": -2.0}
    names = "a b" if c is None else "a b c"
    check(model([node("Gemm", names, **attrs)], inputs, weights), rng)
    check(
        model([node("Gemm", names, **attrs)], inputs | ({} if c is None else {"c": list(c)})), rng
    )


def test_clip_by_attributes(rng: np.random.Generator) -> None:
    x = np.linspace(-3, 3, 13, dtype=np.float32)
    bounds: list[tuple[dict[str, Any], float, float]] = [
        ({"min": -1.0}, -1, np.inf),
        ({"max": 2.0}, -np.inf, 2),
        ({}, -np.inf, np.inf),
    ]
    for attrs, low, high in bounds:
        (y,) = evaluate(model([node("Clip", "x", **attrs)], {"x": [13]}, opset=7), {"x": x})
        np.testing.assert_array_equal(y, np.clip(x, low, high))


def test_pad_by_attributes() -> None:
    proto = model([node("Pad", "x", pads=[1, 0, 0, 2], value=3.0)], {"x": [2, 2]}, opset=9)
    (y,) = evaluate(proto, {"x": np.zeros((2, 2), np.float32)})
    np.testing.assert_array_equal(y, np.pad(np.zeros((2, 2)), ((1, 0), (0, 2)), constant_values=3))


def test_negative_pads_crop() -> None:
    """A wrapped border takes elements of the cropped tensor, as in ONNX Runtime."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for mode in ("constant", "wrap"):
        pads = ints(0, -1, -2, 1)
        proto = model([node("Pad", "x p", mode=mode)], {"x": [3, 4]}, {"p": pads}, opset=19)
        (y,) = evaluate(proto, {"x": x})
        added = np.zeros((1, 1)) if mode == "constant" else x[:1, 1:2]
        np.testing.assert_array_equal(y, np.concatenate([x[:1, 1:], added], axis=1))


def test_batch_norm_by_constants_and_by_inputs(rng: np.random.Generator) -> None:
    statistics = {n: rng.uniform(0.5, 2, 3).astype(np.float32) for n in ("s", "b", "m", "v")}
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    bn = node("BatchNormalization", "x s b m v", epsilon=0.1)
    known = model([bn], {"x": [2, 3, 4]}, statistics, opset=9)
    fed = model([bn], {"x": [2, 3, 4], **dict.fromkeys(statistics, [3])}, opset=15)
    s, b, m, v = (w.reshape(3, 1) for w in statistics.values())
    want = (x - m) / np.sqrt(v + np.float32(0.1)) * s + b
    assert_close(evaluate(known, {"x": x})[0], want, 8)
    assert_close(evaluate(fed, {"x": x, **statistics})[0], want, 8)


def test_integer_division_truncates_and_a_float_exponent_counts() -> None:
    s32 = 6
    kinds = {"a": s32, "b": s32}
    a, b = np.array([-7, 7, -6], np.int32), np.array([2, -2, 3], np.int32)
    (quotient,) = evaluate(
        model([node("Div", "a b")], {"a": [3], "b": [3]}, dtypes=kinds), {"a": a, "b": b}
    )
    np.testing.assert_array_equal(quotient, np.array([-3, -3, -2], np.int32))
    power = model([node("Pow", "a e")], {"a": [3]}, {"e": np.array(0.5, np.float32)}, dtypes=kinds)
    (root,) = evaluate(power, {"a": np.array([4, 8, 9], np.int32)})
    np.testing.assert_array_equal(root, np.array([2, 2, 3], np.int32))


def test_a_second_operand_of_opset_6_starts_at_an_axis() -> None:
    x, b = np.arange(12, dtype=np.float32).reshape(1, 3, 2, 2), np.array([1, 2, 3], np.float32)
    for attrs, other in (({"axis": 1}, b.reshape(3, 1, 1)), ({"axis": -1}, b[:2]), ({}, b[:1])):
        add = node("Sub", "x b", broadcast=1, **attrs)
        proto = model([add], {"x": [1, 3, 2, 2]}, {"b": other.reshape(-1)}, opset=6)
        assert np.array_equal(evaluate(proto, {"x": x})[0], x - other)
    past = model(
        [node("Sub", "x b", broadcast=1, axis=3)], {"x": [1, 3, 2, 2], "b": [2, 2]}, opset=6
    )
    with pytest.raises(UserError, match="the second operand must end inside the first, got axis 3"):
        load(past)
