"""Softmax and normalizations."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from ...base.dtypes import F32, DType
from ...base.size_queries import sizes_text
from ...graph_ir.ir.graph import GraphTensor, Op
from ..correspondence.compositions.reduction import moments
from ..correspondence.reading import Pair
from ..op_builder import Value, like
from ..refusals import FOR_INFERENCE
from .export import Exporter
from .scope import Handler, NodeContext


def _read_softmax(node: NodeContext, op_name: str) -> Value:
    x = node.tensor(0)
    dims = x.details.plain_dims
    if node.opset >= 13:
        return node.make(op_name, x, axis=node.axis(node.attr_int("axis"), len(dims)))
    # Before opset 13 the axes from `axis` on are normalized together, as the columns of a matrix.
    axis = node.axis(node.attr_int("axis"), len(dims), inclusive=True)
    if axis == len(dims) - 1:
        return node.make(op_name, x, axis=axis)
    matrix = node.reshaped(x, (math.prod(dims[:axis]), math.prod(dims[axis:])))
    return node.reshaped(node.make(op_name, matrix, axis=1), dims)


def _read_layer_norm(node: NodeContext, _: str) -> Value | list[Value]:
    x = node.tensor(0)
    dims = x.details.plain_dims
    axis, epsilon = node.axis(node.attr_int("axis"), len(dims)), node.attr_float("epsilon")
    parameters = [_broadcast(node, node.tensor(i), dims[axis:]) for i in (1, 2) if node.has(i)]
    result = node.make("layer_norm", x, *parameters, axis=axis, epsilon=epsilon)
    if not node.wants(1) and not node.wants(2):
        return result
    dtype = F32 if node.attr_int("stash_type") == 1 else x.details.dtype
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
        raise node.rule(f"scale and bias must broadcast to {sizes_text(dims)}", sizes_text(given))
    x = node.reshaped(x, given[len(given) - len(dims) :] if len(given) > len(dims) else given)
    return node.helper("broadcast", x, shape=dims)


def _statistics(
    node: NodeContext, x: GraphTensor, axes: tuple[int, ...], epsilon: float
) -> tuple[GraphTensor, GraphTensor]:
    """Mean, and 1 / sqrt(variance + epsilon), over `axes`, which are kept with size 1."""
    mean, variance = moments(node, x, axes)
    return mean, node.helper("rsqrt", node.helper("add", variance, like(node, epsilon, x)))


def _read_rms_norm(node: NodeContext, _: str) -> Value:
    x = node.tensor(0)
    axis = node.axis(node.attr_int("axis"), x.details.rank)
    wide = F32 if node.attr_int("stash_type") == 1 else x.details.dtype
    dtype, epsilon = x.details.dtype, node.attr_float("epsilon")
    if wide == dtype == node.details(1).dtype:
        return node.make("rms_norm", x, node.tensor(1), axis=axis, epsilon=epsilon)
    x = node.converted(x, wide)
    over = {"axes": tuple(range(axis, x.details.rank)), "keep_dims": True}
    mean = node.helper("reduce_mean", node.helper("square", x), **over)
    shifted = node.helper("add", mean, node.constant(epsilon, wide))
    normal = node.helper("mul", x, node.helper("rsqrt", shifted))
    return node.make("mul", node.converted(normal, dtype), node.tensor(1))


def _read_batch_norm(node: NodeContext, _: str) -> Value | list[Value]:
    if node.opset >= 14 and node.attr_int("training_mode"):
        return _train_batch_norm(node)
    if any(node.wants(i) for i in range(1, 5)):
        raise node.unsupported("training mode (outputs after the first)", FOR_INFERENCE)
    if node.opset < 9 and not node.attr_int("spatial"):
        raise node.unsupported("spatial=0", "export it with opset 9 or later")
    x = node.tensor(0)
    dims = x.details.plain_dims
    if len(dims) < 2:
        raise node.rule("the input must have a channel axis", str(x.details))
    for index, what in enumerate(("scale", "bias", "mean", "variance"), 1):
        if node.details(index).plain_dims != (dims[1],):
            raise node.rule(f"{what} must have shape [{dims[1]}]", str(node.details(index)))
    per_channel = (dims[1],) + (1,) * (len(dims) - 2)
    epsilon = node.attr_float("epsilon")
    is_uniform = len({node.details(i).dtype for i in range(5)}) == 1
    if any(node.known(i) is None for i in range(1, 5)) and is_uniform:
        return node.make("batch_norm", *(node.tensor(i) for i in range(5)), epsilon=epsilon)
    factor, offset = _affine(node, x.details.dtype, epsilon)
    factor, offset = (node.reshaped(v, per_channel) for v in (factor, offset))
    return node.make("add", node.helper("mul", x, factor), offset)


def _train_batch_norm(node: NodeContext) -> list[Value]:
    """Normalized by the statistics of the batch itself; the running ones move towards those."""
    x, scale, bias = (node.tensor(i) for i in range(3))
    rank = x.details.rank
    axes = (0, *range(2, rank))
    wide = node.converted(x, x.details.dtype.accumulator)
    mean, variance = moments(node, wide, axes)
    shape = mean.details.plain_dims
    epsilon = node.constant(node.attr_float("epsilon"), wide.details.dtype)
    factor = node.helper("rsqrt", node.helper("add", variance, epsilon))
    y = node.helper("mul", node.helper("sub", wide, mean), factor)
    for name, parameter in (("mul", scale), ("add", bias)):
        y = node.helper(name, y, node.reshaped(node.converted(parameter, y.details.dtype), shape))
    results: list[Value] = [node.converted(y, x.details.dtype)]
    momentum = node.attr_float("momentum")
    for index, batch in ((3, mean), (4, variance)):
        running = node.tensor(index)
        own = node.converted(
            node.reshaped(batch, running.details.plain_dims), running.details.dtype
        )
        parts = zip((running, own), (momentum, 1 - momentum), strict=True)
        kept, new = (node.helper("mul", v, like(node, share, v)) for v, share in parts)
        results.append(node.helper("add", kept, new))
    return results


def _affine(node: NodeContext, dtype: DType, epsilon: float) -> tuple[GraphTensor, GraphTensor]:
    """The per-channel factor and offset equivalent to a normalization by fixed statistics."""
    known = [node.known(i) for i in range(1, 5)]
    if all(v is not None for v in known):
        scale, bias, mean, variance = (np.asarray(v).astype(np.float64) for v in known)
        factor = scale / np.sqrt(variance + epsilon)
        return node.constant(factor, dtype), node.constant(bias - mean * factor, dtype)
    wide = node.details(3).dtype
    scale_, bias_, mean_, variance_ = (node.converted(node.tensor(i), wide) for i in range(1, 5))
    spread = node.helper("add", variance_, node.constant(epsilon, wide))
    factor_ = node.helper("mul", scale_, node.helper("rsqrt", spread))
    offset = node.helper("sub", bias_, node.helper("mul", mean_, factor_))
    return node.converted(factor_, dtype), node.converted(offset, dtype)


def _read_per_channel(node: NodeContext, op_name: str) -> Value:
    """Group and instance norm."""
    x, *parameters = (node.tensor(i) for i in range(3))
    if x.details.rank < 3 and op_name == "instance_norm":
        raise node.rule("the input must have batch, channel and spatial axes", str(x.details))
    attrs = node.row_attributes()
    groups = attrs.get("groups", 0)
    if node.opset < 21 and groups > 0:  # one scale and one bias per group, not per channel
        channels = x.details.plain_dims[1] if x.details.rank > 1 else 0
        parameters = [_spread(node, p, groups, channels) for p in parameters]
    return node.make(op_name, x, *parameters, **attrs)


def _spread(node: NodeContext, x: GraphTensor, groups: int, channels: int) -> GraphTensor:
    """One element per group, repeated for each channel of the group."""
    if x.details.plain_dims != (groups,) or channels % groups:
        values = f"{x.details} for {channels} channels in {groups} groups"
        raise node.rule("scale and bias must have one element per group", values)
    wide = (groups, channels // groups)
    column = node.helper("reshape", x, shape=(groups, 1))
    return node.reshaped(node.helper("broadcast", column, shape=wide), (channels,))


def _lp_norm(node: NodeContext) -> Value:
    """X over its 1- or 2-norm along an axis; 0 where that is 0."""
    x = node.tensor(0)
    p, axis = node.attr_int("p"), node.axis(node.attr_int("axis"), x.details.rank)
    if p not in (1, 2):
        raise node.rule("p must be 1 or 2", str(p))
    norm = node.helper(f"reduce_l{p}", x, axes=(axis,), keep_dims=True)
    zero = node.constant(0, x.details.dtype)
    nothing = node.helper("eq", norm, zero)
    return node.make("select", nothing, zero, node.helper("div", x, norm))


def _write_over_last(e: Exporter, op: Op, op_type: str) -> None:
    """Layer and RMS norm: the scale must be there."""
    x, *parameters = e.values(op)
    axes = cast(Any, op).axes
    if not parameters:
        dims = [op.inputs[0].details.plain_dims[axis] for axis in axes]
        parameters = [_filled(e, op, "scale", 1, dims)]
    e.node(op, op_type, [x, *parameters], axis=min(axes), epsilon=cast(Any, op).epsilon)


def _filled(e: Exporter, op: Op, what: str, value: int, dims: list[int]) -> str:
    return e.constant(op, what, np.full(dims, value).astype(op.inputs[0].details.dtype.numpy))


def _write_per_channel(e: Exporter, op: Op, op_type: str) -> None:
    """Group and instance norm: one scale and one bias per channel, which must be there."""
    x, *parameters = e.values(op)
    channels = [op.inputs[0].details.plain_dims[1]]
    for what, value in (("scale", 1), ("bias", 0))[len(parameters) :]:
        parameters.append(_filled(e, op, what, value, channels))
    e.node(op, op_type, [x, *parameters], **e.row_attributes(op))


PAIRS = {
    "softmax": Pair(_read_softmax),
    "layer_norm": Pair(_read_layer_norm, _write_over_last),
    "rms_norm": Pair(_read_rms_norm, _write_over_last),
    "batch_norm": Pair(_read_batch_norm),
    "per_channel": Pair(_read_per_channel, _write_per_channel),
}

HANDLERS: dict[str, Handler] = {"LpNormalization": _lp_norm}
