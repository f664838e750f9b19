"""Convolutions, pools and layouts of kernels and of uncompiled graphs, against NumPy."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from graphc import compile
from graphc.base.errors import GraphcError, UnsupportedError
from graphc.frontend import load
from graphc.graph_ir.ir.graph import Array
from support.tolerance import assert_close
from support.tvm_graphs import graph_json, one

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 8, 9, 6)).astype(np.float32)
W = RNG.standard_normal((4, 8, 3, 3)).astype(np.float32)
DEPTH = RNG.standard_normal((8, 1, 3, 3)).astype(np.float32)
BIAS = RNG.standard_normal((4, 1, 1)).astype(np.float32)


def windows(x: Array, k: int, step: int, pad: int, fill: float = 0) -> Array:
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=fill)
    return np.lib.stride_tricks.sliding_window_view(padded, (k, k), (2, 3))[:, :, ::step, ::step]


def convolved(x: Array, w: Array, step: int = 1, pad: int = 1) -> Array:
    view = windows(x, w.shape[2], step, pad)
    if w.shape[1] == 1:
        return np.einsum("nchwij,cij->nchw", view, w[:, 0])
    return np.einsum("nchwij,ocij->nohw", view, w)


def blocked(x: Array, n: int) -> Array:
    """NCHW as NCHW{n}c."""
    b, c, h, w = x.shape
    return np.ascontiguousarray(x.reshape(b, c // n, n, h, w).transpose(0, 1, 3, 4, 2))


def blocked_weights(w: Array, i: int, o: int) -> Array:
    """OIHW as OIHW{i}i{o}o."""
    a, b, h, v = w.shape
    parts = w.reshape(a // o, o, b // i, i, h, v)
    return np.ascontiguousarray(parts.transpose(0, 2, 4, 5, 3, 1))


SAME, TWICE = convolved(X, W), convolved(X, W, 2)


@pytest.mark.parametrize(
    ("func", "operands", "expected", "hints"),
    [
        ("tvmgen_default_fused_nn_conv2d_add_nn_relu", [X, W, BIAS], np.maximum(SAME + BIAS, 0), {}),
        ("fused_nn_conv2d", [X, W], convolved(X, W, pad=0), {}),
        ("fuse_conv2d_broadcast_add_relu_2", [X, W, BIAS], np.maximum(SAME + BIAS, 0), {}),
        ("fused_nn_conv2d_add", [X, W, SAME], 2 * SAME, {}),
        ("fused_nn_conv2d", [X, W], TWICE, {"padding": "1"}),
        ("fused_nn_conv2d", [X, W], TWICE, {"padding": "[1, 1]", "strides": "(2, 2)"}),
        ("fused_nn_conv2d", [X, W[:, :, :1, :1].copy()], convolved(X, W[:, :, :1, :1], 2, 0), {}),
        ("fused_nn_conv2d", [X, DEPTH], convolved(X, DEPTH), {}),
        ("fused_nn_contrib_conv2d_NCHWc_nn_relu", [blocked(X, 4), blocked_weights(W, 4, 2)],
         blocked(np.maximum(SAME, 0), 2), {}),
        ("fused_nn_contrib_depthwise_conv2d_NCHWc", [blocked(X, 4), blocked_weights(DEPTH, 1, 4)],
         blocked(convolved(X, DEPTH), 4), {}),
        ("fused_layout_transform", [X], blocked(X, 4), {}),
        ("fused_layout_transform", [blocked(X, 4)], X, {}),
        ("fused_layout_transform_1", [W], blocked_weights(W, 8, 2), {}),
        ("fused_layout_transform", [X], X.transpose(0, 2, 3, 1), {}),
        ("fused_nn_max_pool2d", [X], windows(X, 2, 2, 0).max((-2, -1)), {"pool_size": "2"}),
        ("fused_nn_max_pool2d", [X], windows(X, 3, 2, 1, -np.inf).max((-2, -1)),
         {"pool_size": "(3, 3)", "strides": "(2, 2)", "padding": "(1, 1)"}),
        ("fused_nn_avg_pool2d", [X], windows(X, 3, 1, 0).mean((-2, -1)), {"pool_size": "3"}),
        ("fused_nn_global_max_pool2d", [X], X.max((2, 3), keepdims=True), {}),
        ("fused_nn_global_avg_pool2d", [blocked(X, 4)], blocked(X.mean((2, 3), keepdims=True), 4), {}),
        ("fused_nn_adaptive_avg_pool2d", [X], X.reshape(2, 8, 3, 3, 2, 3).mean((3, 5)), {}),
        ("fused_nn_upsampling", [X], X.repeat(2, 2).repeat(3, 3), {"method": "nearest_neighbor"}),
    ],
)  # fmt: skip
def test_kernels(func: str, operands: list[Array], expected: Array, hints: dict[str, str]) -> None:
    graph = one(func, [list(x.shape) for x in operands], list(expected.shape), **hints)
    assert_close(graph.evaluate(operands)[0], expected, 256)


@pytest.mark.parametrize(
    ("layouts", "x", "w", "expected"),
    [
        ({"data_layout": "NHWC", "kernel_layout": "HWIO"}, X.transpose(0, 2, 3, 1), W.transpose(2, 3, 1, 0),
         SAME.transpose(0, 2, 3, 1)),
        ({"data_layout": "NHWC", "kernel_layout": "HWOI"}, X.transpose(0, 2, 3, 1), DEPTH.transpose(2, 3, 0, 1),
         convolved(X, DEPTH).transpose(0, 2, 3, 1)),
        ({"data_layout": "NCHW", "kernel_layout": "OIHW", "out_layout": "NHWC"}, X, W, SAME.transpose(0, 2, 3, 1)),
    ],
)  # fmt: skip
def test_layouts_that_the_node_holds(layouts, x, w, expected):
    shapes = {"a": list(x.shape), "b": list(w.shape)}
    value = json.loads(
        graph_json(shapes, [("fused_nn_conv2d", [0, 1], [list(expected.shape)])], [2])
    )
    value["nodes"][2]["attrs"] |= layouts
    graph = load(json.dumps(value).encode())
    operands = [np.ascontiguousarray(x), np.ascontiguousarray(w)]
    assert_close(graph.evaluate(operands)[0], expected, 256)


@pytest.mark.parametrize(
    ("func", "shapes", "result", "key"),
    [
        ("fused_nn_conv2d", [[1, 3, 56, 56], [8, 3, 3, 3]], [1, 8, 28, 28], "padding"),
        ("fused_nn_conv2d_add_nn_relu", [[1, 3, 5, 5], [8, 3, 3, 3], [8, 1, 1]], [1, 8, 2, 2], "nn_conv2d.strides"),
        ("fused_nn_max_pool2d", [[1, 3, 8, 8]], [1, 3, 4, 4], "pool_size"),
        ("fused_nn_conv2d_transpose", [[1, 3, 8, 8], [3, 8, 2, 2]], [1, 8, 16, 16], "strides"),
        ("fused_layout_transform", [[4, 4, 4, 4]], [4, 4, 4, 4], "src_layout"),
        ("fused_nn_pad", [[2]], [4], "pad_width"),
        ("fused_topk", [[2, 5]], [2, 3], "axis"),
    ],
)  # fmt: skip
def test_attributes_that_sizes_do_not_determine(func, shapes, result, key):
    """Stride 2 with window 3: padding before may be 1 (the same on both sides) or 0 (TensorFlow's SAME)."""
    with pytest.raises(UnsupportedError) as error:
        one(func, shapes, result)
    name = key.rpartition(".")[2]
    assert str(error.value) == (
        f"graph json: node 'k0' ({func}): attribute '{name}' is not determined, say --attr 'k0.{key}=...'"
    )


def node(op: str, name: str, inputs: list[list[int]], **attrs: str) -> dict[str, Any]:
    return {"op": op, "name": name, "inputs": inputs, "attrs": attrs}


def test_an_uncompiled_network():
    """NNVM's names and texts of attributes; what the file leaves out has its documented value."""
    nodes = [
        *(node("null", name, []) for name in ("data", "w", "b", "gamma", "beta", "mean", "var")),
        node("conv2d", "conv", [[0, 0], [1, 0], [2, 0]], kernel_size="[3L, 3L]", padding="(1, 1)",
             strides="(2, 2)", channels="4", use_bias="True"),
        node("batch_norm", "bn", [[7, 0], [3, 0], [4, 0], [5, 0], [6, 0, 1]], epsilon="0.001"),
        node("relu", "act", [[8, 0]]),
        node("max_pool2d", "pool", [[9, 0]], pool_size="(2, 2)", strides="(1, 1)"),
        node("split", "parts", [[10, 0]], indices_or_sections="2", axis="1"),
        node("elemwise_add", "sum", [[11, 0], [11, 1]]),
        node("flatten", "flat", [[12, 0]]),
    ]  # fmt: skip
    value = {"nodes": nodes, "arg_nodes": list(range(7)), "heads": [[13, 0], [8, 1]]}
    statistics = [np.abs(RNG.standard_normal(4)).astype(np.float32) for _ in range(4)]
    gamma, beta, mean, variance = (v.reshape(4, 1, 1) for v in statistics)
    names = ("w", "b", "gamma", "beta", "mean", "var")
    constants = dict(zip(names, [W, BIAS.reshape(4), *statistics], strict=True))
    graph = load(json.dumps(value).encode(), {"data": "f32[2,8,9,6]"}, constants)
    y = (TWICE + BIAS - mean) / np.sqrt(variance + 1e-3) * gamma + beta
    pooled = windows(np.maximum(y, 0), 2, 1, 0).max((-2, -1))
    got, same_mean = graph.evaluate([X])
    assert_close(got, (pooled[:, :2] + pooled[:, 2:]).reshape(2, -1), 256)
    np.testing.assert_array_equal(same_mean, statistics[2])
    value["heads"] = [[9, 1]]
    with pytest.raises(UnsupportedError) as error:
        load(json.dumps(value).encode(), {"data": "f32[2,8,9,6]"}, constants)
    assert str(error.value) == (
        "graph json: output 1 of node 'act' is not supported; export the model without it"
    )


@pytest.mark.parametrize(
    ("hints", "message"),
    [
        ({"padding": "[1, 1, 1]"}, "attribute 'padding' must have 1, 2 or 4 entries, got [1, 1, 1]"),
        ({"strides": "(1, 1, 1)"}, "attribute 'strides' must have 2 entries, got [1, 1, 1]"),
        ({"data_layout": "NCHW4x"}, "attribute 'data_layout' must be a layout such as NCHW8c, got 'NCHW4x'"),
        ({"data_layout": "NCHW4c"}, "the tensor must have the axes NCHW4c to become NCHW, got f32[2,8,9,6]"),
    ],
)  # fmt: skip
def test_attributes_that_do_not_fit(hints, message):
    with pytest.raises(GraphcError) as error:
        one("fused_nn_conv2d", [[2, 8, 9, 6], [4, 8, 3, 3]], [2, 4, 9, 6], **hints)
    assert str(error.value) == f"graph json: node 'k0': nn_conv2d 'k0': {message}"


def test_a_residual_network_runs_natively():
    shapes = {
        "data": [1, 3, 10, 10],
        "p0": [8, 3, 3, 3],
        "p1": [8, 1, 1],
        "p2": [8, 8, 3, 3],
        "p3": [4, 8],
        "p4": [4],
    }
    text = graph_json(
        shapes,
        [
            ("tvmgen_default_fused_nn_conv2d_add_nn_relu", [0, 1, 2], [[1, 8, 10, 10]]),
            ("tvmgen_default_fused_layout_transform", [6], [[1, 2, 10, 10, 4]]),
            ("tvmgen_default_fused_layout_transform_1", [7], [[1, 8, 10, 10]]),
            ("tvmgen_default_fused_nn_conv2d_add_nn_relu_1", [8, 3, 6], [[1, 8, 10, 10]]),
            ("tvmgen_default_fused_nn_max_pool2d", [9], [[1, 8, 5, 5]]),
            ("tvmgen_default_fused_nn_global_avg_pool2d", [10], [[1, 8, 1, 1]]),
            ("__nop", [11], [[1, 8]]),
            ("tvmgen_default_fused_nn_dense_add", [12, 4, 5], [[1, 4]]),
        ],
        [13],
    )  # fmt: skip
    graph = load(text.encode(), attrs={"k4.pool_size": "2"})
    arrays = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes.values()]
    data, first, bias, second, dense, shift = arrays
    x = np.maximum(convolved(data, first) + bias, 0)
    x = np.maximum(convolved(x, second) + x, 0)
    pooled = windows(x, 2, 2, 0).max((-2, -1)).mean((2, 3))
    with compile(graph, threads=1) as model:
        assert_close(model(*arrays), pooled @ dense.T + shift, 512)
