"""Axes split, joined and put in another order, and elements moved along them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....base.dims import is_known, maximum, minimum
from ....base.dtypes import BOOL
from ....base.size_limits import covers
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ....graph_ir.rewriting.size_values import remainder
from ...op_builder import OpBuilder, like
from .movement import with_rest
from .triangles import diagonal_mask


def reshape_as(node: OpBuilder, x: Tensor, other: Tensor) -> Tensor:
    """X in the shape of another tensor."""
    return node.make("reshape", x, shape=other.details.plain_dims)


def broadcast_as(node: OpBuilder, x: Tensor, other: Tensor) -> Tensor:
    """X repeated to the shape of another tensor."""
    return node.make("broadcast", x, shape=other.details.plain_dims)


def unflatten(node: OpBuilder, x: Tensor, axis: int, sizes: tuple[int, ...]) -> Tensor:
    """One axis split into several, of which one size may be -1: the rest."""
    dims = x.details.plain_dims
    parts = with_rest(node, dims[axis : axis + 1], sizes, zero_copies=False)
    return node.make("reshape", x, shape=(*dims[:axis], *parts, *dims[axis + 1 :]))


def swap_axes(node: OpBuilder, x: Tensor, first: int, second: int) -> Tensor:
    """X with two axes exchanged; a scalar has none to exchange."""
    perm = list(range(x.details.rank))
    a, b = (node.axis(axis, x.details.rank) for axis in (first, second))
    if perm:
        perm[a], perm[b] = perm[b], perm[a]
    return node.make("transpose", x, perm=tuple(perm))


def matrix_transpose(node: OpBuilder, x: Tensor) -> Tensor:
    """The transpose of a matrix; vectors and scalars are their own."""
    if x.details.rank > 2:
        raise node.rule("the input must have at most 2 axes", str(x.details))
    return node.make("transpose", x, perm=tuple(reversed(range(x.details.rank))))


def move_axes(
    node: OpBuilder, x: Tensor, sources: tuple[int, ...], targets: tuple[int, ...]
) -> Tensor:
    """X with axes `sources` at the positions `targets`, and the others in order."""
    rank = x.details.rank
    old, new = ([node.axis(axis, rank) for axis in given] for given in (sources, targets))
    if len(old) != len(new) or len({*old}) != len(old) or len({*new}) != len(new):
        both = f"{list(sources)} to {list(targets)}"
        raise node.rule("axes must be distinct, and move to as many positions", both)
    rest = iter(axis for axis in range(rank) if axis not in old)
    moved = dict(zip(new, old, strict=True))
    perm = tuple(moved[i] if i in moved else next(rest) for i in range(rank))
    return node.make("transpose", x, perm=perm)


def roll(
    node: OpBuilder, x: Tensor, shifts: tuple[int, ...], axes: tuple[int, ...] | None = None
) -> Tensor:
    """Elements moved along axes, those at the end to the start; without axes x counts as one vector."""
    if not axes:
        flat = node.reshaped(x, (x.details.elements,))
        return node.reshaped(_rolled(node, flat, shifts, (0,)), x.details.plain_dims)
    return _rolled(node, x, shifts, axes)


def _rolled(node: OpBuilder, x: Tensor, shifts: Sequence[int], axes: Sequence[int]) -> Tensor:
    if len(shifts) != len(axes):
        both = f"{list(shifts)} and {list(axes)}"
        raise node.rule("there must be a shift for each axis", both)
    for shift, given in zip(shifts, axes, strict=True):
        axis = node.axis(given, x.details.rank)
        size = x.details.plain_dims[axis] if x.details.rank else 0
        moved = remainder(shift, size) if size else 0
        if moved != 0:
            ends = ((size - moved, moved), (0, size - moved))
            parts = [node.sliced(x, axis, start, count) for start, count in ends]
            x = node.helper("concat", *parts, axis=axis)
    return x


def narrow(node: OpBuilder, x: Tensor, axis: int, start: int, size: int) -> Tensor:
    """`size` elements of an axis from `start` on, which may be counted from the back."""
    total = x.details.plain_dims[axis]
    first = start + total if start < 0 else start
    if first < 0 or size < 0 or not covers(total, first + size):
        raise node.rule(f"the part must lie in the {total} elements", f"{size} from {start} on")
    return node.sliced(x, axis, first, size)


def diagonal(
    node: OpBuilder, x: Tensor, offset: int = 0, first: int = 0, second: int = 1
) -> Tensor:
    """The diagonal `offset` of the axes `first` and `second`, as the last axis."""
    rank = x.details.rank
    a, b = (node.axis(axis, rank) for axis in (first, second))
    if a == b:
        raise node.rule("the axes of a diagonal must differ", str(a))
    moved = node.transposed(x, [axis for axis in range(rank) if axis not in (a, b)] + [a, b])
    *outer, rows, columns = moved.details.plain_dims
    count = maximum(minimum(rows + min(offset, 0), columns - max(offset, 0)), 0)
    start = offset if offset >= 0 else -offset * columns
    if not is_known(columns):
        on = diagonal_mask(node, rows, columns, offset, "eq")
        only = node.helper("select", on, moved, like(node, 0, x))
        total = "reduce_any" if x.details.dtype == BOOL else "reduce_sum"
        each = node.helper(total, only, axes=(-1,), keep_dims=False)
        return node.sliced(each, len(outer), max(-offset, 0), count)
    flat = node.reshaped(moved, (*outer, rows * columns))
    return node.sliced(flat, len(outer), start, count, columns + 1)


def diag_embed(
    node: OpBuilder, x: Tensor, offset: int = 0, first: int = -2, second: int = -1
) -> Tensor:
    """Matrices whose diagonal `offset` is the last axis of x, as the axes `first` and `second`; 0 elsewhere.

    Element i of n is row i of a matrix of n + 1 columns, which in n columns is its diagonal.
    """
    *outer, count = x.details.plain_dims
    rank = len(outer) + 2
    rows, columns = (node.axis(axis, rank) for axis in (first, second))
    if rows == columns:
        raise node.rule("the axes of a diagonal must differ", str(first))
    none, zero = (0,) * len(outer), np.zeros((), x.details.dtype.numpy).item()
    wide = node.reshaped(x, (*outer, count, 1))
    wide = node.helper("pad", wide, before=(*none, 0, 0), after=(*none, 0, count), value=zero)
    flat = node.reshaped(wide, (*outer, count * (count + 1)))
    whole = node.reshaped(node.sliced(flat, len(outer), 0, count * count), (*outer, count, count))
    aside = (max(-offset, 0), max(offset, 0))
    if offset:
        before, after = (*none, *aside), (*none, *reversed(aside))
        whole = node.helper("pad", whole, before=before, after=after, value=zero)
    order = [i for i in range(rank) if i not in (rows, columns)]
    axes = [*order, rows, columns]
    return node.transposed(whole, [axes.index(i) for i in range(rank)])


def differences(node: OpBuilder, x: Tensor, times: int = 1, axis: int = -1) -> Tensor:
    """Each element of an axis less the one before it, `times` times over; of bools, whether they differ."""
    at = node.axis(axis, x.details.rank)
    for _ in range(times):
        size = x.details.plain_dims[at]
        later, earlier = (
            node.sliced(x, at, start, maximum(size - 1, 0)) for start in (minimum(size, 1), 0)
        )
        x = node.helper("xor" if x.details.dtype == BOOL else "sub", later, earlier)
    return x


def mesh_grid(node: OpBuilder, vectors: Sequence[Tensor], is_xy: bool = False) -> list[Tensor]:
    """Every vector repeated over an axis for each; `is_xy` exchanges the first two axes."""
    sizes = [x.details.elements for x in vectors]
    order = [1, 0, *range(2, len(sizes))] if is_xy and len(sizes) > 1 else list(range(len(sizes)))
    shape = tuple(sizes[i] for i in order)
    grids = []
    for number, x in enumerate(vectors):
        row = node.reshaped(x, [sizes[number] if i == number else 1 for i in order])
        grids.append(node.helper("broadcast", row, shape=shape))
    return grids
