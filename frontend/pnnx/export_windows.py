"""Writes convolutions, pools, windows as columns and local response normalization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...graph_ir.ir.graph import Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..correspondence.writing import InexpressibleError
from .export import Exporter, value_of

Sides = tuple[Sequence[int], Sequence[int]]
"""Elements before and after each spatial axis."""


def _widths(sides: Sides) -> list[int]:
    """Return padding widths in the order of F.pad: before and after of the last axis, then of the one before it."""
    return [n for pair in reversed([*zip(*sides, strict=True)]) for n in pair]


def _grown(x: LogicalTensor, sides: Sides) -> tuple[int, ...]:
    """The sizes with borders on the last axes."""
    first = x.rank - len(sides[0])
    grown = [n + b + a for n, b, a in zip(x.plain_dims[first:], *sides, strict=True)]
    return (*x.plain_dims[:first], *grown)


def _padded(e: Exporter, op: Op, sides: Sides, value: float) -> str:
    """The op's image with a border."""
    x = op.inputs[0]
    params = {"pad": _widths(sides), "mode": "constant", "value": value}
    return e.part(op, "pad", "F.pad", [e.operand(x)], _grown(x.details, sides), params)


# Convolutions.


def write_convolution(e: Exporter, op: Op, _: str) -> str:
    """nn.Conv* if it owns its weights, else F.conv*; unequal borders are padded before by F.pad, or cropped after.

    The addition of a bias may be part of the operator.
    """
    is_transposed = op.op_name == "convolution_transpose"
    spatial = op.inputs[1].details.rank - 2
    if not 1 <= spatial <= 3:
        raise InexpressibleError(f"{op.op_name} over {spatial} axes")
    before, after = op.attr("before"), op.attr("after")
    common = tuple(map(min, before, after)) if is_transposed else (0,) * spatial
    operand, padding, result = e.operand(op.inputs[0]), before, op.outputs[0].details
    if before != after:
        padding = common
        if not is_transposed:
            operand = _padded(e, op, (before, after), 0.0)
    params: dict[str, Any] = {
        "stride": op.attr("strides"),
        "padding": padding,
        "dilation": op.attr("dilations"),
        "groups": op.attr("groups"),
    }
    if not is_transposed:
        return _operator(e, op, operand, result, params)
    params["output_padding"] = op.attr("output_padding")
    cut = tuple([n - p for n, p in zip(side, padding, strict=True)] for side in (before, after))
    whole = LogicalTensor(result.dtype, _grown(result, (cut[0], cut[1])))
    y = _operator(e, op, operand, whole, params)
    if whole == result:
        return y
    pad = [-n for n in _widths((cut[0], cut[1]))]
    return e.part(op, "cut", "F.pad", [y], result.plain_dims, {"pad": pad, "mode": "constant"})


def _operator(
    e: Exporter, op: Op, operand: str, result: LogicalTensor, params: dict[str, Any]
) -> str:
    _, w = op.inputs
    is_transposed = op.op_name == "convolution_transpose"
    outer, inner, *kernel = w.details.plain_dims
    if id(w.producer_owner) not in e.absorbed:
        name = f"F.conv{'_transpose' if is_transposed else ''}{len(kernel)}d"
        operands, keys = [operand, e.operand(w)], ("input", "weight")
        return e.append(name, op.name, operands, result, {**params, "bias": None}, keys)
    bias = e.biases.get(id(op))
    inner *= params["groups"]
    params |= {"bias": bias is not None, "kernel_size": tuple(kernel)}
    names = ("in_channels", "out_channels") if is_transposed else ("out_channels", "in_channels")
    params |= dict(zip(names, (outer, inner), strict=True))
    if not is_transposed:
        params["padding_mode"] = "zeros"
    weights = {} if bias is None else {"bias": value_of(bias)}
    weights["weight"] = value_of(w)
    name = f"nn.Conv{'Transpose' if is_transposed else ''}{len(kernel)}d"
    return e.append(name, op.name, [operand], result, params, weights=weights)


# Pools.


def _window(e: Exporter, op: Op, fill: float) -> tuple[str, dict[str, Any], tuple[int, ...]]:
    """The image, with unequal or wide borders made of `fill`, the parameters of its window, and its sizes."""
    x = op.inputs[0].details
    kernel = tuple(int(k) for k in op.attr("kernel"))
    spatial, ceil_mode = len(kernel), op.attr("ceil_mode")
    if spatial > 3 or x.rank - spatial not in (1, 2) or not x.dtype.is_float:
        raise InexpressibleError(f"{op.op_name} of {x} over {spatial} axes")
    before, after = op.attr("before"), op.attr("after")
    params = {"kernel_size": kernel, "stride": op.attr("strides"), "padding": before}
    params["ceil_mode"] = ceil_mode
    if before == after and all(2 * p <= k for p, k in zip(before, kernel, strict=True)):
        return e.operand(op.inputs[0]), params, x.plain_dims
    includes = op.op_name != "avg_pool" or op.attr("count_include_pad")
    # After the input, a last window may begin in elements added by F.pad, but not in padding.
    if (ceil_mode and any(after)) or not includes:
        raise InexpressibleError(f"{op.op_name} with borders {list(before)} and {list(after)}")
    sides = (before, after)
    params["padding"] = (0,) * spatial
    return _padded(e, op, sides, fill), params, _grown(x, sides)


