"""Normalizations, with the statistics they return besides the result."""

from __future__ import annotations

import math

from ...base.dtypes import F32
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.reduction import moments
from ..correspondence.reading import Pair
from ..op_builder import Value
from .scope import Handler, NodeContext


def _layer_norm(node: NodeContext) -> list[Value]:
    x = node.tensor("x")
    rank = x.details.rank
    if node.type == "LayerNormV4":
        first = rank - len(node.ints("normalized_shape"))
        axis = node.axis(first, rank)
        names = ("gamma", "beta")
    else:
        axis = node.axis(node.attr_int("begin_norm_axis"), rank)
        if node.axis(node.attr_int("begin_params_axis"), rank) != axis:
            raise node.unsupported("begin_params_axis other than begin_norm_axis")
        names = ("gamma", "beta")
    dtype, tail = x.details.dtype, x.details.plain_dims[axis:]
    parameters = [
        node.reshaped(node.tensor_as(name, dtype), tail) for name in names if node.has(name)
    ]
    if node.has("beta") and not node.has("gamma"):
        parameters = [node.constant(1, dtype), *parameters]
    epsilon = node.attr_float("epsilon")
    result = node.make("layer_norm", x, *parameters, axis=axis, epsilon=epsilon)
    if node.node.outputs == 1:
        return [result]
    mean, variance = _moments(node, x, tuple(range(axis, rank)))
    if node.type == "LayerNorm":
        return [result, mean, variance]
    shifted = node.helper("add", variance, node.constant(epsilon, variance.details.dtype))
    return [result, mean, node.helper("rsqrt", shifted)]


def _rms_norm(node: NodeContext) -> list[Value]:
    if node.type == "AddRmsNorm":
        x = node.helper("add", *node.pair())
    else:
        x = node.tensor("x")
    gamma = node.tensor_as("gamma", x.details.dtype)
    rank, count = x.details.rank, gamma.details.rank
    axis = node.axis(rank - count, rank)
    result = node.make("rms_norm", x, gamma, axis=axis, epsilon=node.attr_float("epsilon"))
    if node.node.outputs == 1:
        return [result]
    wide = node.converted(x, F32)
    axes = tuple(range(axis, rank))
    mean = node.helper("reduce_mean", node.helper("square", wide), axes=axes, keep_dims=True)
    spread = node.helper(
        "rsqrt", node.helper("add", mean, node.constant(node.attr_float("epsilon"), F32))
    )
    return [result, spread, x] if node.type == "AddRmsNorm" else [result, spread]


def _batch_norm(node: NodeContext) -> list[Value]:
    """With the statistics of the batch in training mode: their variance is then returned unbiased."""
    x = node.tensor("x")
    axis = 1 if node.attr_text("data_format").startswith("NC") else x.details.rank - 1
    scale, offset = (node.tensor_as(name, x.details.dtype) for name in ("scale", "offset"))
    is_training, axes = (
        node.attr_bool("is_training"),
        tuple(i for i in range(x.details.rank) if i != axis),
    )
    if is_training:
        found = (node.reshaped(m, scale.details.plain_dims) for m in _moments(node, x, axes))
        mean, variance = (node.converted(m, x.details.dtype) for m in found)
    else:
        mean, variance = (node.tensor_as(name, x.details.dtype) for name in ("mean", "variance"))
    attrs = {"axis": axis, "epsilon": node.attr_float("epsilon")}
    y = node.make("batch_norm", x, scale, offset, mean, variance, **attrs)
    if not is_training:
        return [y, mean, variance, mean, variance]
    count = math.prod(x.details.plain_dims[i] for i in axes)
    factor = node.constant(count / max(count - 1, 1), variance.details.dtype)
    return [y, mean, node.helper("mul", variance, factor), mean, variance]


def _bn_infer(node: NodeContext, op_name: str) -> Value:
    x = node.tensor("x")
    names = ("scale", "offset", "mean", "variance")
    parameters = [node.tensor_as(name, x.details.dtype) for name in names]
    return node.make(op_name, x, *parameters, **node.row_attributes())


def _group_norm(node: NodeContext) -> list[Value]:
    """x [N, C, ...]: GE's kernels use only the first two axes, whatever data_format says."""
    x = node.tensor("x")
    gamma, beta = _by_channel(node, x)
    attrs = {"groups": node.attr_int("num_groups"), "epsilon": node.attr_float("eps")}
    return [node.make("group_norm", x, gamma, beta, **attrs)]


def _instance_norm(node: NodeContext) -> list[Value]:
    x = node.tensor("x")
    rank = x.details.rank
    gamma, beta = _by_channel(node, x)
    size, dims = gamma.details.elements, x.details.plain_dims
    last = not node.attr_text("data_format").startswith("NC") and dims[-1] == size
    order = (0, rank - 1, *range(1, rank - 1)) if last else tuple(range(rank))
    image = node.transposed(x, order)
    y = node.make("instance_norm", image, gamma, beta, epsilon=node.attr_float("epsilon"))
    moments = _moments(node, image, tuple(range(2, rank)))
    back = [order.index(i) for i in range(rank)]
    return [node.transposed(z, back) for z in (y, *moments)]


def _by_channel(node: NodeContext, x: GraphTensor) -> tuple[GraphTensor, GraphTensor]:
    """gamma and beta as vectors: GE also writes them with sizes of 1 on the other axes."""
    dtype = x.details.dtype
    gamma, beta = (node.tensor_as(name, dtype) for name in ("gamma", "beta"))
    return tuple(node.reshaped(p, (p.details.elements,)) for p in (gamma, beta))  # type: ignore[return-value]


def _moments(
    node: NodeContext, x: GraphTensor, axes: tuple[int, ...]
) -> tuple[GraphTensor, GraphTensor]:
    """Mean and biased variance over axes that stay with size 1, in the accumulator's dtype."""
    return moments(node, node.converted(x, x.details.dtype.accumulator), axes)


PAIRS = {"bn_infer": Pair(_bn_infer)}

HANDLERS: dict[str, Handler] = {
    "LayerNorm": _layer_norm, "LayerNormV3": _layer_norm, "LayerNormV4": _layer_norm, "RmsNorm": _rms_norm,
    "AddRmsNorm": _rms_norm, "BatchNorm": _batch_norm, "GroupNorm": _group_norm,
    "InstanceNorm": _instance_norm,
}  # fmt: skip
