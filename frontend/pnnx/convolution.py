"""Convolutions and their transposes, and im2col and its adjoint (Unfold, Fold)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...graph_ir.ir.graph import GraphTensor
from .movement import padded
from .scope import Handler, Node, Value
from .windows import per_axis, with_batch


def _convolution(spatial: int) -> Handler:
    def run(node: Node) -> Value:
        x, w, bias = _operands(node)
        node_x, is_single = with_batch(node, x, spatial)
        kernel = _kernel(node, w, spatial)
        strides, dilations = (per_axis(node, n, spatial, 1) for n in ("stride", "dilation"))
        before, after = _padding(node, kernel, strides, dilations)
        mode = node.attr_text("padding_mode", "zeros")
        if mode != "zeros":  # the border is padded first, so no padding is left
            pairs = reversed(list(zip(before, after, strict=True)))
            node_x = padded(node.part(), node_x, [n for pair in pairs for n in pair], mode)
            before = after = (0,) * spatial
        attrs = {"strides": strides, "dilations": dilations, "before": before, "after": after}
        y = node.make("convolution", node_x, w, groups=node.attr_int("groups", 1), **attrs)
        _check_channels(node, w, ("out_channels", "in_channels"))
        return _finished(node, y, bias, is_single)

    return Handler(run, ("input", "weight", "bias"))


def _operands(node: Node) -> tuple[GraphTensor, GraphTensor, GraphTensor | None]:
    """Image, weights and bias, in the type of the image: attributes of a module, inputs of a function."""
    x = node.tensor_of()
    dtype = x.details.dtype
    if node.type.startswith("nn."):
        bias = node.weight("bias", dtype) if node.attr_bool("bias", True) else None
        return x, node.weight("weight", dtype), bias
    return x, node.tensor_of("weight", dtype), node.optional("bias", dtype)


def _kernel(node: Node, w: GraphTensor, spatial: int) -> tuple[int, ...]:
    """The spatial sizes of the weights, which the module repeats as a parameter."""
    kernel = w.details.plain_dims[2:]
    if w.details.rank != spatial + 2:
        raise node.rule(f"weight must have {spatial + 2} axes", str(w.details))
    given = per_axis(node, "kernel_size", spatial, None) if node.given("kernel_size") else kernel
    if given != kernel:
        raise node.rule("kernel_size must be that of weight", f"{list(given)} and {w.details}")
    return kernel


def _check_channels(node: Node, w: GraphTensor, names: tuple[str, str]) -> None:
    """Check a module's channel counts against its weights: `names` are the parameters for axes 0 and 1."""
    first, second = w.details.plain_dims[:2]
    wanted = (first, second * node.attr_int("groups", 1))
    given = tuple(node.attr_int(n, size) for n, size in zip(names, wanted, strict=True))
    if given != wanted:
        shown = " and ".join(f"{n}={size}" for n, size in zip(names, given, strict=True))
        raise node.rule(f"weight must have the channels of {shown}", str(w.details))


