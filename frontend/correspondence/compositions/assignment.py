"""Tensors with some elements replaced: slices, masks, and elements at tensors of indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....base.dims import is_known
from ....base.dtypes import BOOL, S64
from ....base.records import dataclass
from ....base.size_limits import broadcast_sizes
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ....graph_ir.rewriting.values import constant_value
from ...op_builder import OpBuilder
from .contraction import scaled
from .counted import nonzero
from .indexing import dynamic_size, positions, wrapped
from .movement import Stretch, broadcast_to, element_index, stretch


def fill(node: OpBuilder, x: Tensor, value: Tensor) -> Tensor:
    """`value` in the shape and type of x."""
    return broadcast_to(node, node.converted(value, x.details.dtype), x.details.plain_dims)


def masked_fill(node: OpBuilder, x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    """X with the elements where the mask is true replaced by a value."""
    value = node.converted(value, x.details.dtype)
    return node.make("select", node.converted(mask, BOOL), value, x)


def assign_rows(
    node: OpBuilder,
    x: Tensor,
    index: Tensor,
    rows: Tensor,
    axis: int,
    reduction: str = "none",
    alpha: float = 1,
) -> Tensor:
    """X with the slices at a vector of indices along an axis replaced by, or combined with, alpha * rows."""
    dims, count = x.details.plain_dims, index.details.elements
    wanted = (*dims[:axis], count, *dims[axis + 1 :])
    rows = scaled(node, node.converted(rows, x.details.dtype), alpha)
    column = (count, *(1,) * (len(dims) - axis - 1))
    at = broadcast_to(node, node.reshaped(node.converted(index, S64), column), wanted)
    rows = broadcast_to(node, rows, wanted)
    return node.make("scatter_elements", x, at, rows, axis=axis, reduction=reduction)


def assign_ranges(
    node: OpBuilder, x: Tensor, source: Tensor, taken: Sequence[range | Stretch], dropped: set[int]
) -> Tensor:
    """X with the elements of a slice replaced: a scatter with known indices of contiguous runs.

    `taken` has the elements of each axis; `source` lacks the axes `dropped`. A slice of dynamic sizes is one box.
    """
    parts = [stretch(one) for one in taken]
    kept: tuple[Any, ...] = tuple(
        part.size for axis, part in enumerate(parts) if axis not in dropped
    )
    source = broadcast_to(node, node.converted(source, x.details.dtype), kept)
    if not all(is_known(part.start, part.size) for part in parts) or not x.details.is_known:
        return _assign_box(node, x, source, parts)
    if not source.details.elements:
        return x
    dims = x.details.plain_dims
    run, last = 1, len(dims)
    while last and parts[last - 1] == Stretch(0, dims[last - 1]):
        last -= 1
        run *= dims[last]
    node.check_array(counts := [int(part.size) for part in parts[:last]])
    steps = [math.prod(dims[axis + 1 :]) for axis in range(last)]
    grids = np.ix_(
        *(
            (int(part.start) + part.step * np.arange(count)) * step
            for part, count, step in zip(parts, counts, steps, strict=False)
        )
    )
    starts = sum(grids, np.zeros((1,) * last, np.int64))
    return node.make("scatter", node.constant(starts, S64), x, source, run=run)


def _assign_box(node: OpBuilder, x: Tensor, source: Tensor, parts: Sequence[Stretch]) -> Tensor:
    """X with neighboring elements of each axis replaced."""
    if any(part.step != 1 for part in parts):
        raise node.unsupported("an assignment in steps to a slice of dynamic size")
    dims = x.details.plain_dims
    moved = [axis for axis, part in enumerate(parts) if part != Stretch(0, dims[axis])]
    box = node.reshaped(source, tuple(part.size for part in parts))
    starts = [dynamic_size(node, parts[axis].start) for axis in moved or (0,)]
    return node.make("update_slice", x, box, *starts, axes=tuple(moved or (0,)))


def assign_index(node: OpBuilder, x: Tensor, source: Tensor, axis: int, index: int) -> Tensor:
    """X with one element of an axis replaced by `source`, which lacks that axis."""
    dims = x.details.plain_dims
    taken = [Stretch(0, size) for size in dims]
    taken[axis] = Stretch(element_index(node, index, dims[axis]), 1)
    return assign_ranges(node, x, source, taken, {axis})


# Advanced indexing: x[:, i, j].


@dataclass(frozen=True)
class Picks:
    """The elements that x[items...] selects: an integer tensor for each axis of `axes`; other axes are whole.

    `dims` is the shape of the result, whose picked axes start at `start` and have the shape `common`.
    """

    axes: tuple[int, ...]
    tensors: tuple[Tensor, ...]
    common: tuple[int, ...]
    start: int
    dims: tuple[int, ...]


def picks_of(node: OpBuilder, x: Tensor, items: Sequence[Tensor | None]) -> Picks:
    """NumPy's rule: adjacent indices put their axes in place, separated indices put them first."""
    items = [index for item in items for index in _of_mask(node, item)]
    axes = tuple(axis for axis, item in enumerate(items) if item is not None)
    given = [item for item in items if item is not None]
    if len(items) > x.details.rank or not given:
        raise node.rule("there must be an index for some axes", f"{len(items)} for {x.details}")
    if any(item.details.dtype.is_float for item in given):
        raise node.rule("an index must hold integers", str(given[0].details))
    try:
        common = broadcast_sizes(*(item.details.plain_dims for item in given))
    except ValueError as error:
        shown = ", ".join(str(item.details) for item in given)
        raise node.rule("indices must broadcast to one shape", shown) from error
    start = axes[0] if axes == tuple(range(axes[0], axes[-1] + 1)) else 0
    rest = [size for axis, size in enumerate(x.details.plain_dims) if axis not in axes]
    dims = (*rest[:start], *common, *rest[start:])
    return Picks(axes, tuple(given), tuple(common), start, dims)


