"""Reductions over axes that are made of others."""

from __future__ import annotations

import math

import numpy as np

from ....base.dtypes import BOOL, F32, S64, DType
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder, like
from .indexing import size_less

LARGEST = {
    "f16": 65504.0,
    "bf16": 3.3895313892515355e38,
    "f32": float(np.finfo(np.float32).max),
    "f64": float(np.finfo(np.float64).max),
}
"""The largest finite value of each float type."""

PER_ELEMENT = {
    "reduce_l1": "abs",
    "reduce_l2": "abs",
    "reduce_sum_square": "square",
    "reduce_log_sum": "log",
}
"""Elementwise equivalents of reductions over no axes."""


def log_sum_exp(
    node: OpBuilder, x: Tensor, axes: tuple[int, ...] | None, keep_dims: bool
) -> Tensor:
    """Log of the sum of exp(x) over axes, all of them where `axes` is None; an empty sum gives -inf."""
    dtype, dims = x.details.dtype, x.details.plain_dims
    if not x.details.elements:  # there is no largest element to keep exp from overflowing with
        total = node.helper("reduce_sum", x, axes=axes, keep_dims=keep_dims)
        return node.make("log", total)
    # The largest element is taken out so that exp cannot overflow, unless it is infinite: inf - inf is NaN.
    bound = LARGEST.get(dtype.name, math.inf)
    largest = node.helper("reduce_max", x, axes=axes, keep_dims=True)
    largest = node.helper("clamp", largest, min=-bound, max=bound)
    spread = node.helper("exp", node.helper("sub", x, largest))
    total = node.helper("reduce_sum", spread, axes=axes, keep_dims=True)
    result = node.make("add", node.helper("log", total), largest)
    if keep_dims:
        return result
    reduced = set(range(len(dims))) if axes is None else set(axes)
    return node.reshaped(result, [d for i, d in enumerate(dims) if i not in reduced])


def lp_norm(
    node: OpBuilder, x: Tensor, p: float, axes: tuple[int, ...] | None, keep_dims: bool
) -> Tensor:
    """(sum of |x| ** p) ** (1 / p) over axes, all of them where `axes` is None, in f32 for 16-bit floats.

    The extreme of |x| for +-inf, and the number of elements that are not 0 for 0.
    """
    over, dtype = {"axes": axes, "keep_dims": keep_dims}, x.details.dtype
    if p in (1, 2):
        return node.make(f"reduce_l{int(p)}", x, **over)
    if not dtype.is_float:
        raise node.rule("the input must be a float", str(x.details))
    size = node.helper("abs", node.converted(x, dtype.accumulator))
    if math.isinf(p):
        y = node.make("reduce_max" if p > 0 else "reduce_min", size, **over)
    elif not p:
        other = node.helper("ne", size, like(node, 0, size))
        y = node.make("reduce_sum", node.converted(other, size.details.dtype), **over)
    else:
        total = node.helper("reduce_sum", node.helper("pow", size, like(node, p, size)), **over)
        y = node.make("pow", total, like(node, 1 / p, size))
    return node.converted(y, dtype)


