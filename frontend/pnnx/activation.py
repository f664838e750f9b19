"""Reads and writes activations and elementwise operators that rows of the table cannot express."""

from __future__ import annotations

import math
from typing import Any

from ...base.dtypes import BOOL, F64
from ...graph_ir.ir.graph import Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ...graph_ir.ops.activation import clamp_limits
from ..correspondence.reading import Pair
from ..correspondence.writing import InexpressibleError
from .arithmetic import read_clamp, read_div
from .export import Exporter
from .scope import Node, Value

SOFTPLUS_THRESHOLD = 20.0
"""PyTorch's default threshold: above it softplus(x) is x, which equals log(1 + exp(x)) in f32."""


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


def _softmax(node: Node, op_name: str) -> Value:
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


def _dropout(node: Node, _: str) -> Value:
    """Dropout is the identity in inference; F.dropout does drop unless training=False."""
    share = node.attr_float("p", 0.5)
    if node.attr_bool("training", not node.is_module) and share:
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


def _write_add(e: Exporter, op: Op, _: str) -> Any:
    """The operator of a product whose bias it is, else an expression."""
    product = op.inputs[0].producer_owner
    if id(product) in e.biases:
        return e.writers[product.op_name](e, product)
    return e.expression(op, "or" if op.inputs[0].details.dtype == BOOL else "add")


def _write_div(e: Exporter, op: Op, _: str) -> str:
    if op.inputs[0].details.dtype.is_float:
        return e.expression(op, "div")
    if op.attr("rounding") == "floor":
        return e.expression(op, "floor_divide")
    if id(op.inputs[0].producer_owner) in e.absorbed:
        raise InexpressibleError("div of a number, truncated")
    return e.call(op, "torch.div", "input", "other", rounding_mode="trunc")


def _write_clamp(e: Exporter, op: Op, _: str) -> str:
    limits = clamp_limits(op.inputs[0].details.dtype, op.attr("min"), op.attr("max"))
    if limits == (None, None):
        return e.call(op, "torch.clone")
    return e.call(op, "torch.clamp", min=limits[0], max=limits[1])


def _read_copy(node: Node, _: str) -> Value:
    return node.operand()


def _write_copy(e: Exporter, op: Op, type_name: str) -> Any:
    return e.call(op, type_name)


PAIRS = {
    "softplus": Pair(_softplus),
    "prelu": Pair(_prelu, _write_prelu),
    "softmax": Pair(_softmax),
    "dropout": Pair(_dropout),
    "copy": Pair(_read_copy, _write_copy),
    "add": Pair(None, _write_add),
    "div": Pair(read_div, _write_div),
    "clamp": Pair(read_clamp, _write_clamp),
}
"""Functions that read and write cells a row cannot express, by the name after `by`."""
