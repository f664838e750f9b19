"""Convolutions, pools and resampling as PNNX operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...graph_ir.ir.graph import GraphTensor, Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..correspondence.writing import InexpressibleError
from .export import Exporter
from .export_forms import ExportFunction, own_constant, value_of

_CONVOLUTIONS = ("convolution", "convolution_transpose")


def absorb_parts(exporter: Exporter) -> None:
    """nn.Conv owns its constants, and also covers the addition of a constant bias."""
    for op in exporter.graph.ops:
        if op.op_name not in _CONVOLUTIONS or not own_constant(
            op.inputs[1], op.inputs[1].details.rank
        ):
            continue
        exporter.absorbed.add(id(op.inputs[1].producer_owner))
        add = _bias_add(op)
        if add is not None:
            shaped = add.inputs[1].producer_owner
            vector = shaped.inputs[0].producer_owner
            exporter.absorbed.update((id(op), id(shaped), id(vector)))


def _bias_add(product: Op) -> Op | None:
    """The op that adds a constant vector, one element per channel, to a result without other consumers."""
    (y,) = product.outputs
    if len(y.uses) != 1:
        return None
    ((index, add),) = y.uses
    if add.op_name != "add" or index != 0:
        return None
    shaped = add.inputs[1].producer_owner
    channels = y.details.plain_dims[1]
    column = (channels, *(1,) * (y.details.rank - 2))
    fits = shaped.op_name == "reshape" and shaped.outputs[0].details.plain_dims == column
    if not fits or len(add.inputs[1].uses) != 1 or not own_constant(shaped.inputs[0], 1):
        return None
    return add


def is_bias_add(e: Exporter, op: Op) -> bool:
    """Whether an addition is part of the convolution before it."""
    product = op.inputs[0].producer_owner
    return product.op_name in _CONVOLUTIONS and id(product) in e.absorbed


def biased_convolution(e: Exporter, add: Op) -> str:
    """The convolution and its bias as one operator."""
    bias = add.inputs[1].producer_owner.inputs[0]
    return _convolution(e, add.inputs[0].producer_owner, bias)


def _convolution(e: Exporter, op: Op, bias: GraphTensor | None = None) -> str:
    """nn.Conv* if it owns its weights, else F.conv*; unequal borders are padded before by F.pad, or cropped after."""
    x, w = op.inputs
    is_transposed = op.op_name == "convolution_transpose"
    spatial = w.details.rank - 2
    if not 1 <= spatial <= 3:
        raise InexpressibleError(f"{op.op_name} over {spatial} axes")
    before, after = _borders(op, spatial)
    operand, result = e.operand(x), op.outputs[0].details
    padding = before
    if before != after and not is_transposed:
        operand = _padded(e, op, operand, x.details, before, after, 0.0)
        padding = (0,) * spatial
    elif before != after:
        padding = tuple(map(min, before, after))
    params: dict[str, Any] = {
        "stride": op.attr("strides"),
        "padding": padding,
        "dilation": op.attr("dilations"),
        "groups": op.attr("groups"),
    }
    cut_before, cut_after = (
        [n - p for n, p in zip(side, padding, strict=True)] for side in (before, after)
    )
    if is_transposed:
        params["output_padding"] = op.attr("output_padding")
        grown = [
            n + b + a for n, b, a in zip(result.plain_dims[2:], cut_before, cut_after, strict=True)
        ]
        whole = LogicalTensor(result.dtype, (*result.plain_dims[:2], *grown))
    else:
        whole = result
    y = _conv_operator(e, op, operand, whole, params, bias)
    if whole == result:
        return y
    pad = [
        -n for b, a in zip(reversed(cut_before), reversed(cut_after), strict=True) for n in (b, a)
    ]
    return e.append("F.pad", f"{op.name}.cut", [y], result, {"pad": pad, "mode": "constant"})


def _conv_operator(
    e: Exporter,
    op: Op,
    operand: str,
    result: LogicalTensor,
    params: dict[str, Any],
    bias: GraphTensor | None,
) -> str:
    _, w = op.inputs
    is_transposed = op.op_name == "convolution_transpose"
    outer, inner, *kernel = w.details.plain_dims
    if id(w.producer_owner) not in e.absorbed:
        name = f"F.conv{'_transpose' if is_transposed else ''}{len(kernel)}d"
        keys = ("input", "weight")
        return e.append(
            name, op.name, [operand, e.operand(w)], result, {**params, "bias": None}, keys
        )
    inner *= params["groups"]
    channels = (outer, inner) if is_transposed else (inner, outer)
    params = {
        **params,
        "bias": bias is not None,
        "in_channels": channels[0],
        "out_channels": channels[1],
        "kernel_size": tuple(kernel),
    }
    if not is_transposed:
        params["padding_mode"] = "zeros"
    weights = {} if bias is None else {"bias": value_of(bias)}
    weights["weight"] = value_of(w)
    name = f"nn.Conv{'Transpose' if is_transposed else ''}{len(kernel)}d"
    return e.append(name, op.name, [operand], result, params, weights=weights)


def _borders(op: Op, spatial: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    before, after = op.attr("before"), op.attr("after")
    return before, after


def _padded(
    e: Exporter,
    op: Op,
    operand: str,
    x: LogicalTensor,
    before: Sequence[int],
    after: Sequence[int],
    value: float,
) -> str:
    pairs = list(zip(before, after, strict=True))
    lead = x.plain_dims[: x.rank - len(pairs)]
    sizes = [n + b + a for n, (b, a) in zip(x.plain_dims[len(lead) :], pairs, strict=True)]
    params = {"pad": [n for pair in reversed(pairs) for n in pair], "mode": "constant"}
    result = LogicalTensor(x.dtype, (*lead, *sizes))
    return e.append("F.pad", f"{op.name}.pad", [operand], result, {**params, "value": value})


# Pools.


def _window(e: Exporter, op: Op, fill: float) -> tuple[str, dict[str, Any]]:
    """The image, with unequal or wide borders made of `fill`, and the parameters of its window."""
    x = op.inputs[0].details
    kernel = tuple(int(k) for k in op.attr("kernel"))
    spatial = len(kernel)
    if spatial > 3 or x.rank - spatial not in (1, 2) or not x.dtype.is_float:
        raise InexpressibleError(f"{op.op_name} of {x} over {spatial} axes")
    before, after = _borders(op, spatial)
    operand, padding = e.operand(op.inputs[0]), before
    ceil_mode = op.attr("ceil_mode")
    if before != after or any(2 * p > k for p, k in zip(padding, kernel, strict=True)):
        includes = op.op_name != "avg_pool" or op.attr("count_include_pad")
        # After the input, a last window may begin in elements added by F.pad, but not in padding.
        if (ceil_mode and any(after)) or not includes:
            raise InexpressibleError(f"{op.op_name} with borders {list(before)} and {list(after)}")
        operand = _padded(e, op, operand, x, before, after, fill)
        padding = (0,) * spatial
    return operand, {
        "kernel_size": kernel,
        "stride": op.attr("strides"),
        "padding": padding,
        "ceil_mode": ceil_mode,
    }


def _no_dilation(op: Op) -> None:
    if set(op.attr("dilations")) - {1}:
        raise InexpressibleError(f"{op.op_name} with dilations {list(op.attr('dilations'))}")


def _max_pool(e: Exporter, op: Op) -> str:
    """One operator returns the largest elements and their indices, if both are in the graph."""
    known = e.operands.get(id(op.outputs[0]))
    if known is not None:
        return known
    wants_places = op.op_name == "max_pool_indices"
    other = "max_pool" if wants_places else "max_pool_indices"
    twins = [
        user for _, user in op.inputs[0].uses if user.op_name == other and user.attrs == op.attrs
    ]
    values, places = (twins[:1], [op]) if wants_places else ([op], twins[:1])
    if (
        wants_places
        and _borders(op, len(op.attr("kernel")))[0] != _borders(op, len(op.attr("kernel")))[1]
    ):
        raise InexpressibleError("max_pool_indices with unequal borders")
    operand, params = _window(e, op, -math.inf)
    spatial = len(params["kernel_size"])
    params["dilation"] = op.attr("dilations")
    params["return_indices"] = bool(places)
    dims = op.outputs[0].details.plain_dims
    results = [LogicalTensor(op.inputs[0].details.dtype, dims)]
    results += [y.details for twin in places for y in twin.outputs]
    outputs = e.append_several(f"F.max_pool{spatial}d", op.name, [operand], results, params)
    for ops, name in ((values, outputs[0]), (places, outputs[-1])):
        e.operands.update((id(twin.outputs[0]), name) for twin in ops)
    return outputs[-1] if wants_places else outputs[0]


def _min_pool(e: Exporter, op: Op) -> str:
    """min_pool as the negated maximum of negated elements."""
    operand, params = _window(e, op, math.inf)
    x, y = op.inputs[0].details, op.outputs[0].details
    spatial = len(params["kernel_size"])
    dims = list(x.plain_dims)
    if params["padding"] != _borders(op, spatial)[0]:
        for i, (b, a) in enumerate(zip(*_borders(op, spatial), strict=True), x.rank - spatial):
            dims[i] += b + a
    params["dilation"] = op.attr("dilations")
    negative = LogicalTensor(x.dtype, tuple(dims))
    function = {"expr": "neg(@0)"}
    operand = e.append("pnnx.Expression", f"{op.name}.neg", [operand], negative, function)
    operand = e.append(f"F.max_pool{spatial}d", op.name, [operand], y, params)
    return e.append("pnnx.Expression", f"{op.name}.back", [operand], y, function)


def _avg_pool(is_sum: bool) -> ExportFunction:
    """A sum is written as a mean with divisor 1."""

    def export(e: Exporter, op: Op) -> str:
        _no_dilation(op)
        operand, params = _window(e, op, 0.0)
        params["count_include_pad"] = is_sum or op.attr("count_include_pad")
        params["divisor_override"] = 1 if is_sum else None
        spatial = len(params["kernel_size"])
        if is_sum and spatial == 1:
            raise InexpressibleError("sum_pool over one axis")  # F.avg_pool1d has no divisor
        y = op.outputs[0].details
        return e.append(f"F.avg_pool{spatial}d", op.name, [operand], y, params)

    return export


def _lp_pool(e: Exporter, op: Op) -> str:
    _no_dilation(op)
    p = op.p  # type: ignore[attr-defined]
    operand, params = _window(e, op, 0.0)
    if p % 2 or params["ceil_mode"]:
        raise InexpressibleError(f"lp_pool with p={p:g}, ceil_mode={params['ceil_mode']}")
    if any(params["padding"]):
        before, after = _borders(op, len(params["padding"]))
        operand = _padded(e, op, operand, op.inputs[0].details, before, after, 0.0)
    spatial = len(params.pop("padding"))
    y = op.outputs[0].details
    return e.append(f"F.lp_pool{spatial}d", op.name, [operand], y, {**params, "norm_type": p})


def _lrn(e: Exporter, op: Op) -> str:
    size, axis = op.attr("size"), op.axis  # type: ignore[attr-defined]
    if not size % 2 or axis != 1:
        raise InexpressibleError(f"lrn of {size} elements on axis {axis}")
    params = {name: op.attr(name) for name in ("alpha", "beta", "k")}
    return e.call(op, "F.local_response_norm", size=size, **params)


def _im2col(e: Exporter, op: Op) -> str:
    x, y = op.inputs[0].details, op.outputs[0].details
    kernel = tuple(op.attr("kernel"))
    before, after = _borders(op, len(kernel))
    if x.rank != 4 or len(kernel) != 2 or before != after or op.attr("ceil_mode"):
        raise InexpressibleError(
            f"im2col of {x} by {list(kernel)}, {list(before)} and {list(after)}"
        )
    params = {
        "kernel_size": kernel,
        "stride": op.attr("strides"),
        "padding": before,
        "dilation": op.attr("dilations"),
    }
    batch, channels, *rest = y.plain_dims
    flat = (batch, channels * math.prod(kernel), math.prod(rest[2:]))
    operand = e.append(
        "F.unfold", op.name, [e.operand(op.inputs[0])], LogicalTensor(y.dtype, flat), params
    )
    users = [user for _, user in op.outputs[0].uses]
    if len(users) == 1 and users[0].op_name == "reshape":
        (flattened,) = users[0].outputs
        if flattened.details.plain_dims == flat:  # F.unfold gives this very shape
            e.operands[id(flattened)] = operand
            e.absorbed.add(id(users[0]))
            return operand
    shape = {"shape": y.plain_dims}
    return e.append("Tensor.reshape", f"{op.name}.reshape", [operand], y, shape)


# Resampling.

_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def _resize(e: Exporter, op: Op) -> str:
    x, y = op.inputs[0].details, op.outputs[0].details
    spatial = x.rank - 2
    mode = op.attr("mode")
    coordinates = op.attr("coordinates")
    name = _mode_name(op, mode, coordinates, spatial)
    if name is None or x.plain_dims[:2] != y.plain_dims[:2] or op.attr("extrapolation"):
        raise InexpressibleError(f"resize of {x} to {list(y.plain_dims)}, {mode}, {coordinates}")
    params: dict[str, Any] = {"mode": name}
    scales = op.attr("scales")
    if scales is not None and coordinates != "align_corners":
        floor = [math.floor(n * s) for n, s in zip(x.plain_dims, scales, strict=True)]
        if tuple(floor) != y.plain_dims or tuple(scales[:2]) != (1, 1):
            raise InexpressibleError(f"resize by {list(scales)} to {list(y.plain_dims)}")
        params["scale_factor"] = [float(s) for s in scales[2:]]
    else:
        params["size"] = y.plain_dims[2:]
    if mode != "nearest":
        params["align_corners"] = coordinates == "align_corners"
    if op.attr("antialias"):
        params["antialias"] = True
    return e.call(op, "F.interpolate", **params)


def _mode_name(op: Op, mode: str, coordinates: str, spatial: int) -> str | None:
    """PyTorch's name of a resampling mode; None if it has none."""
    if mode == "nearest":
        rounding = op.attr("nearest_mode")
        return {
            ("asymmetric", "floor"): "nearest",
            ("half_pixel", "round_prefer_ceil"): "nearest-exact",
        }.get((coordinates, rounding))
    filtered = op.attr("antialias")
    coefficient = op.attr("cubic_coeff")
    if coordinates not in ("half_pixel", "align_corners"):
        return None
    if filtered != op.attr("exclude_outside"):
        return None
    if mode == "linear":
        return _LINEAR.get(spatial) if spatial == 2 or not filtered else None
    return "bicubic" if spatial == 2 and coefficient == (-0.5 if filtered else -0.75) else None


EXPORTERS: dict[str, ExportFunction] = {
    "convolution": _convolution,
    "convolution_transpose": _convolution,
    "max_pool": _max_pool,
    "max_pool_indices": _max_pool,
    "min_pool": _min_pool,
    "avg_pool": _avg_pool(is_sum=False),
    "sum_pool": _avg_pool(is_sum=True),
    "lp_pool": _lp_pool,
    "lrn": _lrn,
    "im2col": _im2col,
    "resize": _resize,
}
"""Writers by op name."""
