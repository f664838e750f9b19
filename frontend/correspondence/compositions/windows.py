"""Parts of convolutions and pools in all formats: padding modes, the bias, global pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....base.dims import Size, ceil_quotient, floor_quotient, is_known, maximum
from ....base.scaled_sizes import scaled
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ....graph_ir.ops.reduce import identity
from ...op_builder import OpBuilder, like
from .reduction import lp_norm

Padding = tuple[tuple[Any, ...], tuple[Any, ...]]
"""Elements before and after each spatial axis."""


def same_padding(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    is_lower: bool = False,
) -> Padding:
    """TensorFlow's SAME: size / stride positions, rounded up; the odd element behind, or before if `is_lower`."""
    totals: list[Any] = [
        (ceil_quotient(n, s) - 1) * s + (k - 1) * d + 1 - n
        for n, s, k, d in zip(sizes, strides, kernel, dilations, strict=True)
    ]
    if is_known(*sizes):
        return halved([max(total, 0) for total in totals], is_lower)
    # Windows that are shorter than their stride leave out elements behind.
    extents = ((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    gaps = [max(s - extent, 0) for s, extent in zip(strides, extents, strict=True)]
    padded = [maximum(t, 0) if gap else t for t, gap in zip(totals, gaps, strict=True)]
    before = halved(padded, is_lower)[0]
    return before, tuple(t - b for t, b in zip(totals, before, strict=True))


def windowed(node: OpBuilder, op_name: str, x: Tensor, *others: Tensor, **attrs: Any) -> Tensor:
    """A convolution or pool; padding that depends on dynamic sizes is stored around x first."""
    dims, before, after = x.details.plain_dims, attrs.get("before", ()), attrs.get("after", ())
    if is_known(*before, *after):
        return node.make(op_name, x, *others, **attrs)
    none = (0,) * len(before)

    def padded(y: Tensor, fill: float = 0) -> Tensor:
        widths = {"before": (0, 0, *before), "after": (0, 0, *after)}
        return node.helper("pad", y, value=fill, **widths)

    attrs |= {"before": none, "after": none}
    if op_name == "max_pool":
        return node.make(op_name, padded(x, identity("max", x.details.dtype)), **attrs)
    if op_name != "avg_pool" or attrs.pop("count_include_pad", False):
        return node.make(op_name, padded(x), *others, **attrs)
    one = node.constant(1, x.details.dtype.accumulator)
    ones = node.helper("broadcast", one, shape=(1, 1, *dims[2:]))
    total, count = (
        node.helper("sum_pool", padded(y), **attrs)
        for y in (node.converted(x, one.details.dtype), ones)
    )
    return node.converted(node.make("div", total, count), x.details.dtype)


def halved(totals: Sequence[Size], is_lower: bool = False) -> Padding:
    """Padding split in two, the odd element behind, or before if `is_lower`."""
    less = tuple(floor_quotient(p, 2) for p in totals)
    more = tuple(p - part for p, part in zip(totals, less, strict=True))
    return (more, less) if is_lower else (less, more)


def transposed_padding(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    results: Sequence[int],
) -> list[int]:
    """Elements to take off the full result of a transposed convolution, per axis, for these results."""
    axes = zip(sizes, kernel, strides, dilations, results, strict=True)
    return [(n - 1) * s + (k - 1) * d + 1 - y for n, k, s, d, y in axes]


def scaled_sizes(sizes: Sequence[Size], scales: Sequence[float]) -> tuple[Any, ...]:
    """Sizes times scales, rounded down, computed in f32 as other programs do."""
    return tuple(scaled(n, s, 32) for n, s in zip(sizes, scales, strict=True))


def biased(node: OpBuilder, y: Tensor, bias: Tensor | None) -> Tensor:
    """[N, C, ...] plus one element per channel; one of more digits, as 16-bit models have, is added in its type."""
    if bias is None:
        return y
    if y.details.dtype.is_float and bias.details.dtype.is_float:
        dtype, wide = y.details.dtype, max(y, bias, key=lambda x: x.details.dtype.bits)
        if wide.details.dtype != dtype:
            return node.converted(biased(node, node.converted(y, wide.details.dtype), bias), dtype)
    channels = y.details.plain_dims[1]
    if bias.details.plain_dims != (channels,):
        raise node.rule(f"the bias must have shape [{channels}]", str(bias.details))
    return node.helper("add", y, node.reshaped(bias, (channels,) + (1,) * (y.details.rank - 2)))


def per_channel(node: OpBuilder, x: Tensor, vector: Tensor) -> Tensor:
    """Align a vector with an element per channel with axis 1 of x; return anything else unchanged."""
    if vector.details.rank != 1 or x.details.rank <= 2:
        return vector
    return node.reshaped(vector, (vector.details.elements,) + (1,) * (x.details.rank - 2))


def mean_by(node: OpBuilder, x: Tensor, divisor: int, **window: Any) -> Tensor:
    """The sum of each window divided by a number, computed in the type that sums of x have."""
    if not divisor:
        raise node.rule("the divisor must not be 0", "0")
    total = node.make("sum_pool", node.converted(x, x.details.dtype.accumulator), **window)
    y = total if divisor == 1 else node.helper("div", total, like(node, divisor, total))
    return node.converted(y, x.details.dtype)


def _spatial(node: OpBuilder, x: Tensor) -> tuple[int, ...]:
    """The axes of [N, C, ...] after the first two, at least one."""
    if x.details.rank < 3:
        raise node.rule("the input must have spatial axes", str(x.details))
    return tuple(range(2, x.details.rank))


def global_pool(node: OpBuilder, x: Tensor, reduction: str) -> Tensor:
    """A reduction over all spatial axes of [N, C, ...], which stay with size 1."""
    return node.make(reduction, x, axes=_spatial(node, x), keep_dims=True)


def global_average_pool(node: OpBuilder, x: Tensor) -> Tensor:
    """The mean of each channel."""
    return global_pool(node, x, "reduce_mean")


def global_max_pool(node: OpBuilder, x: Tensor) -> Tensor:
    """The largest element of each channel."""
    return global_pool(node, x, "reduce_max")


def global_lp_pool(node: OpBuilder, x: Tensor, p: int = 2) -> Tensor:
    """The p-norm of each channel."""
    return lp_norm(node, x, p, _spatial(node, x), keep_dims=True)
