"""Convolutions, pools, LRN and resize as ONNX nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from ...graph_ir.ir.graph import Op
from ...graph_ir.ops.window import ATTRS
from ..correspondence.writing import InexpressibleError
from .export import Exporter

Emit = Callable[[Exporter, Op], None]


def _window(op: Op, count: int) -> dict[str, Any]:
    """Strides, dilations and pads of `count` spatial axes."""
    defaults = {"strides": 1, "dilations": 1, "before": 0, "after": 0}
    given = {key: tuple(op.attrs.get(key) or (defaults[key],) * count) for key in ATTRS}
    return {
        "strides": given["strides"],
        "dilations": given["dilations"],
        "pads": (*given["before"], *given["after"]),
    }


def _convolution(op_type: str) -> Emit:
    def emit(e: Exporter, op: Op) -> None:
        kernel = op.inputs[1].details.plain_dims[2:]
        attrs = {"kernel_shape": kernel, **_window(op, len(kernel))}
        if any(op.attrs.get("output_padding") or ()):
            attrs["output_padding"] = tuple(op.attrs["output_padding"])
        e.node(op, op_type, e.values(op), group=int(op.attrs.get("groups", 1)), **attrs)

    return emit


def _pool(op_type: str) -> Emit:
    """A pool slides over all axes but the first two: others are joined to those before, and parted after."""

    def emit(e: Exporter, op: Op) -> None:
        attrs = _pool_attrs(op, op_type)
        if len(op.inputs[0].details.plain_dims) == len(attrs["kernel_shape"]) + 2:
            e.node(op, op_type, e.values(op), **attrs)
        else:
            joined = e.part(op, op_type, [_joined(e, op, e.values(op)[0])], **attrs)
            e.node(op, "Reshape", [joined, _shape(e, op, op.outputs[0].details.plain_dims)])

    return emit


def _pool_attrs(op: Op, op_type: str) -> dict[str, Any]:
    kernel = tuple(int(k) for k in op.attrs["kernel"])
    attrs: dict[str, Any] = {"kernel_shape": kernel, **_window(op, len(kernel))}
    attrs["ceil_mode"] = int(bool(op.attrs.get("ceil_mode", False)))
    if op_type == "AveragePool":
        attrs["count_include_pad"] = int(bool(op.attrs.get("count_include_pad", False)))
    if op_type == "LpPool":
        attrs["p"] = int(op.attrs.get("p", 2))
    return attrs


def _joined(e: Exporter, op: Op, x: str) -> str:
    """X with one image and all axes before the window's as its channels."""
    dims = op.inputs[0].details.plain_dims
    lead = len(dims) - len(op.attrs["kernel"])
    return e.part(op, "Reshape", [x, _shape(e, op, (1, math.prod(dims[:lead]), *dims[lead:]))])


def _shape(e: Exporter, op: Op, dims: Sequence[int]) -> str:
    return e.constant(op, "shape", np.array(dims, np.int64))


def _min_pool(e: Exporter, op: Op) -> None:
    """The largest of the negated elements; an unsigned element has no negative."""
    if op.inputs[0].details.dtype.kind == "uint":
        raise InexpressibleError(f"min_pool of {op.inputs[0].details.dtype}")
    x = _joined(e, op, e.part(op, "Neg", e.values(op)))
    pooled = e.part(op, "MaxPool", [x], **_pool_attrs(op, "MaxPool"))
    smallest = e.part(op, "Neg", [pooled])
    e.node(op, "Reshape", [smallest, _shape(e, op, op.outputs[0].details.plain_dims)])


def _lrn(e: Exporter, op: Op) -> None:
    lrn, attrs = cast(Any, op), op.attrs
    if lrn.axis != 1:
        raise InexpressibleError("lrn of another axis than 1")
    numbers = {
        "alpha": float(attrs.get("alpha", 1e-4)),
        "beta": float(attrs.get("beta", 0.75)),
        "bias": float(attrs.get("k", 1.0)),
    }
    e.node(op, "LRN", e.values(op), size=int(attrs["size"]), **numbers)


def _resize(e: Exporter, op: Op) -> None:
    attrs, dims = op.attrs, op.inputs[0].details.plain_dims
    shape, scales, roi = attrs["shape"], attrs.get("scales"), attrs.get("roi")
    inputs = [*e.values(op), "", "", ""]
    if roi is not None:
        inputs[1] = e.constant(op, "roi", np.array(roi, np.float32))
    if scales is None:
        inputs[3] = e.constant(op, "sizes", np.array(shape, np.int64))
    else:
        inputs[2] = e.constant(op, "scales", np.array(scales, np.float32))
        inputs.pop()
        floors = [
            np.floor(np.float32(n) * np.float32(s)) for n, s in zip(dims, scales, strict=True)
        ]
        if [int(n) for n in floors] != list(shape):
            raise InexpressibleError("resize to other sizes than its scales give")
    e.node(
        op,
        "Resize",
        inputs,
        mode=attrs.get("mode"),
        coordinate_transformation_mode=attrs.get("coordinates"),
        nearest_mode=attrs.get("nearest_mode"),
        cubic_coeff_a=attrs.get("cubic_coeff"),
        extrapolation_value=attrs.get("extrapolation"),
        exclude_outside=int(bool(attrs.get("exclude_outside", False))),
        antialias=int(bool(attrs.get("antialias", False))),
    )


EXPORTERS: dict[str, Emit] = {
    "convolution": _convolution("Conv"),
    "convolution_transpose": _convolution("ConvTranspose"),
    "max_pool": _pool("MaxPool"),
    "min_pool": _min_pool,
    "avg_pool": _pool("AveragePool"),
    "lp_pool": _pool("LpPool"),
    "lrn": _lrn,
    "resize": _resize,
}
