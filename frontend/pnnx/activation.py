"""Writes activations and elementwise ops that rows of the table cannot express."""

from __future__ import annotations

import math
from typing import Any

from ...base.dtypes import BOOL
from ...graph_ir.ir.graph import Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ...graph_ir.ops.activation import clamp_limits
from ..correspondence.writing import InexpressibleError
from .export import Exporter


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
    """Write the operator of the matmul that absorbs this bias, or else an expression."""
    producer = op.inputs[0].producer_owner
    if id(producer) in e.biases:
        return e.writers[producer.op_name](e, producer)
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


WRITES = {
    "prelu": _write_prelu, "copy": Exporter.call, "add": _write_add, "div": _write_div, "clamp": _write_clamp,
    # Of floats, zeros of torch.remainder have the sign of x.
    "remainder": lambda e, op, _: e.expression(op, "fmod" if op.attr("sign") == "trunc" else "remainder"),
}  # fmt: skip
