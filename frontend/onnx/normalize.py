"""Softmax and normalisations."""

from __future__ import annotations

import math

import numpy as np

from ...dtypes import F32, DType
from ...graph_ir.graph import Array, GraphTensor
from .scope import Handler, NodeContext, Value


def _softmax(op_name: str) -> Handler:
    def handler(node: NodeContext) -> Value:
        x = node.tensor(0)
        dims = x.details.plain_dims
        if node.opset >= 13:
            axis = node.axis(node.attr_int("axis", -1), len(dims))
            return node.make(op_name, [x], {"axis": axis})
        # Before opset 13 the axes from `axis` on are normalised together, as the columns of a matrix.
        axis = node.axis(node.attr_int("axis", 1), len(dims), inclusive=True)
        if axis == len(dims) - 1:
            return node.make(op_name, [x], {"axis": axis})
        matrix = node.reshaped(x, (math.prod(dims[:axis]), math.prod(dims[axis:])))
        return node.reshaped(node.make(op_name, [matrix], {"axis": 1}), dims)

    return handler


def _layer_norm(node: NodeContext) -> Value | list[Value]:
    x = node.tensor(0)
    dims = x.details.plain_dims
    axis = node.axis(node.attr_int("axis", -1), len(dims))
    epsilon = node.attr_float("epsilon", 1e-5)
    parameters = [_broadcast(node, node.tensor(i), dims[axis:]) for i in (1, 2) if node.has(i)]
    result = node.make("layer_norm", [x, *parameters], {"axis": axis, "epsilon": epsilon})
    if not node.wants(1) and not node.wants(2):
        return result
    dtype = F32 if node.attr_int("stash_type", 1) == 1 else x.details.dtype
    mean, inverse = _statistics(
        node, node.converted(x, dtype), tuple(range(axis, len(dims))), epsilon
    )
    return [result, mean, inverse]


def _broadcast(node: NodeContext, x: GraphTensor, dims: tuple[int, ...]) -> GraphTensor:
    given = x.details.plain_dims
    if given == dims:
        return x
    leading = math.prod(given[: max(len(given) - len(dims), 0)])
    if leading != 1:
        raise node.rule(f"scale and bias must broadcast to {list(dims)}", str(list(given)))
    x = node.reshaped(x, given[len(given) - len(dims) :] if len(given) > len(dims) else given)
    return node.helper("broadcast", [x], {"shape": dims})


def _statistics(
    node: NodeContext, x: GraphTensor, axes: tuple[int, ...], epsilon: float
) -> tuple[GraphTensor, GraphTensor]:
    """Mean, and 1 / sqrt(variance + epsilon), over `axes`, which are kept with size 1."""
    over = {"axes": axes, "keep_dims": True}
    mean = node.helper("reduce_mean", [x], over)
    squares = node.helper("square", [node.helper("sub", [x, mean])])
    variance = node.helper("reduce_mean", [squares], over)
    shifted = node.helper("add", [variance, node.constant(epsilon, x.details.dtype)])
    return mean, node.helper("rsqrt", [shifted])


def _rms_norm(node: NodeContext) -> Value:
    x = node.tensor(0)
    axis = node.axis(node.attr_int("axis", -1), x.details.rank)
    wide = F32 if node.attr_int("stash_type", 1) == 1 else x.details.dtype
    dtype = x.details.dtype
    x = node.converted(x, wide)
    over = {"axes": tuple(range(axis, x.details.rank)), "keep_dims": True}
    mean = node.helper("reduce_mean", [node.helper("square", [x])], over)
    shifted = node.helper("add", [mean, node.constant(node.attr_float("epsilon", 1e-5), wide)])
    normal = node.helper("mul", [x, node.helper("rsqrt", [shifted])])
    return node.make("mul", [node.converted(normal, dtype), node.tensor(1)])


def _batch_norm(node: NodeContext) -> Value:
    if node.opset >= 14 and node.attr_int("training_mode", 0):
        raise node.unsupported("training mode")
    if any(node.wants(i) for i in range(1, 5)):
        raise node.unsupported("training mode (outputs after the first)")
    if node.opset < 9 and not node.attr_int("spatial", 1):
        raise node.unsupported("spatial=0")
    x = node.tensor(0)
    dims = x.details.plain_dims
    if len(dims) < 2:
        raise node.rule("the input must have a channel axis", str(x.details))
    for index, what in enumerate(("scale", "bias", "mean", "variance"), 1):
        if node.details(index).plain_dims != (dims[1],):
            raise node.rule(f"{what} must have shape [{dims[1]}]", str(node.details(index)))
    per_channel = (dims[1],) + (1,) * (len(dims) - 2)
    factor, offset = _affine(node, x.details.dtype, node.attr_float("epsilon", 1e-5))
    factor, offset = (node.reshaped(v, per_channel) for v in (factor, offset))
    return node.make("add", [node.helper("mul", [x, factor]), offset])


def _affine(node: NodeContext, dtype: DType, epsilon: float) -> tuple[GraphTensor, GraphTensor]:
    """The factor and the offset that a normalisation by fixed statistics comes down to, one per channel."""
    known = [node.known(i) for i in range(1, 5)]
    if all(v is not None for v in known):
        scale, bias, mean, variance = (_as_f64(v) for v in known)
        factor = scale / np.sqrt(variance + epsilon)
        return node.constant(factor, dtype), node.constant(bias - mean * factor, dtype)
    wide = node.details(3).dtype
    scale_, bias_, mean_, variance_ = (node.converted(node.tensor(i), wide) for i in range(1, 5))
    spread = node.helper("add", [variance_, node.constant(epsilon, wide)])
    factor_ = node.helper("mul", [scale_, node.helper("rsqrt", [spread])])
    offset = node.helper("sub", [bias_, node.helper("mul", [mean_, factor_])])
    return node.converted(factor_, dtype), node.converted(offset, dtype)


def _as_f64(value: Array | None) -> Array:
    return np.asarray(value).astype(np.float64)


def _instance_norm(node: NodeContext) -> Value:
    x = node.tensor(0)
    dims = x.details.plain_dims
    if len(dims) < 3:
        raise node.rule("the input must have batch, channel and spatial axes", str(x.details))
    axes = tuple(range(2, len(dims)))
    mean, inverse = _statistics(node, x, axes, node.attr_float("epsilon", 1e-5))
    normal = node.helper("mul", [node.helper("sub", [x, mean]), inverse])
    return _scaled_channels(node, normal)


def _scaled_channels(node: NodeContext, x: GraphTensor) -> GraphTensor:
    per_channel = (x.details.plain_dims[1],) + (1,) * (x.details.rank - 2)
    scale, bias = (node.reshaped(node.tensor(i), per_channel) for i in (1, 2))
    return node.make("add", [node.helper("mul", [x, scale]), bias])


HANDLERS: dict[str, Handler] = {
    "Softmax": _softmax("softmax"),
    "LogSoftmax": _softmax("log_softmax"),
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _rms_norm,
    "BatchNormalization": _batch_norm,
    "InstanceNormalization": _instance_norm,
}
