"""Convolution and pooling: Conv, ConvTranspose, ConvInteger, the pools and LRN."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...base.dtypes import S32
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.indexing import dynamic_size, positions
from ..correspondence.compositions.windows import (
    biased,
    halved,
    same_padding,
    transposed_padding,
    windowed,
)
from ..correspondence.reading import Pair
from ..op_builder import Value
from .export_windows import write_convolution, write_min_pool, write_pool
from .scope import Handler, NodeContext


def read_convolution(node: NodeContext, op_name: str) -> GraphTensor:
    """A convolution and its bias."""
    x, w = node.tensor(0), node.tensor(1)
    attributes = convolution_attrs if op_name == "convolution" else _transpose_attrs
    result = windowed(node, op_name, x, w, **attributes(node, x, w))
    return biased(node, result, node.tensor(2) if node.has(2) else None)


def _convolution_integer(node: NodeContext) -> Value:
    x, w = centered(node, 0, 2), centered(node, 1, 3)
    return windowed(node, "convolution", x, w, **convolution_attrs(node, x, w))


def centered(node: NodeContext, index: int, zero_index: int) -> GraphTensor:
    """An 8-bit input as s32, minus its zero point."""
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
    given = node.attr_ints("kernel_shape", None)
    if given is not None and given != kernel:
        raise node.rule("kernel_shape must be that of W", f"{list(given)} and {w.details}")
    return kernel


def _window(node: NodeContext, kernel: Sequence[int], sizes: Sequence[int]) -> dict[str, Any]:
    """strides, dilations, before and after; auto_pad resolved for an input of `sizes`."""
    count = len(kernel)
    strides, dilations = _listed(node, "strides", count, 1), _listed(node, "dilations", count, 1)
    before, after = _pads(node, count)
    mode = node.attr_text("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        _check_steps(node, strides, dilations)
        before, after = same_padding(sizes, kernel, strides, dilations, mode == "SAME_LOWER")
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


def _listed(node: NodeContext, name: str, count: int, default: int) -> tuple[int, ...]:
    given = node.attr_ints(name, None)
    if not given:
        return (default,) * count
    if len(given) != count:
        raise node.rule(f"{name} must have {count} entries", str(list(given)))
    return given


def _transpose_attrs(node: NodeContext, x: GraphTensor, w: GraphTensor) -> dict[str, Any]:
    kernel, sizes = _kernel_of(node, x, w), x.details.plain_dims[2:]
    count = len(kernel)
    strides, dilations = _listed(node, "strides", count, 1), _listed(node, "dilations", count, 1)
    extra = _listed(node, "output_padding", count, 0)
    mode = node.attr_text("auto_pad")
    wanted = node.attr_ints("output_shape", None)
    if wanted is None and mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = tuple(n * s for n, s in zip(sizes, strides, strict=True))
    if wanted is None:
        before, after = _pads(node, count)
    else:
        if len(wanted) not in (count, count + 2):
            raise node.rule(f"output_shape must have {count} entries", str(list(wanted)))
        totals = transposed_padding(sizes, kernel, strides, dilations, wanted[-count:])
        totals = [total + e for total, e in zip(totals, extra, strict=True)]
        # If the size would need negative padding, the difference is added after.
        extra = tuple(e + max(-p, 0) for e, p in zip(extra, totals, strict=True))
        before, after = halved([max(p, 0) for p in totals], is_lower=mode != "SAME_UPPER")
    pads = {"before": before, "after": after, "output_padding": extra}
    return {"strides": strides, "dilations": dilations, **pads, "groups": node.attr_int("group")}


def pool_attrs(node: NodeContext, x: GraphTensor, op_name: str) -> dict[str, Any]:
    """The attributes of a pool of `x`."""
    kernel = node.attr_ints("kernel_shape", None)
    if kernel is None or len(kernel) != x.details.rank - 2:
        rule = "kernel_shape must have one entry per spatial axis"
        raise node.rule(rule, f"{kernel} for {x.details}")
    attrs = {"kernel": kernel, **_window(node, kernel, x.details.plain_dims[2:])}
    attrs["ceil_mode"] = node.attr_bool("ceil_mode", False)
    if op_name == "avg_pool":
        attrs["count_include_pad"] = node.attr_bool("count_include_pad", False)
    if op_name == "lp_pool":
        attrs["p"] = node.attr_int("p")
    return attrs


def _read_pool(node: NodeContext, op_name: str) -> Value | list[Value]:
    x = node.tensor(0)
    attrs = pool_attrs(node, x, op_name)
    result = windowed(node, op_name, x, **attrs)
    if op_name == "max_pool" and node.wants(1):
        return [result, _indices(node, x, attrs)]
    return result


def _indices(node: NodeContext, x: GraphTensor, attrs: dict[str, Any]) -> GraphTensor:
    """Flat indices of the largest elements in all of x, including the image; column-major with storage_order."""
    batch, channels, *sizes = x.details.plain_dims
    indices = node.helper("max_pool_indices", x, **attrs)
    if node.attr_int("storage_order"):
        if len(sizes) != 2:
            raise node.unsupported("storage_order=1 of an image that is not a plane")
        height, width = (dynamic_size(node, size) for size in sizes)
        row = node.helper("div", indices, width)
        column = node.helper("mod", indices, width)
        indices = node.helper("add", node.helper("mul", column, height), row)
    images = positions(node, batch * channels, 0, 1)
    images = node.reshaped(images, (batch, channels, *(1,) * len(sizes)))
    first = node.helper("mul", images, dynamic_size(node, math.prod(sizes)))
    return node.helper("add", indices, first)


PAIRS = {
    "convolution": Pair(read_convolution, write_convolution),
    "pool": Pair(_read_pool, write_pool),
    "min_pool": Pair(None, write_min_pool),
}

HANDLERS: dict[str, Handler] = {"ConvInteger": _convolution_integer}
