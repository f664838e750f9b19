"""One model of QDQ matmuls and convolutions whose integers have every width ONNX has, scales of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]

LIMITS = {
    "u4": (0, 15), "s4": (-8, 7), "u8": (0, 255), "s8": (-128, 127),
    "u16": (0, 65535), "s16": (-32768, 32767),
}  # fmt: skip
NAMES = {"u": "UINT", "s": "INT"}
BLOCK = 16

BRANCHES = [
    *((op, x, w, scales) for op in ("MatMul", "Conv") for x, w, scales in (
        ("u8", "s8", "channel"), ("u8", "u8", "block"), ("s8", "s8", "one"), ("s8", "s4", "block"),
        ("u8", "u4", "channel"), ("u16", "s8", "channel"), ("s16", "s8", "block"), ("u8", "s16", "one"),
        ("u4", "s4", "channel"), ("s4", "u8", "one"), ("u8", "u16", "channel"),
    )),
]  # fmt: skip
"""Op, type of activations, type of weights, and what shares a scale of weights."""


class _Model:
    """Nodes and initializers; every branch has separate names."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.weights: list[TensorProto] = []

    def node(self, op_type: str, inputs: list[str], **attrs: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], **attrs))
        return name

    def integers(self, dtype: str, values: Any) -> str:
        name = f"w{len(self.weights)}"
        kind = getattr(TensorProto, NAMES[dtype[0]] + dtype[1:])
        made = helper.make_tensor(name, kind, np.shape(values), np.ravel(values).tolist())
        self.weights.append(made)
        return name

    def floats(self, values: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, np.float32), name))
        return name

    def rounded(self, x: str, dtype: str, width: float) -> str:
        """x quantized to a range of `width` and back, with an odd zero point."""
        low, high = LIMITS[dtype]
        zero = self.integers(dtype, low + (high - low) // 3)
        parameters = [self.floats(width / (high - low)), zero]
        quantized = self.node("QuantizeLinear", [x, *parameters])
        return self.node("DequantizeLinear", [quantized, *parameters])

    def dequantized(
        self, dtype: str, shape: tuple[int, ...], axes: tuple[int, int], scales: str
    ) -> str:
        """Weights with a scale for all, per output (`axes[0]`) or per block of `axes[1]`."""
        low, high = LIMITS[dtype]
        outputs, summed = axes
        dims: tuple[int, ...] = ()
        attrs = {}
        if scales == "channel":
            dims, attrs = (shape[outputs],), {"axis": outputs}
        elif scales == "block":
            dims = tuple(d // BLOCK if i == summed else d for i, d in enumerate(shape))
            attrs = {"axis": summed, "block_size": BLOCK}
        step = (self.random.random(dims) + 0.5) / (high - low)
        zero = self.random.integers(low + 1, high, dims)
        numbers = self.random.integers(low, high + 1, shape)
        operands = [self.integers(dtype, numbers), self.floats(step), self.integers(dtype, zero)]
        return self.node("DequantizeLinear", operands, **attrs)


def every_width() -> ModelProto:
    """Inputs a [5, 32] and b [1, 16, 6, 6]; a result for each of `BRANCHES`, quantized to steps of 1 / 8."""
    made, results = _Model(), []
    for op, x, w, scales in BRANCHES:
        if op == "MatMul":
            operands = [made.rounded("a", x, 8.0), made.dequantized(w, (32, 12), (1, 0), scales)]
            y = made.node("MatMul", operands)
        else:
            weights = made.dequantized(w, (12, 16, 3, 3), (0, 1), scales)
            y = made.node("Conv", [made.rounded("b", x, 8.0), weights], pads=[1, 1, 1, 1])
        results.append(made.rounded(y, "u8", 255 / 8))
    inputs = {"a": (5, 32), "b": (1, 16, 6, 6)}
    graph = helper.make_graph(
        made.nodes, "widths",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in results],
        made.weights,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