def _some(x: Tensor, axes: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """None, all axes, where none are given; a scalar has none that could be."""
    return (axes or None) if x.details.rank else None


def variance(
    node: OpBuilder,
    x: Tensor,
    axes: tuple[int, ...] | None = None,
    unbiased: float = True,
    keep_dims: bool = False,
    correction: float | None = None,
    is_root: bool = False,
) -> Tensor:
    """The sum of squared distances to the mean, in f32 for 16-bit floats, by the count less a correction.

    That is 1 if the variance is `unbiased`, unless it is given; pnnx writes any correction as `unbiased`. All axes
    where none are. `is_root`: the deviation.
    """
    dtype, dims, axes = x.details.dtype, x.details.plain_dims, _some(x, axes)
    less = float(unbiased) if correction is None else correction
    wide = node.converted(x, dtype.accumulator)
    mean = node.helper("reduce_mean", wide, axes=axes, keep_dims=True)
    squares = node.helper("square", node.helper("sub", wide, mean))
    total = node.helper("reduce_sum", squares, axes=axes, keep_dims=keep_dims)
    count = math.prod(dims if axes is None else [dims[axis] for axis in axes])
    spread = node.make("div", total, size_less(node, count, less, total.details.dtype))
    return node.converted(node.helper("sqrt", spread) if is_root else spread, dtype)


def with_mean(
    node: OpBuilder,
    x: Tensor,
    axes: tuple[int, ...] | None = None,
    unbiased: float = True,
    keep_dims: bool = False,
    correction: float | None = None,
    is_root: bool = False,
) -> list[Tensor]:
    """The variance or deviation, and the mean."""
    mean = node.helper("reduce_mean", x, axes=_some(x, axes), keep_dims=keep_dims)
    return [variance(node, x, axes, unbiased, keep_dims, correction, is_root), mean]


def prod(node: OpBuilder, x: Tensor, dtype: DType | None = None) -> Tensor:
    """Multiply all elements; integers and bools are multiplied as s64."""
    wide = dtype or (x.details.dtype if x.details.dtype.is_float else S64)
    return node.make("reduce_prod", node.converted(x, wide), axes=None, keep_dims=False)


def sum_of_numbers(
    node: OpBuilder,
    x: Tensor,
    axes: tuple[int, ...] | None = None,
    keep_dims: bool = False,
    dtype: DType | None = None,
    is_mean: bool = False,
) -> Tensor:
    """The sum, or mean, of the elements that are not NaN; integers have none, and are added up as s64."""
    over = {"axes": _some(x, axes), "keep_dims": keep_dims}
    if not x.details.dtype.is_float:
        return node.make("reduce_sum", node.converted(x, dtype or S64), **over)
    nothing = node.helper("isnan", x)
    total = node.helper("select", nothing, like(node, 0, x), x)
    total = node.make("reduce_sum", node.converted(total, dtype or x.details.dtype), **over)
    if not is_mean:
        return total
    count = node.converted(node.helper("not", nothing), S64)
    count = node.helper("reduce_sum", count, **over)
    return node.helper("div", total, node.converted(count, total.details.dtype))


def softmin(node: OpBuilder, x: Tensor, axis: int) -> Tensor:
    """Softmax of the negated elements."""
    return node.make("softmax", node.helper("neg", x), axis=axis)


def channel_softmax(node: OpBuilder, x: Tensor) -> Tensor:
    """Softmax over the channels of [C, H, W] or [N, C, H, W]."""
    if x.details.rank not in (3, 4):
        raise node.rule("the input must have 3 or 4 axes", str(x.details))
    return node.make("softmax", x, axis=x.details.rank - 3)


def moments(node: OpBuilder, x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Mean and biased variance over axes that stay with size 1, in the type of x."""
    over = {"axes": axes, "keep_dims": True}
    mean = node.helper("reduce_mean", x, **over)
    squares = node.helper("square", node.helper("sub", x, mean))
    return mean, node.helper("reduce_mean", squares, **over)


def wide_softmax(node: OpBuilder, x: Tensor, axis: int) -> Tensor:
    """Softmax in f32 of a narrower type."""
    return node.make("softmax", node.converted(x, F32), axis=axis)


def reduce(
    node: OpBuilder, op_name: str, x: Tensor, axes: tuple[int, ...] | None, keep_dims: bool
) -> Tensor:
    """A reduction over axes, all of them where `axes` is None; bools have any and all instead of max and min."""
    if axes == ():
        return node.make(PER_ELEMENT[op_name], x) if op_name in PER_ELEMENT else x
    if op_name in ("reduce_any", "reduce_all"):
        x = node.converted(x, BOOL)
    if x.details.dtype == BOOL:
        op_name = {"reduce_max": "reduce_any", "reduce_min": "reduce_all"}.get(op_name, op_name)
    return node.make(op_name, x, axes=axes, keep_dims=keep_dims)
