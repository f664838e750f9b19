"""Elements looked up and replaced by indices of other forms than those of gather and scatter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ....base.dims import Dim, Size, ceil_quotient, floor_quotient, is_known, maximum
from ....base.dtypes import S64, DType
from ....base.size_limits import at_least
from ....base.size_queries import sizes_text
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder
from ...refusals import FIXED
from .movement import broadcast_to


def positions(
    node: OpBuilder, count: Size, axis: int, rank: int, start: Size | Tensor = 0
) -> Tensor:
    """start, start + 1, ...: `count` numbers along an axis, s64, of size 1 along all others.

    Both may be dynamic; a start that only a run knows is a tensor s64 with `rank` axes or none.
    """
    shape = tuple(count if i == axis else 1 for i in range(rank))
    start = start if isinstance(start, (Dim, Tensor)) else int(start)
    if isinstance(count, int) and isinstance(start, int):
        node.check_array((count,))
        return node.constant(start + np.arange(count).reshape(shape), S64)
    first = start if isinstance(start, int) else 0
    if isinstance(count, int):
        steps = node.constant(np.arange(count).reshape(shape), S64)
    else:
        steps = node.reshaped(node.helper("count_up", size=(count,), start=first), shape)
    if isinstance(start, int):
        return steps
    begin = start if isinstance(start, Tensor) else dynamic_size(node, start)
    return node.helper("add", begin, steps)


def selected_update(
    node: OpBuilder, x: Tensor, update: Tensor, begins: Mapping[int, Tensor]
) -> Tensor:
    """X with a box replaced: the update expanded to all of x, and selected inside its box.

    `begins`: where the box begins on each axis along which it is smaller, s64[], such that it lies inside x.
    """
    dims, sizes = x.details.plain_dims, update.details.plain_dims
    inside: Tensor | None = None
    for axis, begin in begins.items():
        here = node.helper("sub", positions(node, dims[axis], 0, 1), begin)
        zero, size = node.constant(0, S64), node.constant(sizes[axis], S64)
        covered = node.helper("and", node.helper("ge", here, zero), node.helper("lt", here, size))
        last = node.constant(sizes[axis] - 1, S64)
        at = node.helper("min", node.helper("max", here, zero), last)  # any element beyond the box
        update = node.helper("gather", update, at, axis=axis)
        mask = node.reshaped(covered, [d if i == axis else 1 for i, d in enumerate(dims)])
        inside = mask if inside is None else node.helper("and", inside, mask)
    return update if inside is None else node.make("select", inside, update, x)


def dynamic_size(node: OpBuilder, size: Size) -> Tensor:
    """A size as s64[]."""
    if isinstance(size, int):
        return node.constant(size, S64)
    return node.reshaped(node.helper("dynamic_sizes", values=(size,)), ())


def size_range(node: OpBuilder, start: Size, limit: Size, step: int) -> Tensor:
    """start, start + step, ... as far as before `limit`, s64; start and limit may be dynamic."""
    span = limit - start if step > 0 else start - limit
    count = ceil_quotient(maximum(span, 0), abs(step))
    if isinstance(start, int):
        return node.helper("count_up", size=(count,), start=start, step=step)
    return node.helper("add", dynamic_size(node, start), size_range(node, 0, limit - start, step))


def size_less(node: OpBuilder, size: Size, less: float, dtype: DType) -> Tensor:
    """A size less a number, at least 0, as a scalar."""
    if isinstance(size, int):
        return node.constant(max(size - less, 0), dtype)
    whole = node.converted(dynamic_size(node, size), dtype)
    rest = node.helper("sub", whole, node.constant(less, dtype))
    return node.helper("max", rest, node.constant(0, dtype))


def size_list(node: OpBuilder, sizes: Sequence[Size]) -> Tensor:
    """Sizes as s64[count]."""
    if is_known(*sizes):
        return node.constant(list(sizes), S64)
    return node.helper("dynamic_sizes", values=tuple(sizes))


def one_hot(
    node: OpBuilder, indices: Tensor, on: Tensor, off: Tensor, depth: int, at: int = -1
) -> Tensor:
    """A new axis of `depth` elements: `on` at the index, `off` elsewhere and for indices outside."""
    dims = indices.details.plain_dims
    axis = node.axis(at, len(dims) + 1)
    wide = node.converted(node.reshaped(indices, (*dims[:axis], 1, *dims[axis:])), S64)
    hit = node.helper("eq", wide, positions(node, max(depth, 0), axis, len(dims) + 1))
    return node.make("select", hit, node.reshaped(on, ()), node.reshaped(off, ()))


def one_hot_classes(node: OpBuilder, indices: Tensor, count: int = -1) -> Tensor:
    """A new last axis of `count` elements: 1 at the index, 0 elsewhere, s64."""
    if count < 0:
        raise node.unsupported("a number of classes that the data decides", FIXED)
    zero, one = (node.constant(value, S64) for value in (0, 1))
    return one_hot(node, indices, one, zero, count)


def wrapped(node: OpBuilder, indices: Tensor, dims: Sequence[Size]) -> Tensor:
    """Tuples of indices (the last axis) as s64, negative ones counted from the back of `dims`."""
    wide = node.converted(indices, S64)
    below = node.helper("lt", wide, node.constant(0, S64))
    from_back = node.helper("add", wide, size_list(node, dims))
    return node.helper("select", below, from_back, wide)


def tuple_depth(node: OpBuilder, indices: Tensor, rank: int) -> int:
    """Return the number of axes that the tuples of the last axis of `indices` index."""
    depth = indices.details.plain_dims[-1] if indices.details.rank else 0
    if not 1 <= depth <= rank:
        raise node.rule(
            f"indices must have 1 to {rank} entries on their last axis", str(indices.details)
        )
    return depth


def row_major(node: OpBuilder, tuples: Tensor, dims: Sequence[Size], run: Size = 1) -> Tensor:
    """Offsets, counted in `run` elements, of tuples of indices into `dims`: [...] of [..., axes]."""
    steps = [math.prod(dims[i + 1 :]) * run for i in range(len(dims))]
    scaled = node.helper("mul", node.converted(tuples, S64), size_list(node, steps))
    return node.helper("reduce_sum", scaled, axes=(-1,), keep_dims=False)


def inside_or_nowhere(
    node: OpBuilder, tuples: Tensor, dims: Sequence[Size], offsets: Tensor, run: Size = 1
) -> Tensor:
    """The offsets of tuples that lie in `dims`, else -run, so that a scatter leaves out `run` elements from there."""
    low = node.helper("ge", tuples, node.constant(0, S64))
    high = node.helper("lt", tuples, size_list(node, dims))
    inside = node.helper("reduce_all", node.helper("and", low, high), axes=(-1,), keep_dims=False)
    nowhere = node.helper("sub", node.constant(0, S64), dynamic_size(node, run))
    return node.helper("select", inside, offsets, nowhere)


def gather_nd(node: OpBuilder, x: Tensor, tuples: Tensor, shared: int = 0) -> Tensor:
    """The parts of x at tuples of indices; the first `shared` axes of both belong together."""
    dims, picked = x.details.plain_dims, tuples.details.plain_dims
    if not 0 <= shared < max(len(dims), 1) or picked[:shared] != dims[:shared]:
        raise node.rule(
            f"the first {shared} axes must be equal", f"{x.details} and {tuples.details}"
        )
    depth = tuple_depth(node, tuples, len(dims) - shared)
    own = dims[shared : shared + depth]
    rows = row_major(node, tuples, own)
    if shared:
        batch = positions(node, math.prod(dims[:shared]), 0, 1)
        starts = node.helper("mul", batch, dynamic_size(node, math.prod(own)))
        behind = (1,) * (rows.details.rank - shared)
        rows = node.helper("add", rows, node.reshaped(starts, (*dims[:shared], *behind)))
    flat = node.reshaped(x, (math.prod(dims[: shared + depth]), *dims[shared + depth :]))
    return node.make("gather", flat, rows, axis=0)


def scatter_nd(
    node: OpBuilder, x: Tensor, tuples: Tensor, updates: Tensor, reduction: str, check_bounds: bool
) -> Tensor:
    """X with the parts at tuples of indices replaced by, or combined with, updates."""
    dims, depth = x.details.plain_dims, tuple_depth(node, tuples, x.details.rank)
    wanted, run = (*tuples.details.plain_dims[:-1], *dims[depth:]), math.prod(dims[depth:])
    source = updates.producer_owner
    if source.op_name == "reshape":
        source = source.inputs[0].producer_owner
    if source.op_name == "broadcast" and source.inputs[0].details.elements == 1:
        updates = broadcast_to(node, node.reshaped(source.inputs[0], ()), wanted)
    if updates.details.plain_dims != wanted:
        raise node.rule(f"updates must have shape {sizes_text(wanted)}", str(updates.details))
    if 0 in wanted:
        return x
    offsets = row_major(node, tuples, dims[:depth], run)
    if check_bounds:
        offsets = inside_or_nowhere(node, tuples, dims[:depth], offsets, run)
    return scatter_runs(node, x, offsets, updates, run, reduction)


def scatter_runs(
    node: OpBuilder, x: Tensor, offsets: Tensor, updates: Tensor, run: Size, reduction: str
) -> Tensor:
    """X with `run` elements from each offset on replaced by, or combined with, updates."""
    if not isinstance(run, int):  # an index for each element
        rank = offsets.details.rank
        first = node.reshaped(offsets, (*offsets.details.plain_dims, 1))
        offsets, run = node.helper("add", first, positions(node, run, rank, rank + 1)), 1
    return node.make("scatter", offsets, x, updates, reduction=reduction, run=run)


def batched_gather(node: OpBuilder, x: Tensor, indices: Tensor, axis: int, shared: int) -> Tensor:
    """The first `shared` axes belong together: they are joined with the looked-up axis, and indices moved along."""
    dims, picked = x.details.plain_dims, indices.details.plain_dims
    if axis < shared or dims[:shared] != picked[:shared]:
        raise node.rule(
            f"the first {shared} axes must be equal and not looked up", f"{dims} and {picked}"
        )
    between = range(shared, axis)
    moved = node.transposed(x, [*range(shared), axis, *between, *range(axis + 1, len(dims))])
    count, size, rest = math.prod(dims[:shared]), dims[axis], moved.details.plain_dims[shared + 1 :]
    flat = node.reshaped(moved, (count * size, *rest))
    behind = (1,) * (len(picked) - shared)
    starts = node.helper("mul", positions(node, count, 0, 1), dynamic_size(node, size))
    starts = node.reshaped(starts, (*dims[:shared], *behind))
    rows = node.helper("add", node.converted(indices, S64), starts)
    y = node.make("gather", flat, rows, axis=0)
    # [shared, picked, between, behind] -> [shared, between, picked, behind]
    own, steps = len(picked) - shared, len(between)
    order = (shared, shared + own, shared + own + steps, y.details.rank)
    first, middle, last = (range(a, b) for a, b in zip(order, order[1:], strict=False))
    return node.transposed(y, [*range(shared), *middle, *first, *last])


def index_select(node: OpBuilder, x: Tensor, index: Tensor, axis: int) -> Tensor:
    """The elements of an axis at a vector of indices."""
    if index.details.rank > 1:
        raise node.rule("index must be a vector", str(index.details))
    return node.make("gather", x, node.reshaped(index, (index.details.elements,)), axis=axis)


def embedding(node: OpBuilder, indices: Tensor, table: Tensor) -> Tensor:
    """The rows of a matrix at indices of any shape."""
    if table.details.rank != 2:
        raise node.rule("weight must be a matrix", str(table.details))
    return node.make("gather", table, indices, axis=0)


def sliding_windows(node: OpBuilder, x: Tensor, axis: int, size: int, step: int) -> Tensor:
    """Windows of `size` elements every `step` along an axis, their elements as a new last axis."""
    room = x.details.plain_dims[axis] - size
    if size < 0 or step < 1 or not at_least(room, 0):
        raise node.rule("windows must fit the axis, with a step of 1 or more", f"{size} and {step}")
    begins = node.helper("count_up", size=(floor_quotient(room, step) + 1,), step=step)
    begins = node.reshaped(begins, (*begins.details.plain_dims, 1))
    seen = node.helper("add", begins, node.constant(np.arange(size), S64))
    y = node.make("gather", x, seen, axis=axis)
    return node.transposed(y, [i for i in range(y.details.rank) if i != axis + 1] + [axis + 1])


def take_along(node: OpBuilder, x: Tensor, indices: Tensor, axis: int | None = None) -> Tensor:
    """Elements along an axis, both broadcast along the others; without an axis both count as vectors."""
    index = node.converted(indices, S64)
    if axis is None:
        flat, index = (node.reshaped(t, (t.details.elements,)) for t in (x, index))
        return node.make("gather_elements", flat, index, axis=0)
    dims, wanted = x.details.plain_dims, index.details.plain_dims
    if len(dims) != len(wanted):
        raise node.rule("indices must have the axes of the input", f"{index.details}, {x.details}")
    common = [max(a, b) for a, b in zip(dims, wanted, strict=True)]
    x, index = (
        broadcast_to(node, t, (*common[:axis], t.details.plain_dims[axis], *common[axis + 1 :]))
        for t in (x, index)
    )
    return node.make("gather_elements", x, index, axis=axis)
