"""Adaptive pools, whose windows divide an axis into a given number of outputs, for all formats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.dtypes import BOOL, S64
from ..graph_ir.ir.graph import GraphTensor
from .op_builder import OpBuilder


def adaptive_pool(
    build: OpBuilder, x: GraphTensor, wanted: Sequence[int], is_mean: bool
) -> GraphTensor:
    """The mean or maximum of each window of x [N, C, sizes...], as [N, C, wanted...].

    Window i of an axis goes from floor(i * size / out) to ceil((i + 1) * size / out).
    """
    sizes = x.details.plain_dims[2:]
    if min((*sizes, *wanted)) < 1 or len(sizes) != len(wanted):
        wish = f"{x.details} and {list(wanted)}"
        raise build.rule("the input and the result must have elements", wish)
    if any(size % out for size, out in zip(sizes, wanted, strict=True)):
        return _uneven(build, x, wanted, is_mean)
    kernel = tuple(size // out for size, out in zip(sizes, wanted, strict=True))
    if kernel == sizes:
        op_name = "reduce_mean" if is_mean else "reduce_max"
        return build.make(op_name, x, axes=tuple(range(2, x.details.rank)), keep_dims=True)
    return build.make("avg_pool" if is_mean else "max_pool", x, kernel=kernel, strides=kernel)


def _uneven(build: OpBuilder, x: GraphTensor, wanted: Sequence[int], is_mean: bool) -> GraphTensor:
    """Axis by axis, as windows of several sizes."""
    dtype = x.details.dtype
    x = build.converted(x, dtype.accumulator) if is_mean else x
    for axis, out in enumerate(wanted, 2):
        dims = x.details.plain_dims
        size = dims[axis]
        starts = np.arange(out) * size // out
        ends = -(-(np.arange(out) + 1) * size // out)
        steps = np.arange((ends - starts).max())
        inside = starts[:, None] + steps < ends[:, None]
        # Elements after a shorter window repeat its last one, which does not change the maximum.
        indices = np.minimum(starts[:, None] + steps, ends[:, None] - 1)
        seen = build.helper("gather", x, build.constant(indices, S64), axis=axis)
        if not is_mean:
            x = build.helper("reduce_max", seen, axes=(axis + 1,), keep_dims=False)
            continue
        behind = (1,) * (len(dims) - axis - 1)
        kept = build.constant(inside.reshape(*inside.shape, *behind), BOOL)
        seen = build.helper("select", kept, seen, build.constant(0, x.details.dtype))
        total = build.helper("reduce_sum", seen, axes=(axis + 1,), keep_dims=False)
        counts = build.constant((ends - starts).reshape(out, *behind), x.details.dtype)
        x = build.helper("div", total, counts)
    return build.converted(x, dtype)


def adaptive_pool_indices(
    build: OpBuilder, x: GraphTensor, wanted: Sequence[int]
) -> tuple[GraphTensor, GraphTensor]:
    """(maximum, s64 index into the image of the first element that has it) of windows of several sizes."""
    n, c, *sizes = x.details.plain_dims
    axes = [_windows(size, out) for size, out in zip(sizes, wanted, strict=True)]
    table = np.zeros((1, 1), np.int64)  # [windows, elements]: where they lie in the image
    for size, seen in zip(sizes, axes, strict=True):
        both = table[:, None, :, None] * size + seen[None, :, None, :]
        table = both.reshape(-1, both.shape[2] * both.shape[3])
    build.check_array(table.shape)
    flat = build.reshaped(x, (n, c, math.prod(sizes)))
    windows = build.helper("gather", flat, build.constant(table, S64), axis=2)
    most = build.helper("reduce_max", windows, axes=(3,), keep_dims=False)
    which = build.helper("arg_max", windows, axis=3, keep_dims=False)
    first = build.constant(np.arange(table.shape[0]) * table.shape[1], S64)
    place = build.helper("add", build.converted(which, S64), first)
    index = build.helper("gather", build.constant(table.reshape(-1), S64), place, axis=0)
    dims = (n, c, *wanted)
    return build.reshaped(most, dims), build.reshaped(index, dims)


def _windows(size: int, out: int) -> np.ndarray[Any, Any]:
    """[windows, elements] of an axis; shorter windows repeat their last element."""
    starts, ends = np.arange(out) * size // out, -(-(np.arange(out) + 1) * size // out)
    return np.minimum(starts[:, None] + np.arange((ends - starts).max()), ends[:, None] - 1)