def write_pool(e: Exporter, op: Op, type_name: str) -> str:
    """`type_name` is that for one axis. A sum is written as a mean with divisor 1."""
    if op.op_name in ("max_pool", "max_pool_indices"):
        return _write_max_pool(e, op, type_name)
    if set(op.attr("dilations")) - {1}:
        raise InexpressibleError(f"{op.op_name} with dilations {list(op.attr('dilations'))}")
    operand, params, _ = _window(e, op, 0.0)
    spatial = len(params["kernel_size"])
    if op.op_name == "lp_pool":
        p = op.attr("p")
        if p % 2 or params["ceil_mode"]:
            raise InexpressibleError(f"lp_pool with p={p:g}, ceil_mode={params['ceil_mode']}")
        if any(params.pop("padding")):
            operand = _padded(e, op, (op.attr("before"), op.attr("after")), 0.0)
        params["norm_type"] = p
    else:
        is_sum = op.op_name == "sum_pool"
        if is_sum and spatial == 1:
            raise InexpressibleError("sum_pool over one axis")  # F.avg_pool1d has no divisor
        params["count_include_pad"] = is_sum or op.attr("count_include_pad")
        params["divisor_override"] = 1 if is_sum else None
    return e.append(
        _for_axes(type_name, spatial), op.name, [operand], op.outputs[0].details, params
    )


def _for_axes(type_name: str, spatial: int) -> str:
    """F.max_pool1d as F.max_pool2d."""
    return f"{type_name[:-2]}{spatial}d"


def _write_max_pool(e: Exporter, op: Op, type_name: str) -> str:
    """One operator returns the largest elements and their indices, if both are in the graph."""
    known = e.operands.get(id(op.outputs[0]))
    if known is not None:
        return known
    wants_indices = op.op_name == "max_pool_indices"
    other = "max_pool" if wants_indices else "max_pool_indices"
    twins = [
        user for _, user in op.inputs[0].uses if user.op_name == other and user.attrs == op.attrs
    ]
    values, indices = (twins[:1], [op]) if wants_indices else ([op], twins[:1])
    operand, params, _ = _window(e, op, -math.inf)
    if indices and operand != e.operand(op.inputs[0]):  # indices would be those of the padded image
        borders = f"{list(op.attr('before'))} and {list(op.attr('after'))}"
        raise InexpressibleError(f"max_pool_indices with borders {borders}")
    params |= {"dilation": op.attr("dilations"), "return_indices": bool(indices)}
    results = [LogicalTensor(op.inputs[0].details.dtype, op.outputs[0].details.plain_dims)]
    results += [y.details for twin in indices for y in twin.outputs]
    name = _for_axes(type_name, len(params["kernel_size"]))
    outputs = e.append_several(name, op.name, [operand], results, params)
    for ops, output in ((values, outputs[0]), (indices, outputs[-1])):
        e.operands.update((id(twin.outputs[0]), output) for twin in ops)
    return outputs[-1] if wants_indices else outputs[0]


def write_min_pool(e: Exporter, op: Op, _: str) -> str:
    """The negated maximum of negated elements."""
    operand, params, dims = _window(e, op, math.inf)
    params["dilation"] = op.attr("dilations")
    y, negated = op.outputs[0].details, {"expr": "neg(@0)"}
    operand = e.part(op, "neg", "pnnx.Expression", [operand], dims, negated)
    name = f"F.max_pool{len(params['kernel_size'])}d"
    operand = e.append(name, op.name, [operand], y, params)
    return e.part(op, "back", "pnnx.Expression", [operand], y.plain_dims, negated)


def write_lrn(e: Exporter, op: Op, type_name: str) -> Any:
    """A window of an odd size over the channels."""
    size, axis = op.attr("size"), op.attr("axis")
    if not size % 2 or axis != 1:
        raise InexpressibleError(f"lrn of {size} elements on axis {axis}")
    params = {name: op.attr(name) for name in ("size", "alpha", "beta", "k")}
    return e.call(op, type_name, **params)


def write_im2col(e: Exporter, op: Op, type_name: str) -> str:
    """F.unfold joins channels and kernel, and all windows."""
    x, y = op.inputs[0].details, op.outputs[0].details
    kernel, before, after = tuple(op.attr("kernel")), op.attr("before"), op.attr("after")
    if x.rank != 4 or len(kernel) != 2 or before != after or op.attr("ceil_mode"):
        raise InexpressibleError(
            f"im2col of {x} by {list(kernel)}, {list(before)} and {list(after)}"
        )
    params = {"kernel_size": kernel, "padding": before}
    params |= {"stride": op.attr("strides"), "dilation": op.attr("dilations")}
    batch, channels, *rest = y.plain_dims
    flat = (batch, channels * math.prod(kernel), math.prod(rest[2:]))
    operand = e.append(
        type_name, op.name, [e.operand(op.inputs[0])], LogicalTensor(y.dtype, flat), params
    )
    users = [user for _, user in op.outputs[0].uses]
    if len(users) == 1 and users[0].op_name == "reshape":
        (flattened,) = users[0].outputs
        if flattened.details.plain_dims == flat:  # F.unfold gives this very shape
            e.operands[id(flattened)] = operand
            e.absorbed.add(id(users[0]))
            return operand
    shape = {"shape": y.plain_dims}
    return e.part(op, "reshape", "Tensor.reshape", [operand], y.plain_dims, shape)


WRITES = {
    "convolution": write_convolution,
    "im2col": write_im2col,
    "pool": write_pool,
    "min_pool": write_min_pool,
    "lrn": write_lrn,
}
