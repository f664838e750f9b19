"""Convolution and pooling: Conv, ConvTranspose, ConvInteger, the pools and LRN."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.dtypes import S32, S64
from ...graph_ir.ir.graph import GraphTensor
from ..op_builder import Value
from .scope import Handler, NodeContext


def _convolution(node: NodeContext) -> Value:
    x, w = node.tensor(0), node.tensor(1)
    result = node.make("convolution", x, w, **convolution_attrs(node, x, w))
    return _biased(node, result)


def _convolution_integer(node: NodeContext) -> Value:
    x, w = centered(node, 0, 2), centered(node, 1, 3)
    return node.make("convolution", x, w, **convolution_attrs(node, x, w))


def centered(node: NodeContext, index: int, zero_index: int) -> GraphTensor:
    """An 8-bit input as s32, its zero point taken off."""
    x = node.converted(node.tensor(index), S32)
    if not node.has(zero_index):
        return x
    zero = node.converted(node.tensor(zero_index), S32)
    if zero.details.elements > 1:  # one per output channel
        zero = node.reshaped(zero, (zero.details.elements,) + (1,) * (x.details.rank - 1))
    return node.helper("sub", x, zero)


def convolution_attrs(node: NodeContext, x: GraphTensor, w: GraphTensor) -> dict[str, Any]:
    """Strides, dilations, padding and groups of a node with weights `w`."""
    kernel = _kernel_of(node, x, w)
    attrs = _window(node, kernel, x.details.plain_dims[2:])
    return {**attrs, "groups": node.attr_int("group")}


def _kernel_of(node: NodeContext, x: GraphTensor, w: GraphTensor) -> tuple[int, ...]:
    """The spatial sizes of the weights."""
    if x.details.rank < 3 or w.details.rank != x.details.rank:
        raise node.rule(
            "X and W must have a common rank of 3 or more", f"{x.details} and {w.details}"
        )
    kernel = w.details.plain_dims[2:]
    given = node.attr_ints("kernel_shape")
    if given is not None and given != kernel:
        raise node.rule("kernel_shape must be that of W", f"{list(given)} and {w.details}")
    return kernel


def _biased(node: NodeContext, result: GraphTensor) -> GraphTensor:
    """Plus the bias, input 2, which has one element per channel."""
    if not node.has(2):
        return result
    channels = result.details.plain_dims[1]
    if node.details(2).plain_dims != (channels,):
        raise node.rule(f"the bias must have shape [{channels}]", str(node.details(2)))
    shape = (channels,) + (1,) * (result.details.rank - 2)
    return node.helper("add", result, node.reshaped(node.tensor(2), shape))


def _window(node: NodeContext, kernel: Sequence[int], sizes: Sequence[int]) -> dict[str, Any]:
    """strides, dilations, before and after; auto_pad resolved for an input of `sizes`."""
    count = len(kernel)
    strides, dilations = _listed(node, "strides", count, 1), _listed(node, "dilations", count, 1)
    before, after = _pads(node, count)
    mode = node.attr_text("auto_pad")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        _check_steps(node, strides, dilations)
        totals = [
            max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
            for n, s, k, d in zip(sizes, strides, kernel, dilations, strict=True)
        ]
        before, after = _halves(totals, more_behind=mode == "SAME_UPPER")
    elif mode == "VALID":
        before = after = (0,) * count
    elif mode != "NOTSET":
        raise node.rule("auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER", f"'{mode}'")
    return {"strides": strides, "dilations": dilations, "before": before, "after": after}


def _pads(node: NodeContext, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    pads = _listed(node, "pads", 2 * count, 0)
    return pads[:count], pads[count:]


def _check_steps(node: NodeContext, strides: Sequence[int], dilations: Sequence[int]) -> None:
    if min((*strides, *dilations), default=1) < 1:
        raise node.rule(
            "strides and dilations must be 1 or more", f"{list(strides)} and {list(dilations)}"
        )


def _halves(totals: Sequence[int], more_behind: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding split in two, the odd element behind or before."""
    less, more = tuple(p // 2 for p in totals), tuple(p - p // 2 for p in totals)
    return (less, more) if more_behind else (more, less)


def _listed(node: NodeContext, name: str, count: int, default: int) -> tuple[int, ...]:
    given = node.attr_ints(name)
    if not given:
        return (default,) * count
    if len(given) != count:
        raise node.rule(f"{name} must have {count} entries", str(list(given)))
    return given


def _convolution_transpose(node: NodeContext) -> Value:
    x, w = node.tensor(0), node.tensor(1)
    kernel, sizes = _kernel_of(node, x, w), x.details.plain_dims[2:]
    count = len(kernel)
    strides, dilations = _listed(node, "strides", count, 1), _listed(node, "dilations", count, 1)
    extra = _listed(node, "output_padding", count, 0)
    mode = node.attr_text("auto_pad")
    wanted = node.attr_ints("output_shape")
    if wanted is None and mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = tuple(n * s for n, s in zip(sizes, strides, strict=True))
    if wanted is None:
        before, after = _pads(node, count)
    else:
        if len(wanted) not in (count, count + 2):
            raise node.rule(f"output_shape must have {count} entries", str(list(wanted)))
        totals = [
            s * (n - 1) + e + (k - 1) * d + 1 - y
            for s, n, e, k, d, y in zip(
                strides, sizes, extra, kernel, dilations, wanted[-count:], strict=True
            )
        ]
        # What cannot be reached without padding less than nothing is added behind.
        extra = tuple(e + max(-p, 0) for e, p in zip(extra, totals, strict=True))
        before, after = _halves([max(p, 0) for p in totals], more_behind=mode == "SAME_UPPER")
    attrs = {
        "strides": strides,
        "dilations": dilations,
        "before": before,
        "after": after,
        "output_padding": extra,
        "groups": node.attr_int("group"),
    }
    return _biased(node, node.make("convolution_transpose", x, w, **attrs))


def _pool(op_name: str) -> Handler:
    def handler(node: NodeContext) -> Value | list[Value]:
        x = node.tensor(0)
        kernel = node.attr_ints("kernel_shape")
        if kernel is None or len(kernel) != x.details.rank - 2:
            raise node.rule(
                "kernel_shape must have one entry per spatial axis", f"{kernel} for {x.details}"
            )
        attrs = {"kernel": kernel, **_window(node, kernel, x.details.plain_dims[2:])}
        attrs["ceil_mode"] = bool(node.attr_int("ceil_mode"))
        if op_name == "avg_pool":
            attrs["count_include_pad"] = bool(node.attr_int("count_include_pad"))
        if op_name == "lp_pool":
            attrs["p"] = node.attr_int("p")
        result = node.make(op_name, x, **attrs)
        if op_name == "max_pool" and node.wants(1):
            return [result, _places(node, x, attrs)]
        return result

    return handler


def _places(node: NodeContext, x: GraphTensor, attrs: dict[str, Any]) -> GraphTensor:
    """Where the largest elements are in the whole of x: the image counts, and, with storage_order, its columns."""
    batch, channels, *sizes = x.details.plain_dims
    places = node.helper("max_pool_indices", x, **attrs)
    if node.attr_int("storage_order"):
        if len(sizes) != 2:
            raise node.unsupported("storage_order=1 of an image that is not a plane")
        height, width = (node.constant(size, S64) for size in sizes)
        row = node.helper("div", places, width)
        column = node.helper("mod", places, width)
        places = node.helper("add", node.helper("mul", column, height), row)
    images = np.arange(batch * channels).reshape(batch, channels, *(1,) * len(sizes))
    return node.helper("add", places, node.constant(images * math.prod(sizes), S64))


def _global_pool(op_name: str) -> Handler:
    def handler(node: NodeContext) -> Value:
        x = node.tensor(0)
        if x.details.rank < 3:
            raise node.rule("the input must have spatial axes", str(x.details))
        attrs = {"axes": tuple(range(2, x.details.rank)), "keep_dims": True}
        if op_name != "lp":
            return node.make(op_name, x, **attrs)
        p, dtype = node.attr_int("p"), x.details.dtype
        if p in (1, 2):
            return node.make(f"reduce_l{p}", x, **attrs)
        powers = node.helper("pow", node.helper("abs", x), node.constant(p, dtype))
        total = node.helper("reduce_sum", powers, **attrs)
        return node.make("pow", total, node.constant(1 / p, dtype))

    return handler


def _lrn(node: NodeContext) -> Value:
    attrs = {
        "size": node.attr_int("size"),
        "alpha": node.attr_float("alpha"),
        "beta": node.attr_float("beta"),
        "k": node.attr_float("bias"),
    }
    return node.make("lrn", node.tensor(0), **attrs)


HANDLERS: dict[str, Handler] = {
    "Conv": _convolution,
    "ConvInteger": _convolution_integer,
    "ConvTranspose": _convolution_transpose,
    "MaxPool": _pool("max_pool"),
    "AveragePool": _pool("avg_pool"),
    "LpPool": _pool("lp_pool"),
    "GlobalMaxPool": _global_pool("reduce_max"),
    "GlobalAveragePool": _global_pool("reduce_mean"),
    "GlobalLpPool": _global_pool("lp"),
    "LRN": _lrn,
}
