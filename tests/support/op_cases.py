"""Examples of single ops, for every format's writer: what is written and read back must compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.base.dtypes import by_name
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.check_op import random_array

Types = list[tuple[str, tuple[int, ...]]]

F: Types = [("f32", (2, 3, 4))]
AB: Types = [("f32", (2, 3, 4)), ("f32", (3, 1))]
I: Types = [("s32", (2, 3))] * 2  # noqa: E741
P: Types = [("f32", (4, 6)), *[("f32", (6,))] * 2]

CASES: list[tuple[str, Types, dict[str, Any]]] = [
    *((name, F, {}) for name in (
        "neg", "abs", "exp", "relu", "sigmoid", "tanh", "erf", "square", "floor", "round", "sin", "isnan", "isinf",
        "softplus", "mish", "hard_swish", "silu", "gelu", "selu", "elu", "leaky_relu", "softsign", "copy", "sign",
        "softmax", "log_softmax", "reduce_sum", "arg_max", "arg_min", "expm1", "trunc",
    )),
    *((name, AB, {}) for name in ("add", "sub", "mul", "div", "max", "min", "pow", "eq", "lt", "ge", "ne", "atan2")),
    *((name, I, attrs) for name, attrs in (
        ("div", {"rounding": "trunc"}), ("div", {}), ("mod", {}), ("mod", {"sign": "trunc"}), ("add", {}))),
    ("and", [("bool", (2, 3))] * 2, {}), ("or", [("bool", (2, 3))] * 2, {}), ("not", [("bool", (2,))], {}),
    ("gelu", F, {"approximate": "tanh"}), ("leaky_relu", F, {"alpha": 0.25}), ("elu", F, {"alpha": 2.0}),
    ("selu", F, {"alpha": 1.5, "gamma": 0.5}), ("hard_sigmoid", F, {"alpha": 1 / 6, "beta": 0.5}),
    ("clamp", F, {"min": -0.1, "max": None}), ("clamp", I[:1], {"min": -2, "max": 3}),
    ("clamp", [("u8", (9,))], {"min": -1, "max": 6}), ("clamp", [("s8", (9,))], {"min": None, "max": 300.5}),
    ("cast", F, {"dtype": "s8"}),
    ("cast", F, {"dtype": "bf16"}), ("prelu", [("f32", (2, 4)), ("f32", (4,))], {}),
    ("select", [("bool", (3, 1)), *F, *F], {}), ("broadcast", [("f32", (3, 1))], {"shape": (2, 3, 4)}),
    ("reshape", F, {"shape": (4, 6)}), ("reshape", [("f32", (0, 3))], {"shape": (3, 0)}),
    ("transpose", F, {"perm": (2, 0, 1)}), ("concat", F * 2, {"axis": 1}),
    ("slice", F, {"starts": (0, 1, 1), "steps": (1, 1, 1), "sizes": (2, 2, 3)}),
    ("slice", F, {"starts": (1, 2, 3), "steps": (-1, -2, -3), "sizes": (2, 2, 2)}),
    ("slice", F, {"starts": (0, 0, 1), "steps": (1, 2, 2), "sizes": (0, 2, 2)}),
    ("pad", F, {"before": (0, 1, 2), "after": (1, 0, 0), "mode": "constant", "value": 0.3}),
    ("pad", F, {"before": (0, 1, 2), "after": (1, 0, 0), "mode": "edge"}),
    ("gather", [*F, ("s64", (5,))], {"axis": 2}), ("gather_elements", [("f32", (2, 3)), ("s64", (2, 3))], {"axis": 1}),
    ("scatter_elements", [("f32", (2, 3)), ("s64", (2, 3)), ("f32", (2, 3))], {"axis": 1, "reduction": "add"}),
    ("top_k", F, {"k": 2, "axis": 1, "largest": False}), ("cum_sum", F, {"axis": -1, "reverse": True}),
    *[(f"cum_{name}", F, {"axis": 1}) for name in ("max", "min", "log_sum_exp")],
    ("cum_prod", F, {"axis": 1, "exclusive": True}), ("matmul_core", [("f32", (2, 3)), ("f32", (4, 3))],
                                                      {"transpose_b": True}),
    ("matmul_core", [("f32", (5, 3, 2)), ("f32", (3, 4))], {"transpose_a": True}),
    ("reduce_mean", F, {"axes": (0, -1), "keep_dims": True}), ("reduce_max", F, {"axes": ()}),
    ("reduce_any", [("bool", (2, 3))], {"axes": (1,)}), ("reduce_log_sum_exp", F, {"axes": (1,)}),
    ("arg_max", F, {"axis": 1}), ("softmax", F, {"axis": 1}), ("layer_norm", P, {"axis": -1, "epsilon": 0.001}),
    ("quantize", [("f32", (2, 3, 4)), ("f32", ()), ("u8", ())], {"dtype": "u8"}),
    ("quantize", [("f32", (2, 3, 4)), ("f32", (3, 1))], {"dtype": "s16", "bits": 4}),
    ("dequantize", [("s8", (2, 3, 4)), ("f32", (3, 1)), ("s8", (3, 1))], {}),
    ("dequantize", [("u8", (2, 3, 4)), ("f32", (3, 4))], {}), ("dequantize", [("s32", (2, 3)), ("f32", (3,))], {}),
    ("rms_norm", P[:2], {"axis": -1, "epsilon": 0.001}), ("batch_norm", [("f32", (2, 3)), *[("f32", (3,))] * 4], {}),
]  # fmt: skip


POSITIVE = ("pow", "batch_norm", "quantize", "dequantize")


def graph_of(name: str, types: Types, attrs: dict[str, Any]) -> Graph:
    """One op between inputs, a weight and outputs."""
    graph = Graph("g")
    tensors = [
        graph.make_input(LogicalTensor(by_name(t), dims), f"x{i}")
        for i, (t, dims) in enumerate(types)
    ]
    for tensor in graph.make(name, tensors, attrs, "/layer.0/op").outputs:
        graph.make_output(tensor)
    return graph


def inputs_of(name: str, types: Types) -> list[Array]:
    """Random inputs the op of a case takes."""
    arrays = [random_array(t, dims, i) for i, (t, dims) in enumerate(types)]
    return [np.abs(a) for a in arrays] if name in POSITIVE else arrays
