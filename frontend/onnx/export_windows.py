"""Convolutions, pools and LRN as ONNX nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...graph_ir.ir.graph import Op
from .export import Exporter, reshape_attrs


def _window_attrs(op: Op) -> dict[str, Any]:
    """Strides, dilations and pads of the spatial axes."""
    return {
        "strides": op.attr("strides"),
        "dilations": op.attr("dilations"),
        "pads": (*op.attr("before"), *op.attr("after")),
    }


def write_convolution(e: Exporter, op: Op, op_type: str) -> None:
    """Conv, ConvInteger and ConvTranspose."""
    kernel = op.inputs[1].details.plain_dims[2:]
    attrs = {"kernel_shape": kernel, **_window_attrs(op)}
    if op.op_name == "convolution_transpose" and any(op.attr("output_padding")):
        attrs["output_padding"] = op.attr("output_padding")
    if op.op_name == "convolution" and op.attr("dtype") is not None:
        op_type = "ConvInteger"
    e.node(op, op_type, e.values(op), group=op.attr("groups"), **attrs)


def write_pool(e: Exporter, op: Op, op_type: str) -> None:
    """An ONNX pool slides over all axes but the first two: other axes are merged into these before, and split after."""
    attrs = e.row_attributes(op) | _window_attrs(op)
    if len(op.inputs[0].details.plain_dims) == len(attrs["kernel_shape"]) + 2:
        e.node(op, op_type, e.values(op), **attrs)
    else:
        joined = e.part(op, op_type, [_joined(e, op, e.values(op)[0])], **attrs)
        _reshape_to_result(e, op, joined)


def _reshape_to_result(e: Exporter, op: Op, x: str) -> None:
    dims = op.outputs[0].details.plain_dims
    e.node(op, "Reshape", [x, _shape(e, op, dims)], **reshape_attrs(dims))


def _joined(e: Exporter, op: Op, x: str) -> str:
    """X with one image and all axes before the window's as its channels."""
    dims = op.inputs[0].details.plain_dims
    lead = len(dims) - len(op.attr("kernel"))
    joined = (1, math.prod(dims[:lead]), *dims[lead:])
    return e.part(op, "Reshape", [x, _shape(e, op, joined)], **reshape_attrs(joined))


def _shape(e: Exporter, op: Op, dims: Sequence[int]) -> str:
    return e.constant(op, "shape", np.array(dims, np.int64))


def write_min_pool(e: Exporter, op: Op, _: str) -> None:
    """min_pool as the maximum of elements in reversed order."""
    x = _joined(e, op, _reversed(e, op, *e.values(op)))
    pooled = e.part(
        op,
        "MaxPool",
        [x],
        kernel_shape=op.attr("kernel"),
        ceil_mode=int(op.attr("ceil_mode")),
        **_window_attrs(op),
    )
    smallest = _reversed(e, op, pooled)
    _reshape_to_result(e, op, smallest)


def _reversed(e: Exporter, op: Op, x: str) -> str:
    """-x of floats; -1 - x or the largest number less x of integers, of which the negative of the least is none."""
    dtype = op.inputs[0].details.dtype
    if dtype.is_float:
        return e.part(op, "Neg", [x])
    ends = sum(dtype.limits) if dtype.kind != "bool" else 0
    return e.part(op, "Sub", [e.constant(op, "ends", np.array(ends, dtype.numpy)), x])
