"""Convolutions, pools and resize as GE nodes, channels first. A window over one axis is written as one over two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...graph_ir.ir.graph import Op
from ...graph_ir.rewriting.values import constant_value
from ..correspondence.writing import InexpressibleError
from .document import Reference
from .dump_builder import DumpBuilder, Emit


def _planar(op: Op, count: int) -> dict[str, tuple[int, ...]]:
    """The window's attributes over the spatial axes; one axis gets a second of size 1 before it."""
    found = {}
    for key in ("strides", "dilations", "before", "after", "output_padding"):
        given = op.attr(key) if key in op.schema.attributes else (0,) * count
        found[key] = (
            ((1 if key in ("strides", "dilations") else 0), *given) if count == 1 else given
        )
    return found


def _pads(window: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(p for pair in zip(window["before"], window["after"], strict=True) for p in pair)


def _with_plane(dims: Sequence[int]) -> tuple[int, ...]:
    """[N, C, W] as [N, C, 1, W]; other images stay."""
    return (*dims[:2], 1, *dims[2:]) if len(dims) == 3 else tuple(dims)


def _image(builder: DumpBuilder, op: Op, index: int, dims: Sequence[int]) -> Reference:
    """Input `index` with the sizes `dims`."""
    x = builder.references[op.inputs[index]]
    if op.inputs[index].details.plain_dims == tuple(dims):
        return x
    return builder.part(op, "Reshape", builder.shaped(op, x, dims))


def _finish(
    builder: DumpBuilder,
    op: Op,
    type_name: str,
    inputs: dict[str, Reference],
    flat: bool,
    **attrs: Any,
) -> None:
    """The main node, followed by a reshape to the op's own sizes if the image was reshaped."""
    if flat:
        y = builder.part(op, type_name, inputs, **attrs)
        builder.whole(op, "Reshape", builder.shaped(op, y, op.outputs[0].details.plain_dims))
    else:
        builder.whole(op, type_name, inputs, **attrs)


def _convolution(builder: DumpBuilder, op: Op) -> None:
    x, w = (i.details.plain_dims for i in op.inputs[:2])
    volume, transposed = len(x) == 5, op.op_name == "convolution_transpose"
    if len(x) not in (3, 4, 5) or (volume and transposed):
        raise InexpressibleError(f"{len(x) - 2} spatial axes")
    window = _planar(op, len(x) - 2)
    inputs = {
        "x": _image(builder, op, 0, _with_plane(x)),
        "filter": _image(builder, op, 1, _with_plane(w)),
    }
    attrs: dict[str, Any] = {key: (1, 1, *window[key]) for key in ("strides", "dilations")}
    attrs |= {
        "pads": _pads(window),
        "groups": op.attr("groups"),
        "data_format": "NCDHW" if volume else "NCHW",
    }
    if transposed:
        attrs["output_padding"] = (0, 0, *window["output_padding"])
        zeros = builder.const(np.zeros(4, np.int64), op, "input_size")
        inputs = {"input_size": zeros, **inputs}
    name = "Conv2DTranspose" if transposed else "Conv3D" if volume else "Conv2D"
    _finish(builder, op, name, inputs, len(x) == 3, **attrs)


def _pool(builder: DumpBuilder, op: Op) -> None:
    """Axes before those of the window are joined to channels."""
    dims = op.inputs[0].details.plain_dims
    kernel = tuple(int(k) for k in op.attr("kernel"))
    window = _planar(op, len(kernel))
    if len(kernel) > 2:
        raise InexpressibleError(f"a window over {len(kernel)} axes")
    if any(d != 1 for d in window["dilations"]):
        raise InexpressibleError("dilations")
    lead = len(dims) - len(kernel)
    flat = lead != 2 or len(kernel) == 1
    plane = (1,) * (2 - len(kernel))
    image = (1, math.prod(dims[:lead]), *plane, *dims[lead:]) if flat else dims
    attrs: dict[str, Any] = {
        "ksize": (1, 1, *plane, *kernel),
        "strides": (1, 1, *window["strides"]),
        "pads": _pads(window),
        "ceil_mode": op.attr("ceil_mode"),
    }
    name = "MaxPoolV3" if op.op_name == "max_pool" else "AvgPoolV2"
    if op.op_name == "avg_pool":
        attrs["exclusive"] = not op.attr("count_include_pad")
    if op.op_name == "sum_pool":
        attrs["divisor_override"] = 1
    _finish(builder, op, name, {"x": _image(builder, op, 0, image)}, flat, **attrs)


def write_resize(builder: DumpBuilder, op: Op, type_name: str) -> None:
    """Resize, by sizes."""
    inputs = {"x": builder.references[op.inputs[0]]}
    if op.attr("antialias"):
        raise InexpressibleError("antialias")
    if op.attr("scales") is not None:
        raise InexpressibleError("scales that are not the ratio of the sizes")
    if len(op.inputs) > 1:
        region = constant_value(op.inputs[1])
        if region is None:
            raise InexpressibleError("a region that only a run knows")
        inputs["roi"] = builder.const(region.astype(np.float32), op, "roi")
    inputs["sizes"] = builder.const(np.array(op.attr("shape"), np.int64), op, "sizes")
    builder.whole(op, type_name, inputs, **builder.row_attributes(op))


EXPORTERS: dict[str, Emit] = {
    "convolution": _convolution,
    "convolution_transpose": _convolution,
    "max_pool": _pool,
    "avg_pool": _pool,
    "sum_pool": _pool,
}
"""Writers by op name."""