def _padding(
    node: Node, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Elements before and after each axis; `same` keeps the sizes; the odd element goes after."""
    value = node.argument("padding")
    if value == "valid":
        return (0,) * len(kernel), (0,) * len(kernel)
    if value == "same":
        if set(strides) != {1}:
            raise node.rule("padding=same must have a stride of 1", str(list(strides)))
        totals = [d * (k - 1) for k, d in zip(kernel, dilations, strict=True)]
        return tuple(n // 2 for n in totals), tuple(n - n // 2 for n in totals)
    widths = per_axis(node, "padding", len(kernel), 0)
    return widths, widths


def _finished(node: Node, y: GraphTensor, bias: GraphTensor | None, is_single: bool) -> GraphTensor:
    """Plus the bias, without the batch axis that a single image was given."""
    _, channels, *sizes = y.details.plain_dims
    if bias is not None:
        if bias.details.plain_dims != (channels,):
            raise node.rule(f"bias must have shape [{channels}]", str(bias.details))
        y = node.helper("add", y, node.reshaped(bias, (channels, *(1,) * len(sizes))))
    return node.reshaped(y, y.details.plain_dims[1:]) if is_single else y


def _transposed(spatial: int) -> Handler:
    def run(node: Node) -> Value:
        x, w, bias = _operands(node)
        node_x, is_single = with_batch(node, x, spatial)
        _kernel(node, w, spatial)
        if node.attr_text("padding_mode", "zeros") != "zeros":
            raise node.unsupported(f"padding_mode={node.text('padding_mode')}")
        padding = per_axis(node, "padding", spatial, 0)
        attrs = {
            "strides": per_axis(node, "stride", spatial, 1),
            "dilations": per_axis(node, "dilation", spatial, 1),
            "before": padding,
            "after": padding,
            "output_padding": per_axis(node, "output_padding", spatial, 0),
        }
        groups = node.attr_int("groups", 1)
        y = node.make("convolution_transpose", node_x, w, groups=groups, **attrs)
        _check_transposed_channels(node, w)
        return _finished(node, y, bias, is_single)

    return Handler(run, ("input", "weight", "bias"))


def _check_transposed_channels(node: Node, w: GraphTensor) -> None:
    _check_channels(node, w, ("in_channels", "out_channels"))


# im2col.


def _window_attrs(node: Node) -> dict[str, Any]:
    padding = per_axis(node, "padding", 2, 0)
    return {
        "strides": per_axis(node, "stride", 2, 1),
        "dilations": per_axis(node, "dilation", 2, 1),
        "before": padding,
        "after": padding,
    }


def _unfold(node: Node) -> Value:
    """[N, C, sizes...] as [N, C * kernel, positions]."""
    x, is_single = with_batch(node, node.tensor_of(), 2)
    kernel = per_axis(node, "kernel_size", 2, None)
    seen = node.make("im2col", x, kernel=kernel, **_window_attrs(node))
    batch, channels, *rest = seen.details.plain_dims
    dims = (batch, channels * math.prod(kernel), math.prod(rest[2:]))
    return node.reshaped(seen, dims[1:] if is_single else dims)


def _fold(node: Node) -> Value:
    """The adjoint of unfold: a transposed convolution with weights of one adds each column to its window."""
    x = node.tensor_of()
    is_single = x.details.rank == 2
    *batch, rows, columns = (1, *x.details.plain_dims) if is_single else x.details.plain_dims
    kernel, sizes = (per_axis(node, name, 2, None) for name in ("kernel_size", "output_size"))
    attrs, taps = _window_attrs(node), math.prod(kernel)
    positions, extra = [], []
    for size, k, s, d, p in zip(
        sizes, kernel, attrs["strides"], attrs["dilations"], attrs["before"], strict=True
    ):
        room = size + 2 * p - d * (k - 1) - 1
        positions.append(room // s + 1 if s > 0 else 0)
        extra.append(room % s if s > 0 else 0)
    if len(batch) != 1 or rows % max(taps, 1) or math.prod(positions) != columns:
        wanted = f"a multiple of {taps} rows and {math.prod(positions)} columns"
        raise node.rule(f"the input must have {wanted}", str(x.details))
    image = node.reshaped(x, (*batch, rows, *positions))
    ones = np.eye(taps).reshape(1, taps, 1, *kernel).repeat(rows // taps, 0)
    w = node.constant(ones.reshape(rows, 1, *kernel), x.details.dtype)
    groups = rows // taps
    y = node.make(
        "convolution_transpose", image, w, groups=groups, output_padding=tuple(extra), **attrs
    )
    return node.reshaped(y, y.details.plain_dims[1:]) if is_single else y


HANDLERS: dict[str, Handler] = {
    **{f"nn.Conv{n}d": _convolution(n) for n in (1, 2, 3)},
    **{f"F.conv{n}d": _convolution(n) for n in (1, 2, 3)},
    **{f"nn.ConvTranspose{n}d": _transposed(n) for n in (1, 2, 3)},
    **{f"F.conv_transpose{n}d": _transposed(n) for n in (1, 2, 3)},
    **dict.fromkeys(("nn.Unfold", "F.unfold"), Handler(_unfold)),
    **dict.fromkeys(("nn.Fold", "F.fold"), Handler(_fold)),
}
"""Operators of this family."""
