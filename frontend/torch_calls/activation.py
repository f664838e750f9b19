"""Activations and elementwise functions that rows of the table cannot express."""

from __future__ import annotations

from ...base.dtypes import F64
from ..refusals import FOR_INFERENCE
from .call import Call, Value

SOFTPLUS_THRESHOLD = 20.0
"""PyTorch's default threshold: above it softplus(x) is x, which equals log(1 + exp(x)) in f32."""


def _softplus(node: Call, _: str) -> Value:
    x = node.tensor_of()
    dtype = x.details.dtype
    beta = node.attr_float("beta", 1.0)
    threshold = node.attr_float("threshold", SOFTPLUS_THRESHOLD)
    scaled = x if beta == 1 else node.helper("mul", x, node.constant(beta, dtype))
    if dtype != F64 and threshold >= SOFTPLUS_THRESHOLD:
        if beta == 1:
            return node.make("softplus", x)
        return node.make("div", node.helper("softplus", scaled), node.constant(beta, dtype))
    bent = node.helper("softplus", scaled)
    bent = bent if beta == 1 else node.helper("div", bent, node.constant(beta, dtype))
    above = node.helper("gt", scaled, node.constant(threshold, dtype))
    return node.make("select", above, x, bent)


def _prelu(node: Call, _: str) -> Value:
    """One slope for all, or one for each of the channels of axis 1."""
    x = node.tensor_of()
    dims = x.details.plain_dims
    weight = node.tensor_of("weight")
    weight = node.converted(weight, x.details.dtype)
    count = weight.details.elements
    channels = dims[1] if len(dims) > 1 else 1
    if weight.details.rank > 1 or count not in (1, channels):
        raise node.rule(f"weight must have shape [1] or [{channels}]", str(weight.details))
    shape = (count,) + (1,) * (len(dims) - 2) if len(dims) > 1 else (1,) * len(dims)
    return node.make("prelu", x, node.reshaped(weight, shape))


def _softmax(node: Call, op_name: str) -> Value:
    """Without a dim it is 0 for tensors of rank 0, 1 and 3, else 1."""
    x = node.tensor_of()
    x = node.converted(x, node.dtype() or x.details.dtype)
    rank = x.details.rank
    axis = node.axis(node.attr_int("dim", 0 if rank in (0, 1, 3) else 1), rank)
    if op_name == "softmin":
        x, op_name = node.helper("neg", x), "softmax"
    if not rank:  # a scalar counts as a vector of one
        return node.reshaped(node.helper(op_name, node.reshaped(x, (1,)), axis=0), ())
    return node.make(op_name, x, axis=axis)


def _dropout(node: Call, _: str) -> Value:
    """Dropout is the identity in inference; F.dropout does drop unless training=False."""
    share = node.attr_float("p", 0.5)
    if node.attr_bool("training", not node.is_module) and share:
        raise node.unsupported("training=True", FOR_INFERENCE)
    return node.tensor_of()


READS = {
    "softplus": _softplus,
    "prelu": _prelu,
    "softmax": _softmax,
    "dropout": _dropout,
    "copy": lambda node, _: node.operand(),
}
