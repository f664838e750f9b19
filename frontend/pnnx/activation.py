"""Activation functions, as modules (nn.*) and as functions (F.*)."""

from __future__ import annotations

import math
from typing import Any

from ...base.dtypes import F64
from ...graph_ir.ir.graph import Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..correspondence.reading import Pair
from ..correspondence.writing import InexpressibleError
from .export import Exporter
from .scope import Handler, Node, Value

SOFTPLUS_THRESHOLD = 20.0
"""PyTorch's default threshold: above it softplus(x) is x, which equals log(1 + exp(x)) in f32."""

RRELU_BOUNDS = (1 / 8, 1 / 3)


def _rrelu(node: Node) -> Value:
    if node.attr_bool("training", False):
        raise node.unsupported("training=True")
    low, high = (
        node.attr_float(n, d) for n, d in zip(("lower", "upper"), RRELU_BOUNDS, strict=True)
    )
    return node.make("leaky_relu", node.tensor_of(), alpha=(low + high) / 2)


def _softplus(node: Node, _: str) -> Value:
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


def _prelu(node: Node, _: str) -> Value:
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


def softmax_axis(node: Node, rank: int) -> int:
    """The dim of a softmax; without one it is 0 for tensors of rank 0, 1 and 3, else 1."""
    if node.given("dim"):
        return node.axis(node.attr_int("dim"), rank)
    return 0 if rank in (0, 1, 3) else 1


def _softmax(node: Node, op_name: str, negate: bool = False) -> Value:
    x = node.tensor_of()
    wanted = node.dtype()
    x = x if wanted is None else node.converted(x, wanted)
    x = node.helper("neg", x) if negate else x
    axis = softmax_axis(node, x.details.rank)
    if not x.details.rank:  # a scalar counts as a vector of one
        return node.reshaped(node.helper(op_name, node.reshaped(x, (1,)), axis=0), ())
    return node.make(op_name, x, axis=axis)


def _softmin(node: Node) -> Value:
    return _softmax(node, "softmax", negate=True)


def _softmax_2d(node: Node) -> Value:
    x = node.tensor_of()
    if x.details.rank not in (3, 4):
        raise node.rule("the input must have 3 or 4 axes", str(x.details))
    return node.make("softmax", x, axis=x.details.rank - 3)


def _dropout(node: Node) -> Value:
    """Dropout is the identity in inference; F.dropout does drop unless training=False."""
    is_function = not node.type.startswith("nn.")
    share = node.attr_float("p", 0.5)
    if is_function and node.attr_bool("training", True) and share:
        raise node.unsupported("training=True")
    return node.tensor_of()


def _write_prelu(e: Exporter, op: Op, _: str) -> str:
    """F.prelu takes a vector of slopes, one for all or one per channel of axis 1."""
    x, slope = op.inputs
    dims, shape = x.details.plain_dims, slope.details.plain_dims
    count = math.prod(shape)
    channels = dims[1] if len(dims) > 1 else 1
    # A vector lines up with axis 1 only of a matrix; else there must be an axis of size 1 for each later one.
    aligned = count == 1 or (
        len(shape) == len(dims) - 1 and shape[0] == channels and math.prod(shape[1:]) == 1
    )
    if len(shape) > max(len(dims) - 1, 1) or not aligned or not x.details.dtype.is_float:
        raise InexpressibleError(f"prelu of {x.details} with slope {slope.details}")
    vector = LogicalTensor(slope.details.dtype, (count,))
    if id(slope.producer_owner) in e.absorbed:
        (slope,) = slope.producer_owner.inputs
        shape = slope.details.plain_dims
    operand = e.operand(slope)
    if shape != (count,):
        operand = e.append(
            "Tensor.reshape", f"{op.name}.slope", [operand], vector, {"shape": (count,)}
        )
    keys = ("input", "weight")
    return e.append("F.prelu", op.name, [e.operand(x), operand], op.outputs[0].details, keys=keys)


def _write_softplus(e: Exporter, op: Op, type_name: str) -> Any:
    return e.call(op, type_name)


PAIRS = {
    "softplus": Pair(_softplus, _write_softplus),
    "prelu": Pair(_prelu, _write_prelu),
    "softmax": Pair(_softmax),
}
"""Functions that read and write cells a row cannot express, by the name after `by`."""

_DROPOUTS = (
    "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout",
)  # fmt: skip

HANDLERS: dict[str, Handler] = {
    "nn.RReLU": Handler(_rrelu), "F.rrelu": Handler(_rrelu),
    "nn.Softmin": Handler(_softmin), "F.softmin": Handler(_softmin),
    "nn.Softmax2d": Handler(_softmax_2d),
    **{f"nn.{name}": Handler(_dropout) for name in _DROPOUTS},
    **{f"F.{name}": Handler(_dropout) for name in (
        "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")},
}  # fmt: skip
"""Operators of this family without an op of their own in the Graph IR."""
