"""Adaptive pools, whose windows divide an axis into a given number of outputs, for all formats."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..base.dims import Limit, Size, ceil_quotient, is_known, minimum
from ..base.dtypes import BOOL, S64
from ..base.size_limits import at_least
from ..base.size_queries import is_multiple
from ..graph_ir.ir.graph import Array, GraphTensor
from .correspondence.compositions.indexing import dynamic_size, positions
from .op_builder import OpBuilder


def adaptive_pool(
    build: OpBuilder, x: GraphTensor, wanted: Sequence[Size], is_mean: bool
) -> GraphTensor:
    """The mean or maximum of each window of x [N, C, sizes...], as [N, C, wanted...].

    Window i of an axis goes from floor(i * size / out) to ceil((i + 1) * size / out).
    """
    sizes = x.details.plain_dims[2:]
    if len(sizes) != len(wanted) or not all(at_least(size, 1) for size in (*sizes, *wanted)):
        wish = f"{x.details} and {list(wanted)}"
        raise build.rule("the input and the result must have elements", wish)
    if all(out == 1 for out in wanted):
        op_name = "reduce_mean" if is_mean else "reduce_max"
        return build.make(op_name, x, axes=tuple(range(2, x.details.rank)), keep_dims=True)
    pairs = list(zip(sizes, wanted, strict=True))
    if not is_known(*sizes, *wanted) or any(size % out for size, out in pairs):
        return _uneven(build, x, wanted, is_mean)
    kernel = tuple(size // out for size, out in pairs)
    return build.make("avg_pool" if is_mean else "max_pool", x, kernel=kernel, strides=kernel)


def _uneven(build: OpBuilder, x: GraphTensor, wanted: Sequence[Size], is_mean: bool) -> GraphTensor:
    """Axis by axis, as windows of several sizes."""
    dtype = x.details.dtype
    x = build.converted(x, dtype.accumulator) if is_mean else x
    for axis, out in enumerate(wanted, 2):
        dims = x.details.plain_dims
        seen_at, inside, counts = _elements_seen(build, dims[axis], out)
        seen = build.helper("gather", x, seen_at, axis=axis)
        if not is_mean:
            x = build.helper("reduce_max", seen, axes=(axis + 1,), keep_dims=False)
            continue
        behind = (1,) * (len(dims) - axis - 1)
        kept = build.reshaped(inside, (*inside.details.plain_dims, *behind))
        seen = build.helper("select", kept, seen, build.constant(0, x.details.dtype))
        total = build.helper("reduce_sum", seen, axes=(axis + 1,), keep_dims=False)
        counts = build.reshaped(build.converted(counts, x.details.dtype), (out, *behind))
        x = build.helper("div", total, counts)
    return build.converted(x, dtype)


def _elements_seen(
    build: OpBuilder, size: Size, out: Size
) -> tuple[GraphTensor, GraphTensor, GraphTensor]:
    """The elements of each window [out, most], which of them it has, and how many [out, 1].

    Elements after a shorter window repeat its last one, which does not change the maximum.
    """
    if isinstance(size, int) and isinstance(out, int):
        known, begin, end = _windows(size, out)
        has = begin + np.arange(known.shape[1]) < end
        return (
            build.constant(known, S64),
            build.constant(has, BOOL),
            build.constant(end - begin, S64),
        )
    first, parts = positions(build, out, 0, 2), dynamic_size(build, out)
    whole, one = dynamic_size(build, size), build.constant(1, S64)

    def share(windows: GraphTensor, more: GraphTensor | None = None) -> GraphTensor:
        elements = build.helper("mul", windows, whole)
        elements = elements if more is None else build.helper("add", elements, more)
        return build.helper("div", elements, parts)

    starts = share(first)
    ends = share(build.helper("add", first, one), build.helper("sub", parts, one))
    if isinstance(out, int) or is_multiple(size, out):
        most = ceil_quotient(size, out) + 1 if isinstance(out, int) else size // out + 1
        most = minimum(most, size)
    else:
        widest = build.helper("add", build.helper("div", whole, parts), build.constant(2, S64))
        most = build.counted(
            build.helper("min", widest, whole), size, f"{build.name}_window", Limit(1)
        )
    steps = build.helper("count_up", size=(most,))
    position = build.helper("add", starts, steps)
    last = build.helper("min", position, build.helper("sub", ends, one))
    return last, build.helper("lt", position, ends), build.helper("sub", ends, starts)


def adaptive_pool_indices(
    build: OpBuilder, x: GraphTensor, wanted: Sequence[Size]
) -> tuple[GraphTensor, GraphTensor]:
    """(maximum, s64 index into the image of the first element that has it) of windows of several sizes."""
    n, c, *sizes = x.details.plain_dims
    table = build.constant([[0]], S64)  # [windows, elements]: where they lie in the image
    for size, out in zip(sizes, wanted, strict=True):
        seen, _, _ = _elements_seen(build, size, out)
        (windows, elements), (count, most) = table.details.plain_dims, seen.details.plain_dims
        rows = build.helper("mul", table, dynamic_size(build, size))
        rows = build.reshaped(rows, (windows, 1, elements, 1))
        both = build.helper("add", rows, build.reshaped(seen, (1, count, 1, most)))
        table = build.reshaped(both, (windows * count, elements * most))
    flat = build.reshaped(x, (n, c, math.prod(sizes)))
    parts = build.helper("gather", flat, table, axis=2)
    greatest = build.helper("reduce_max", parts, axes=(3,), keep_dims=False)
    which = build.helper("arg_max", parts, axis=3, keep_dims=False)
    count, elements = table.details.plain_dims
    first = build.helper("mul", positions(build, count, 0, 1), dynamic_size(build, elements))
    position = build.helper("add", build.converted(which, S64), first)
    index = build.helper("gather", build.reshaped(table, (count * elements,)), position, axis=0)
    dims = (n, c, *wanted)
    return build.reshaped(greatest, dims), build.reshaped(index, dims)


def _windows(size: int, out: int) -> tuple[Array, Array, Array]:
    """(elements [windows, most], first [windows, 1], the one behind the last) of an axis; shorter windows repeat their
    last element."""
    numbers = np.arange(out)[:, None]
    starts, ends = numbers * size // out, -(-(numbers + 1) * size // out)
    return np.minimum(starts + np.arange((ends - starts).max()), ends - 1), starts, ends
