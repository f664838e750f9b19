"""Fold per-channel factors and offsets, such as those of batch norm, into the weights of the preceding convolution."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.dims import is_known
from ...base.mapped_file import release
from ..ir.graph import Array, Graph, GraphTensor, Op
from ..ir.reference import narrow
from ..ops.compose import Composer
from ..ops.normalize import BatchNorm
from ..rewriting.rewrite import rewrite
from ..rewriting.values import constant_value
from ..schedule.context import LowerContext

Affine = tuple[Op, Any, Any]
"""A convolution, and the per-channel factor and offset (float64) applied to its result."""

MAX_STEPS = 8
"""Search depth for a convolution. Rules fold a step as soon as it follows the one before, so two are usual;
chains of any length without a convolution take no longer than that per op."""


def fold_batch_norm(graph: Graph, ctx: LowerContext) -> bool:
    """Scale the weights instead of the result, and add all offsets at once.

    %y = add(mul(add(convolution(%x, %w), %b), %factor), %offset)      factor and offset constant, one per channel
    ->
    %y = add(convolution(%x, %w * factor), %b * factor + offset)

    Requires: topological order.
    Ensures: topological order; no convolution with constant weights is followed by a batch norm or a per-channel
    factor. The weights are scaled in float64 and rounded once; results may round differently.
    """
    return rewrite(graph, {"batch_norm": [_fold], "mul": [_fold], "add": [_fold]})


def _fold(graph: Graph, op: Op) -> GraphTensor | None:
    """Replace the chain that ends with `op` by one convolution and at most one add."""
    found = _affine(op.outputs[0])
    if found is None:
        return None
    conv, factor, offset = found
    (source,) = conv.inputs[1:]
    weights = constant_value(source)
    # This rule produces a single add, so it applies only to sums of two offsets.
    if weights is None or (op.op_name == "add" and _conv_before(op.inputs[0]) is conv):
        return None
    if op.op_name == "add" and _conv_before(op.inputs[1]) is conv:
        return None
    dtype, make = op.outputs[0].details.dtype, Composer(graph, conv)
    column = (-1,) + (1,) * (weights.ndim - 1)
    scaled = weights.astype(np.float64) * factor.reshape(column)
    release(weights)
    w = source
    if (factor != 1).any():
        w = graph.make_constant(narrow(scaled, dtype), f"{source.name}.scaled")
    result = make("convolution", conv.inputs[0], w, **conv.attrs)
    if not offset.any():
        return result
    bias = narrow(offset.reshape(column[:-1]), dtype)
    return make("add", result, graph.make_constant(bias, f"{conv.name}.bias"))


def _conv_before(tensor: GraphTensor) -> Op | None:
    op = tensor.producer_owner
    return op if op.op_name == "convolution" else None


def _affine(tensor: GraphTensor) -> Affine | None:
    """`tensor` as factor * convolution + offset; None if it has another form, or its parts have other consumers."""
    steps: list[tuple[Any, Any]] = []
    while (op := tensor.producer_owner).op_name != "convolution":
        found = _step_of(op, tensor) if len(steps) < MAX_STEPS else None
        if found is None:
            return None
        tensor, step = found
        steps.append(step)
    if not tensor.details.dtype.is_float:
        return None
    channels = tensor.details.plain_dims[1]
    factor, offset = np.ones(channels), np.zeros(channels)
    for scale, shift in reversed(steps):
        factor, offset = factor * scale, offset * scale + shift
    return op, factor, offset


def _step_of(op: Op, result: GraphTensor) -> tuple[GraphTensor, tuple[Any, Any]] | None:
    """Return the tensor that `op` scales and shifts, if nothing else uses it, and its factor and offset."""
    if op.op_name not in ("batch_norm", "mul", "add"):
        return None
    for x, *others in (op.inputs, op.inputs[::-1])[: 1 if op.op_name == "batch_norm" else 2]:
        if len(x.uses) != 1 or x.details.plain_dims != result.details.plain_dims:
            continue
        step = _step(op, others, result) if not x.is_constant else None
        if step is not None:
            return x, step
    return None


def _step(op: Op, others: list[GraphTensor], result: GraphTensor) -> tuple[Any, Any] | None:
    """Factor and offset of one op."""
    values = [constant_value(x) for x in others]
    if any(value is None or not np.isfinite(value.astype(np.float64)).all() for value in values):
        return None
    wide = [np.asarray(value).astype(np.float64) for value in values]
    if isinstance(op, BatchNorm):
        scale, bias, mean, variance = wide
        if op.axis != 1 or (variance + op.epsilon <= 0).any():
            return None
        factor = scale / np.sqrt(variance + op.epsilon)
        return factor, bias - mean * factor
    channels = _per_channel(wide[0], result.details.plain_dims)
    if channels is None:
        return None
    return (channels, 0.0) if op.op_name == "mul" else (1.0, channels)


def _per_channel(value: Array, dims: tuple[int, ...]) -> Array | None:
    """The per-channel values of a constant that is uniform along all other axes; None for any other constant."""
    shape = (1,) * (len(dims) - value.ndim) + value.shape
    if not 1 < len(dims) == len(shape) or not is_known(dims[1]):
        return None
    if any(size != 1 for i, size in enumerate(shape) if i != 1):
        return None
    return np.broadcast_to(value.reshape(-1), (dims[1],))
