"""ONNX Runtime's layers on quantized tensors: each is dequantized, computed in f32 and quantized."""

from __future__ import annotations

import math
from collections.abc import Callable

from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.windows import global_average_pool, windowed
from ..op_builder import Value
from .channels_last import channels_back, channels_first
from .quantize import shaped
from .scope import Handler, NodeContext
from .windows import pool_attrs


def dequantized(node: NodeContext, index: int) -> GraphTensor:
    """Input `index`, of which the scale and perhaps a zero point are the next two, as f32."""
    return node.helper("dequantize", node.tensor(index), *_parameters(node, index + 1))


def quantized(node: NodeContext, y: GraphTensor, index: int, like: int = 0) -> GraphTensor:
    """The result by the scale and zero point at `index`; of the type of input `like` where there is no zero point."""
    parameters = _parameters(node, index)
    dtype = parameters[1].details.dtype if len(parameters) > 1 else node.details(like).dtype
    return node.make("quantize", y, *parameters, dtype=dtype)


def _parameters(node: NodeContext, index: int) -> list[GraphTensor]:
    given = [i for i in (index, index + 1) if node.has(i)]
    for i in given:
        if node.details(i).elements != 1:
            raise node.unsupported(f"a scale or zero point of shape {node.details(i)}")
    return [shaped(node, i, ()) for i in given]


def _binary(op_name: str) -> Handler:
    def read(node: NodeContext) -> Value:
        y = node.helper(op_name, dequantized(node, 0), dequantized(node, 3))
        return quantized(node, y, 6)

    return read


def _unary(layer: Callable[[NodeContext, GraphTensor], GraphTensor]) -> Handler:
    def read(node: NodeContext) -> Value:
        return quantized(node, layer(node, dequantized(node, 0)), 3)

    return read


def _softmax(node: NodeContext, x: GraphTensor) -> GraphTensor:
    dims = x.details.plain_dims
    axis = node.axis(node.attr_int("axis", -1), len(dims))
    if node.attr_int("opset", 13) >= 13 or axis == len(dims) - 1:
        return node.helper("softmax", x, axis=axis)
    flat = node.reshaped(x, (*dims[:axis], x.details.elements // max(math.prod(dims[:axis]), 1)))
    return node.reshaped(node.helper("softmax", flat, axis=axis), dims)


def _average_pool(node: NodeContext, x: GraphTensor) -> GraphTensor:
    x = _channels_first(node, x)
    y = windowed(node, "avg_pool", x, **pool_attrs(node, x, "avg_pool"))
    return _channels_back(node, y)


def _mean(node: NodeContext, x: GraphTensor) -> GraphTensor:
    axes = node.attr_ints("axes", None)
    rank = x.details.rank
    every = tuple(range(rank)) if axes is None else tuple(node.axis(a, rank) for a in axes)
    return node.helper("reduce_mean", x, axes=every, keep_dims=bool(node.attr_int("keepdims", 1)))


def _channels_first(node: NodeContext, x: GraphTensor) -> GraphTensor:
    return channels_first(node, x) if node.attr_int("channels_last", 0) else x


def _channels_back(node: NodeContext, y: GraphTensor) -> GraphTensor:
    return channels_back(node, y) if node.attr_int("channels_last", 0) else y


def _concat(node: NodeContext) -> Value:
    parts = [dequantized(node, i) for i in range(2, node.count, 3)]
    axis = node.axis(node.attr_int("axis"), parts[0].details.rank)
    joined = node.helper("concat", *parts, axis=axis) if len(parts) > 1 else parts[0]
    return quantized(node, joined, 0, like=2)


def _where(node: NodeContext) -> Value:
    y = node.helper("select", node.tensor(0), dequantized(node, 1), dequantized(node, 4))
    return quantized(node, y, 7, like=1)


HANDLERS: dict[str, Handler] = {
    "com.microsoft::QLinearAdd": _binary("add"),
    "com.microsoft::QLinearMul": _binary("mul"),
    "com.microsoft::QLinearConcat": _concat,
    "com.microsoft::QLinearWhere": _where,
    "com.microsoft::QLinearAveragePool": _unary(_average_pool),
    "com.microsoft::QLinearGlobalAveragePool": _unary(
        lambda node, x: _channels_back(node, global_average_pool(node, _channels_first(node, x)))
    ),
    "com.microsoft::QLinearSigmoid": _unary(lambda node, x: node.helper("sigmoid", x)),
    "com.microsoft::QLinearLeakyRelu": _unary(
        lambda node, x: node.helper("leaky_relu", x, alpha=node.attr_float("alpha", 0.01))
    ),
    "com.microsoft::QLinearSoftmax": _unary(_softmax),
    "com.microsoft::QLinearReduceMean": _unary(_mean),
}
