"""A decoder's step in ONNX: projections, grouped attention with a cache and rotated heads, and a residual."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .onnx_models import Array, node

KINDS = {"last": onnx.TensorProto.INT32, "total": onnx.TensorProto.INT32}


def step(window: int = -1) -> onnx.ModelProto:
    """The step of one new token after P."""
    random = np.random.default_rng(3)
    angles = random.uniform(0, 6, (512, 8))
    values = {
        "w": random.standard_normal((32, 128)) / 8,
        "o": random.standard_normal((64, 32)) / 8,
        "cos": np.cos(angles),
        "sin": np.sin(angles),
    }
    attention = node(
        "GroupQueryAttention", "qkv - - pk pv last total cos sin", "mixed nk nv",
        domain="com.microsoft", num_heads=4, kv_num_heads=2, do_rotary=1, local_window_size=window,
    )  # fmt: skip
    nodes = [
        node("MatMul", "x w", "qkv"),
        attention,
        node("MatMul", "mixed o", "out"),
        node("Add", "x out", "y"),
    ]
    past, present = [1, 2, "P", 16], [1, 2, "T", 16]
    shapes = {"x": [1, 1, 32], "pk": past, "pv": past, "last": [1], "total": []}
    graph = helper.make_graph(
        nodes,
        "step",
        [helper.make_tensor_value_info(n, KINDS.get(n, 1), s) for n, s in shapes.items()],
        [
            helper.make_tensor_value_info(n, 1, s)
            for n, s in {"y": [1, 1, 32], "nk": present, "nv": present}.items()
        ],
        [numpy_helper.from_array(v.astype(np.float32), n) for n, v in values.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def feeds(length: int) -> dict[str, Array]:
    random = np.random.default_rng(length)
    return {
        "x": random.standard_normal((1, 1, 32), np.float32),
        "pk": random.standard_normal((1, 2, length, 16), np.float32),
        "pv": random.standard_normal((1, 2, length, 16), np.float32),
        "last": np.array([length], np.int32),
        "total": np.array(length + 1, np.int32),
    }