def flat_indices(node: OpBuilder, x: Tensor, picks: Picks) -> Tensor:
    """The flat index in x of each selected element, s64 in the result's shape."""
    dims = x.details.plain_dims
    steps = [math.prod(dims[axis + 1 :]) for axis in range(len(dims))]
    behind = (1,) * (len(picks.dims) - picks.start - len(picks.common))
    rest = [axis for axis in range(len(dims)) if axis not in picks.axes]
    known = [axis for axis in rest if is_known(dims[axis], steps[axis])]
    node.check_array([dims[axis] for axis in known])
    whole, parts = np.zeros((), np.int64), []
    for number, axis in enumerate(rest):
        at = number if number < picks.start else number + len(picks.common)
        if axis in known:
            shape = [dims[axis] if i == at else 1 for i in range(len(picks.dims))]
            whole = whole + (np.arange(dims[axis]) * steps[axis]).reshape(shape)
        else:
            numbers = positions(node, dims[axis], at, len(picks.dims))
            parts.append(node.helper("mul", numbers, dynamic_size(node, steps[axis])))
    total = node.constant(whole, S64)
    for part in parts:
        total = node.helper("add", total, part)
    for axis, item in zip(picks.axes, picks.tensors, strict=True):
        index = wrapped(node, item, (dims[axis],))
        term = node.helper("mul", index, dynamic_size(node, steps[axis]))
        term = node.reshaped(term, (*item.details.plain_dims, *behind))
        total = node.helper("add", total, term)
    return broadcast_to(node, total, picks.dims)


def _of_mask(node: OpBuilder, item: Tensor | None) -> Sequence[Tensor | None]:
    """A mask as the indices where it is true, one tensor for each of its axes; other items as they are."""
    if item is None or item.details.dtype != BOOL:
        return (item,)
    mask = constant_value(item)
    if mask is None:
        return nonzero(node, item)
    return [node.constant(index, S64) for index in np.nonzero(mask)]


def masked_select(node: OpBuilder, x: Tensor, mask: Tensor) -> Tensor:
    """A vector of the elements where a mask is true, in order."""
    wanted = broadcast_sizes(x.details.plain_dims, mask.details.plain_dims)
    known = constant_value(mask)
    if known is not None:
        mask = node.constant(np.broadcast_to(known, wanted), BOOL)
    return pick(node, broadcast_to(node, x, wanted), [mask])


def pick(node: OpBuilder, x: Tensor, items: Sequence[Tensor | None]) -> Tensor:
    """x[items...]."""
    picks = picks_of(node, x, items)
    if len(picks.axes) == 1:
        return node.make("gather", x, picks.tensors[0], axis=picks.axes[0])
    flat = node.reshaped(x, (x.details.elements,))
    return node.make("gather", flat, flat_indices(node, x, picks), axis=0)


def put(
    node: OpBuilder, x: Tensor, items: Sequence[Tensor | None], values: Tensor, adds: bool = False
) -> Tensor:
    """X after x[items...] = values, or += if it `adds`. A mask takes one value, or one for each element."""
    values = node.converted(values, x.details.dtype)
    if len(items) == 1 and items[0] is not None and items[0].details.dtype == BOOL:
        return _put_masked(node, x, items[0], values, adds)
    picks = picks_of(node, x, items)
    indices, values = flat_indices(node, x, picks), broadcast_to(node, values, picks.dims)
    added = "or" if x.details.dtype == BOOL else "add"
    return node.make("scatter", indices, x, values, reduction=added if adds else "none")


def _number_of(node: OpBuilder, mask: Tensor, most: int) -> Tensor:
    """Count the true elements before each element of a mask, clamped to `most` - 1."""
    flat = node.converted(node.reshaped(mask, (mask.details.elements,)), S64)
    before = node.helper("sub", node.helper("cum_sum", flat, axis=0), flat)
    inside = node.helper("min", before, node.constant(most - 1, S64))
    return node.reshaped(inside, mask.details.plain_dims)


def _put_masked(node: OpBuilder, x: Tensor, mask: Tensor, values: Tensor, adds: bool) -> Tensor:
    dims, covered = x.details.plain_dims, mask.details.plain_dims
    if dims[: len(covered)] != covered:
        raise node.rule("the mask must have the first axes of the input", f"{mask.details}")
    kept, rest = (
        node.reshaped(mask, (*covered, *(1,) * (len(dims) - len(covered)))),
        dims[len(covered) :],
    )
    given = values.details.plain_dims
    if not values.details.elements:
        return x
    if values.details.elements == 1:
        value = node.reshaped(values, ())
    elif len(given) <= len(rest) or given[0] == 1:
        value = node.reshaped(values, given[1:]) if len(given) > len(rest) else values
    else:
        value = node.helper("gather", values, _number_of(node, mask, given[0]), axis=0)
    value = node.helper("add", x, value) if adds else value
    return node.make("select", kept, value, x)


def assign_diagonal(
    node: OpBuilder, x: Tensor, source: Tensor, offset: int = 0, first: int = 0, second: int = 1
) -> Tensor:
    """X with the diagonal `offset` of two axes replaced by the last axis of `source`."""
    dims = x.details.plain_dims
    node.check_array(dims)
    flat = np.arange(math.prod(dims)).reshape(dims)
    at = node.constant(np.diagonal(flat, offset, first, second), S64)
    values = broadcast_to(node, node.converted(source, x.details.dtype), at.details.plain_dims)
    return node.make("scatter", at, x, values)
