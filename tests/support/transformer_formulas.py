"""Formulas of transformer layers in NumPy, and models of one such node."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from support.onnx_models import Array, node

Feeds = Mapping[str, Array]


class Case:
    """One node, its inputs in order ("-": left out), and what it computes in f64."""

    def __init__(
        self, op: str, feeds: Feeds, wanted: Callable[..., Any], outputs: str = "y", **attrs: Any
    ) -> None:
        self.feeds = {name: x for name, x in feeds.items() if x is not None}
        names = " ".join(name if x is not None else "-" for name, x in feeds.items())
        domain, _, kind = op.rpartition(".")
        self.node = node(kind, names, outputs, domain=domain, **attrs)
        self.wanted = wanted
        self.outputs = [name for name in outputs.split() if name != "-"]

    def model(self) -> onnx.ModelProto:
        kinds = {name: helper.np_dtype_to_tensor_dtype(x.dtype) for name, x in self.feeds.items()}
        graph = helper.make_graph(
            [self.node],
            "case",
            [
                helper.make_tensor_value_info(n, kinds[n], list(x.shape))
                for n, x in self.feeds.items()
            ],
            [
                helper.make_tensor_value_info(
                    n, onnx.TensorProto.INT32 if n == "count" else 1, self.declared(n)
                )
                for n in self.outputs
            ],
        )
        opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def declared(self, name: str) -> list[int] | None:
        return list(self.feeds["past"].shape) if name == "kept" else None

    def expected(self) -> list[Array]:
        wide = {
            n: x.astype(np.float64) if x.dtype == np.float32 else x for n, x in self.feeds.items()
        }
        results = self.wanted(wide)
        return list(results) if isinstance(results, tuple) else [results]


def normal(x: Array, scale: Array, bias: Any = 0.0, epsilon: float = 1e-12) -> Array:
    spread = ((x - x.mean(-1, keepdims=True)) ** 2).mean(-1, keepdims=True)
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(spread + epsilon) * scale + bias


def rms(x: Array, scale: Array, epsilon: float = 1e-12) -> Array:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * scale


def erf_gelu(x: Array) -> Array:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def tanh_gelu(x: Array) -> Array:
    return x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def rotate(x: Array, cos: Array, sin: Array, interleaved: bool = False) -> Array:
    """X [B, L, heads, size]; the first elements of each head are rotated."""
    count = 2 * cos.shape[-1]
    cos, sin = cos[:, :, None], sin[:, :, None]
    part, y = x[..., :count], x.copy()
    pairs = (slice(0, None, 2), slice(1, None, 2)) if interleaved else (
        slice(0, count // 2), slice(count // 2, count),
    )  # fmt: skip
    a, b = part[..., pairs[0]], part[..., pairs[1]]
    new = np.empty_like(part)
    new[..., pairs[0]], new[..., pairs[1]] = a * cos - b * sin, a * sin + b * cos
    y[..., :count] = new
    return y


def heads(x: Array, count: int) -> Array:
    return x.reshape(*x.shape[:2], count, -1).swapaxes(1, 2)


def softmax(x: Array, sink: Any = None) -> Array:
    most = x.max(-1, keepdims=True) if sink is None else np.maximum(x.max(-1, keepdims=True), sink)
    parts = np.exp(x - most)
    extra = 0 if sink is None else np.exp(sink - most)
    return parts / (parts.sum(-1, keepdims=True) + extra)


def mixed(
    q: Array, k: Array, v: Array, mask: Any = 0.0, cap: float = 0.0, sink: Any = None
) -> Array:
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat(groups, 1), v.repeat(groups, 1)
    scores = q @ k.swapaxes(2, 3) / math.sqrt(q.shape[3])
    scores = cap * np.tanh(scores / cap) if cap else scores
    y = softmax(scores + mask, sink) @ v
    return y.swapaxes(1, 2).reshape(q.shape[0], q.shape[2], -1)


def hidden(keep: Array) -> Array:
    return np.where(keep, 0.0, -np.inf)


def causal(past: int, queries: int, window: int = 10**6) -> Array:
    own, keys = past + np.arange(queries)[:, None], np.arange(past + queries)
    return hidden((keys <= own) & (keys > own - window))
