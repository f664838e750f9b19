"""Elements of an axis in order of size. A scalar counts as an axis of size 1."""

from __future__ import annotations

import math

import numpy as np

from ....base.dims import Dim, Size, floor_quotient, minimum
from ....base.dtypes import BOOL, S32, S64, from_numpy
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder, like
from .indexing import positions
from .running import running_extremes


def first_k(
    node: OpBuilder, x: Tensor, k: Size, at: int = -1, largest: bool = True
) -> list[Tensor]:
    """The k largest or smallest elements of axis `at`, in order, and their indices."""
    dims = x.details.plain_dims
    axis = node.axis(at, max(len(dims), 1))
    rows = node.reshaped(x, dims or (1,))
    count: Size = minimum(k, dims[axis]) if isinstance(k, Dim) and dims else k
    found = node.outputs("top_k", rows, axis=axis, k=count, largest=largest)
    return found if dims else [node.reshaped(y, ()) for y in found]


def sort(node: OpBuilder, x: Tensor, at: int = -1, descending: bool = False) -> list[Tensor]:
    """All elements of axis `at` in order, equal ones as they were, and their indices."""
    dims = x.details.plain_dims or (1,)
    return first_k(node, x, dims[node.axis(at, len(dims))], at, descending)


def argsort(node: OpBuilder, x: Tensor, at: int = -1, descending: bool = False) -> Tensor:
    """The indices of the elements of axis `at` in order."""
    return sort(node, x, at, descending)[1]


def kth_value(
    node: OpBuilder, x: Tensor, k: Size, axis: int, keep_dims: bool = False
) -> list[Tensor]:
    """The k-th smallest element of an axis, counted from 1, and its index."""
    dims = x.details.plain_dims
    if not 1 <= k <= dims[axis]:
        raise node.rule(f"k must be in [1, {dims[axis]}]", str(k))
    shape = (*dims[:axis], *((1,) if keep_dims else ()), *dims[axis + 1 :])
    found = first_k(node, x, k, axis, largest=False)
    return [node.reshaped(node.sliced(y, axis, k - 1, 1), shape) for y in found]


def median(
    node: OpBuilder, x: Tensor, axis: int | None = None, keep_dims: bool = False
) -> Tensor | list[Tensor]:
    """The lower median of all elements, or of an axis with its index; NaN where there is one."""
    if axis is None:
        x, axis = node.reshaped(x, (x.details.elements,)), 0
        return _median(node, x, axis, False)[0]
    return _median(node, x, axis, keep_dims)


def _median(node: OpBuilder, x: Tensor, axis: int, keep_dims: bool) -> list[Tensor]:
    size = x.details.plain_dims[axis] if x.details.rank else 1
    rows = x if x.details.rank else node.reshaped(x, (1,))
    if not size:
        raise node.rule("the axis must have elements", str(x.details))
    value, index = kth_value(node, rows, floor_quotient(size + 1, 2), axis, keep_dims)
    if x.details.dtype.is_float:
        over = {"axis": axis, "keep_dims": keep_dims}
        is_nan = node.converted(node.helper("isnan", rows), S64)
        first = node.helper("arg_max", is_nan, **over)
        bad = node.helper("reduce_max", is_nan, axes=(axis,), keep_dims=keep_dims)
        bad = node.converted(bad, BOOL)
        value = node.helper("select", bad, like(node, math.nan, x), value)
        index = node.helper("select", bad, first, index)
    return [y if x.details.rank else node.reshaped(y, ()) for y in (value, index)]


def nan_median(
    node: OpBuilder, x: Tensor, axis: int | None = None, keep_dims: bool = False
) -> Tensor | list[Tensor]:
    """The lower median of the numbers among all elements, or of an axis with its index; NaN where there are none."""
    rows, at = (node.reshaped(x, (x.details.elements,)), 0) if axis is None else (x, axis)
    values, indices = sort(node, rows, at)  # NaN come last
    numbers = node.converted(node.helper("eq", rows, rows), S64)
    count = node.helper("reduce_sum", numbers, axes=(at,), keep_dims=True)
    last = node.helper(
        "max", node.helper("sub", count, node.constant(1, S64)), node.constant(0, S64)
    )
    middle = node.helper("div", last, node.constant(2, S64))
    found = _picked(node, [values, indices], middle, at, keep_dims and axis is not None)
    return found[0] if axis is None else found


def mode(node: OpBuilder, x: Tensor, axis: int, keep_dims: bool = False) -> list[Tensor]:
    """The most frequent element of an axis, the smallest of several, and the index of the last of its kind."""
    values, indices = sort(node, x, axis)
    dims, size = x.details.plain_dims, x.details.plain_dims[axis]
    own = node.helper("broadcast", positions(node, size, axis, len(dims)), shape=dims)
    if isinstance(size, Dim) or size > 1:
        first, before, later = (
            node.sliced(values, axis, *part) for part in ((0, 1), (0, size - 1), (1, size - 1))
        )
        starts = node.helper(
            "concat", node.helper("ne", first, first), node.helper("ne", before, later), axis=axis
        )
        begin = node.helper("select", starts, own, node.constant(0, S64))
        own = node.helper("sub", own, running_extremes(node, begin, axis)[0])
    longest = node.helper("arg_max", own, axis=axis, keep_dims=True)
    return _picked(node, [values, indices], longest, axis, keep_dims)


def _picked(
    node: OpBuilder, sorted_rows: list[Tensor], at: Tensor, axis: int, keep_dims: bool
) -> list[Tensor]:
    """Elements of rows at one index each."""
    found = [node.helper("gather_elements", y, at, axis=axis) for y in sorted_rows]
    dims = at.details.plain_dims
    shape = dims if keep_dims else (*dims[:axis], *dims[axis + 1 :])
    return [node.reshaped(y, shape) for y in found]


_ROUNDED = {"linear": "", "lower": "floor", "higher": "ceil", "midpoint": "", "nearest": "round"}
"""The rounding of a position between neighbors, by interpolation; none where both count."""


def insertion_index(
    node: OpBuilder, rows: Tensor, x: Tensor, right: bool = False, narrow: bool = False
) -> Tensor:
    """Return the insertion index of each element of x in its sorted row, before or (`right`) after equal ones: s64, or
    s32 if `narrow`.

    `rows` is one row for all, or a row for each row of x.
    """
    dims, sizes = x.details.plain_dims, rows.details.plain_dims
    if len(sizes) != 1 and sizes[:-1] != dims[:-1]:
        raise node.rule("there must be a sorted row for each", f"{rows.details} for {x.details}")
    dtype = np.promote_types(x.details.dtype.numpy, rows.details.dtype.numpy)
    value = node.reshaped(node.converted(x, from_numpy(dtype)), (*dims, 1))
    lead = sizes[:-1] if len(sizes) == 1 else (*sizes[:-1], 1)
    bounds = node.reshaped(node.converted(rows, from_numpy(dtype)), (*lead, sizes[-1]))
    # NaN is larger than all numbers: it is neither below nor at one of them.
    stays = node.helper("gt" if right else "ge", bounds, value)
    before = node.converted(node.helper("not", stays), S64)
    count = node.helper("reduce_sum", before, axes=(len(dims),), keep_dims=False)
    return node.converted(count, S32) if narrow else count
