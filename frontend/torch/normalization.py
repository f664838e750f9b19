"""Normalizations as core ATen has them: with the statistics as further outputs."""

from __future__ import annotations

import numpy as np

from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.reduction import variance
from ..correspondence.compositions.windows import per_channel
from ..correspondence.reading import Pair
from ..op_builder import like
from ..refusals import FOR_INFERENCE
from ..torch_calls.call import Value
from ..torch_calls.op_table import READS
from .node import Node


def _read_layer_norm(node: Node, name: str) -> list[Value]:
    """The result, the mean and 1 / the deviation of each row."""
    y = READS["over_last"](node, name)
    x = node.tensor_of()
    axes = tuple(range(x.details.rank - len(node.attr_ints("normalized_shape")), x.details.rank))
    return [y, *_statistics(node, x, axes, node.attr_float("eps"))]


def _statistics(
    node: Node, x: GraphTensor, axes: tuple[int, ...], epsilon: float
) -> list[GraphTensor]:
    wide = node.converted(x, x.details.dtype.accumulator)
    mean = node.helper("reduce_mean", wide, axes=axes, keep_dims=True)
    spread = variance(node.part(), wide, axes, correction=0, keep_dims=True)
    spread = node.helper("rsqrt", node.helper("add", spread, like(node, epsilon, spread)))
    return [node.as_output(mean, 1), node.as_output(spread, 2)]


def _read_batch_norm(node: Node, name: str) -> list[Value]:
    """With the statistics of training, where what is saved for gradients is empty, or of the batch itself."""
    if node.attr_bool("training", False):
        return _by_batch(node)
    nothing = node.constant(np.zeros(0), node.tensor_of().details.dtype)
    return [READS["per_channel"](node, name), nothing, nothing]


def _by_batch(node: Node) -> list[Value]:
    """The result, the mean and 1 / the deviation of each channel; new statistics of training are not kept."""
    if node.given("running_mean"):
        raise node.unsupported("training=True", FOR_INFERENCE)
    x, epsilon = node.tensor_of(), node.attr_float("eps")
    axes = tuple(axis for axis in range(x.details.rank) if axis != 1)
    found = _statistics(node, x, axes, epsilon)
    y = node.helper("mul", node.helper("sub", x, found[0]), found[1])
    for name, op_name in (("weight", "mul"), ("bias", "add")):
        vector = node.optional(name)
        if vector is not None:
            y = node.helper(op_name, y, per_channel(node, x, vector))
    channels = x.details.plain_dims[1:2]
    return [node.converted(y, x.details.dtype), *(node.reshaped(z, channels) for z in found)]


def _read_group_norm(node: Node, _: str) -> list[Value]:
    """The result, the mean and 1 / the deviation of each group."""
    x = node.tensor_of()
    batch, groups = node.attr_int("N"), node.attr_int("group")
    node.attr_int("C"), node.attr_int("HxW")
    node.bound = {**node.bound, "num_groups": groups}
    y = READS["per_channel"](node, "group_norm")
    rows = node.reshaped(x, (batch, groups, x.details.elements // max(batch * groups, 1)))
    found = _statistics(node, rows, (2,), node.attr_float("eps"))
    return [y, *(node.reshaped(z, (batch, groups)) for z in found)]


PAIRS = {
    "native_layer_norm": Pair(_read_layer_norm),
    "native_batch_norm": Pair(_read_batch_norm),
    "native_group_norm": Pair(_read_group_norm),
}
