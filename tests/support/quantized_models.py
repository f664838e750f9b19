"""Small networks as ONNX Runtime's quantization tool leaves them, and their exact results."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

Array = np.ndarray[Any, Any]


class Net:
    """Builds a float model node by node; weights are random, biases small."""

    def __init__(self, shape: Sequence[int], seed: int = 0) -> None:
        self.shape = tuple(shape)
        self.random = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.weights: list[TensorProto] = []

    def weight(self, *shape: int, scale: float = 0.0) -> str:
        """An initializer, scaled so that results stay near 1."""
        fan = float(np.prod(shape[1:] if len(shape) > 2 else shape[:1]) or 1)
        values = self.random.standard_normal(shape) * (scale or fan**-0.5)
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def constant(self, values: Any) -> str:
        """An initializer of given values."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def __call__(self, op_type: str, *inputs: str, **attrs: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=f"n{name}", **attrs))
        return name

    def model(self, result: str) -> ModelProto:
        """The finished model, of one input x."""
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)],
            self.weights,
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(made)


def mlp() -> ModelProto:
    """Three fully connected layers, one by MatMul and Add, two by Gemm; GELU by Erf between."""
    net = Net((5, 19))
    h = net("Relu", net("Gemm", "x", net.weight(19, 33), net.weight(33, scale=0.1)))
    h = net("Add", net("MatMul", h, net.weight(33, 16)), net.weight(16, scale=0.1))
    e = net(
        "Add",
        net("Erf", net("Div", h, net.constant(np.float32(1.4142135)))),
        net.constant(np.float32(1)),
    )
    h = net("Mul", net("Mul", h, e), net.constant(np.float32(0.5)))
    return net.model(net("Gemm", h, net.weight(7, 16), transB=1))


def convnet() -> ModelProto:
    """Convolutions with a residual sum, depthwise, pools, a concat, global average, a linear layer."""
    net = Net((2, 3, 12, 12))

    def conv(x: str, outputs: int, inputs: int, kernel: int, **attrs: Any) -> str:
        return net(
            "Conv",
            x,
            net.weight(outputs, inputs, kernel, kernel),
            net.weight(outputs, scale=0.1),
            **attrs,
        )

    same = {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    a = net("Relu", conv("x", 8, 3, 3, strides=[2, 2], **same))
    b = net("Add", a, conv(net("Relu", conv(a, 8, 8, 3, **same)), 8, 8, 1, kernel_shape=[1, 1]))
    b = net(
        "Clip",
        conv(b, 8, 1, 3, group=8, **same),
        net.constant(np.float32(0)),
        net.constant(np.float32(6)),
    )
    p = net("MaxPool", b, kernel_shape=[2, 2], strides=[2, 2])
    q = net("AveragePool", a, kernel_shape=[2, 2], strides=[2, 2])
    s = net("Concat", p, net("LeakyRelu", q, alpha=0.1), net("Sigmoid", p), axis=1)
    g = net("Flatten", net("GlobalAveragePool", s))
    return net.model(net("Gemm", g, net.weight(24, 5), net.weight(5, scale=0.1)))


def transformer() -> ModelProto:
    """One block: attention of two heads with a layer norm, and a feed-forward part with a residual sum."""
    net = Net((2, 6, 16))
    shape = net.constant(np.array([2, 6, 2, 8], np.int64))

    def linear(x: str, n: int, k: int) -> str:
        return net("Add", net("MatMul", x, net.weight(k, n)), net.weight(n, scale=0.1))

    def head(x: str, *perm: int) -> str:
        return net("Transpose", net("Reshape", linear(x, 16, 16), shape), perm=perm)

    def norm(x: str) -> str:
        return net(
            "LayerNormalization",
            x,
            net.constant(np.ones(16, np.float32)),
            net.weight(16, scale=0.1),
        )

    q, k, v = head("x", 0, 2, 1, 3), head("x", 0, 2, 3, 1), head("x", 0, 2, 1, 3)
    scores = net(
        "Softmax", net("Mul", net("MatMul", q, k), net.constant(np.float32(8**-0.5))), axis=-1
    )
    mixed = net("Transpose", net("MatMul", scores, v), perm=[0, 2, 1, 3])
    h = norm(
        net(
            "Add",
            "x",
            linear(net("Reshape", mixed, net.constant(np.array([2, 6, 16], np.int64))), 16, 16),
        )
    )
    return net.model(norm(net("Add", h, linear(net("Relu", linear(h, 32, 16)), 16, 32))))


NETS: dict[str, Callable[[], ModelProto]] = {
    "mlp": mlp, "convnet": convnet, "transformer": transformer,
}  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """The options by which a network is quantized."""

    form: str
    activations: str = "u8"
    weights: str = "s8"
    per_channel: bool = False

    def __str__(self) -> str:
        channel = "-channel" if self.per_channel else ""
        return f"{self.form}-{self.activations}{self.weights}{channel}"


RECIPES = (
    Recipe("qdq"),
    Recipe("qdq", per_channel=True),
    Recipe("qdq", "s8"),
    Recipe("qdq", "s8", per_channel=True),
    Recipe("qdq", "u8", "u8"),
    Recipe("operator"),
    Recipe("operator", per_channel=True),
    Recipe("operator", "s8", per_channel=True),
    Recipe("operator", "u8", "u8"),
    Recipe("dynamic"),
    Recipe("dynamic", "u8", "u8"),
    Recipe("dynamic", per_channel=True),
)

_TYPES = {"u8": QuantType.QUInt8, "s8": QuantType.QInt8}


class _Samples(CalibrationDataReader):
    """A few inputs of normal distribution."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.left = [{"x": sample(shape, seed)} for seed in range(3)]

    def get_next(self) -> dict[str, Array] | None:
        """The next of them."""
        return self.left.pop() if self.left else None


def sample(shape: Sequence[int], seed: int = 0) -> Array:
    """An input."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@cache
def quantized(net: str, recipe: Recipe) -> bytes:
    """The quantized network, serialized."""
    model = NETS[net]()
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "f.onnx"), Path(folder, "q.onnx")
        onnx.save(model, source)
        common: dict[str, Any] = {
            "per_channel": recipe.per_channel,
            "weight_type": _TYPES[recipe.weights],
            # Without VNNI, ONNX Runtime sums pairs of u8 times s8 in saturating s16.
            "reduce_range": recipe.weights == "s8",
        }
        if recipe.form == "dynamic":
            quantize_dynamic(source, target, **common)
        else:
            shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
            quantize_static(
                source,
                target,
                _Samples(shape),
                quant_format=QuantFormat.QDQ if recipe.form == "qdq" else QuantFormat.QOperator,
                activation_type=_TYPES[recipe.activations],
                **common,
            )
        return target.read_bytes()


def peer_results(model: bytes, x: Array, *others: Array) -> list[Array]:
    """Return the results of ONNX Runtime with all its optimizations off; the inputs are in the model's order."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feeds = dict(zip((i.name for i in session.get_inputs()), (x, *others), strict=True))
    return [np.asarray(y) for y in session.run(None, feeds)]
