"""Shape rules of opcodes with windows and index maps: dot, convolution, reduce-window, gather, slices at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .shape_site import Site
from .shapes import Shape, tuple_shape
from .syntax import DimLabels, WindowDimension


def _dot(site: Site) -> Shape:
    site.count(2, -1)
    a, b = site.array(0), site.array(1)
    sides = []
    for side, x in (("lhs", a), ("rhs", b)):
        batch = site.axes(f"{side}_batch_dims", x.rank, ())
        contracting = site.axes(f"{side}_contracting_dims", x.rank, ())
        if set(batch) & set(contracting):
            raise site.fail(f"an axis of the {side} must not be batch and contracting at once")
        sides.append((x, batch, contracting))
    (_, a_batch, a_inner), (_, b_batch, b_inner) = sides
    for what, mine, other in (("batch", a_batch, b_batch), ("contracting", a_inner, b_inner)):
        sizes = [a.dims[i] for i in mine], [b.dims[i] for i in other]
        if sizes[0] != sizes[1]:
            raise site.fail(f"{what} sizes must agree, got {sizes[0]} and {sizes[1]}")
    dims = [a.dims[i] for i in a_batch]
    for x, batch, inner in sides:
        dims += [size for i, size in enumerate(x.dims) if i not in batch and i not in inner]
    written = site.instruction.shape
    return Shape(written.type if written else a.type, tuple(dims))


def window_size(size: int, w: WindowDimension) -> int:
    """Positions of one axis of a window over `size` elements."""
    padded = (max(size - 1, 0) * w.base_dilation + 1 if size else 0) + w.low + w.high
    extent = (w.size - 1) * w.window_dilation + 1
    return max((padded - extent) // w.stride + 1, 0) if padded >= extent else 0


def _window(site: Site, rank: int) -> tuple[WindowDimension, ...]:
    window: tuple[WindowDimension, ...] = site.attribute("window", tuple, ())
    if len(window) != rank:
        raise site.fail(f"window must have {rank} axes, got {len(window)}")
    for w in window:
        if min(w.size, w.stride, w.base_dilation, w.window_dilation) < 1:
            raise site.fail("sizes, strides and dilations of a window must be 1 or more")
    return window


def _convolution(site: Site) -> Shape:
    site.count(2)
    x, w = site.array(0), site.array(1)
    labels = site.attribute("dim_labels", DimLabels)
    rank = x.rank - 2
    for text, shape, letters in (
        (labels.lhs, x, "bf"),
        (labels.rhs, w, "io"),
        (labels.output, None, "bf"),
    ):
        wanted = sorted(letters + "".join(map(str, range(rank))))
        if sorted(text) != wanted or (shape is not None and shape.rank != rank + 2):
            raise site.fail(
                f"dim_labels must name {letters[0]}, {letters[1]} and {rank} spatial axes, got '{text}'"
            )
    windows = _window(site, rank)
    groups = site.attribute("feature_group_count", int, 1)
    batches = site.attribute("batch_group_count", int, 1)
    features, filters = w.dims[labels.rhs.index("i")], w.dims[labels.rhs.index("o")]
    if min(groups, batches) < 1 or x.dims[labels.lhs.index("f")] != features * groups:
        raise site.fail(
            f"input features must be {features} times {groups} groups, "
            f"got {x.dims[labels.lhs.index('f')]}"
        )
    if filters % groups or filters % batches or x.dims[labels.lhs.index("b")] % batches:
        raise site.fail("group counts must divide the output features and the batch")
    sizes = {"b": x.dims[labels.lhs.index("b")] // batches, "f": filters}
    for axis, window in enumerate(windows):
        letter = str(axis)
        if w.dims[labels.rhs.index(letter)] != window.size:
            raise site.fail(f"window size {axis} must be that of the kernel, got {window.size}")
        sizes[letter] = window_size(x.dims[labels.lhs.index(letter)], window)
    written = site.instruction.shape
    return Shape(written.type if written else x.type, tuple(sizes[c] for c in labels.output))


def _reduce_window(site: Site) -> Shape:
    site.count(2, -1)
    count = len(site.operands) // 2
    x = site.array(0)
    windows = _window(site, x.rank)
    dims = tuple(window_size(size, w) for size, w in zip(x.dims, windows, strict=True))
    _, result = site.called("to_apply")
    if any(site.array(i).dims != x.dims for i in range(count)):
        raise site.fail("its arrays must have one shape")
    shapes = tuple(Shape(site.array(i).type, dims) for i in range(count))
    return tuple_shape(shapes) if result.is_tuple else shapes[0]


def _dynamic_slice(site: Site) -> Shape:
    site.count(1, -1)
    x, sizes = site.array(0), site.integers("dynamic_slice_sizes")
    _check_starts(site, 1, x)
    if len(sizes) != x.rank or any(not 0 <= s <= d for s, d in zip(sizes, x.dims, strict=True)):
        raise site.fail(f"dynamic_slice_sizes must fit {x.logical()}, got {list(sizes)}")
    return Shape(x.type, sizes)


def _check_starts(site: Site, first: int, x: Shape) -> None:
    starts = [site.array(i) for i in range(first, len(site.operands))]
    one_array = len(starts) == 1 and starts[0].dims == (x.rank,)
    if not one_array and (len(starts) != x.rank or any(s.dims for s in starts)):
        raise site.fail(
            f"it must have a scalar start for each of the {x.rank} axes, got {len(starts)}"
        )


def _dynamic_update_slice(site: Site) -> Shape:
    site.count(2, -1)
    x, update = site.array(0), site.array(1)
    _check_starts(site, 2, x)
    fits = update.rank == x.rank and all(u <= d for u, d in zip(update.dims, x.dims, strict=True))
    if not fits or update.type != x.type:
        raise site.fail(f"the update must fit {x.logical()}, got {update.logical()}")
    return x


def _gather(site: Site) -> Shape:
    site.count(2)
    x, indices = site.array(0), site.array(1)
    sizes = site.integers("slice_sizes")
    if len(sizes) != x.rank or any(not 0 <= s <= d for s, d in zip(sizes, x.dims, strict=True)):
        raise site.fail(f"slice_sizes must fit {x.logical()}, got {list(sizes)}")
    dropped = {
        *site.axes("collapsed_slice_dims", x.rank, ()),
        *site.axes("operand_batching_dims", x.rank, ()),
    }
    if any(sizes[axis] > 1 for axis in dropped):
        raise site.fail("slice_sizes must be 1 on collapsed and batching axes")
    window = [size for axis, size in enumerate(sizes) if axis not in dropped]
    vector = site.attribute("index_vector_dim", int)
    batch = [size for axis, size in enumerate(indices.dims) if axis != vector]
    rank = len(window) + len(batch)
    offsets = site.axes("offset_dims", rank)
    vector_size = indices.dims[vector] if 0 <= vector < indices.rank else 1
    starts = site.axes("start_index_map", x.rank)
    if len(offsets) != len(window) or len(starts) != vector_size:
        raise site.fail(
            f"offset_dims must name {len(window)} axes and start_index_map {vector_size}, "
            f"got {len(offsets)} and {len(starts)}"
        )
    inner, outer = iter(window), iter(batch)
    return Shape(x.type, tuple(next(inner if i in offsets else outer) for i in range(rank)))


def _scatter(site: Site) -> Shape:
    site.count(3, -1)
    if not len(site.operands) % 2:
        raise site.fail(f"it must have an odd number of operands, got {len(site.operands)}")
    count = len(site.operands) // 2
    data, updates = ([site.array(first + i) for i in range(count)] for first in (0, count + 1))
    for x, update in zip(data, updates, strict=True):
        if x.dims != data[0].dims or update.dims != updates[0].dims or update.type != x.type:
            raise site.fail(
                f"its arrays must have one shape, got {x.logical()}, {update.logical()}"
            )
    _check_scatter_axes(site, data[0], site.array(count), updates[0])
    parameters, result = site.called("to_apply")
    site.takes("to_apply", parameters, [Shape(x.type) for x in (*data, *data)])
    wanted = [Shape(x.type) for x in data]
    found = list(result.elements) if result.is_tuple else [result]
    if len(found) != count or not all(f.matches(w) for f, w in zip(found, wanted, strict=True)):
        raise site.fail(f"to_apply must give a scalar of each array, got {result.logical()}")
    return tuple_shape(tuple(data)) if result.is_tuple else data[0]


def _check_scatter_axes(site: Site, x: Shape, indices: Shape, update: Shape) -> None:
    """The window axes of the updates are those of x that are neither inserted nor batching, and fit in them."""
    window = site.axes("update_window_dims", update.rank, ())
    batching = site.axes("input_batching_dims", x.rank, ())
    dropped = {*site.axes("inserted_window_dims", x.rank, ()), *batching}
    kept = [axis for axis in range(x.rank) if axis not in dropped]
    sizes = [update.dims[axis] for axis in window]
    if len(window) != len(kept) or any(s > x.dims[a] for s, a in zip(sizes, kept, strict=True)):
        raise site.fail(
            f"update_window_dims must name {len(kept)} axes that fit axes {kept} of {x.logical()}, "
            f"got sizes {sizes}"
        )
    vector = site.attribute("index_vector_dim", int)
    if not 0 <= vector <= indices.rank:
        raise site.fail(f"index_vector_dim must be in [0, {indices.rank}], got {vector}")
    mapped = site.axes("scatter_dims_to_operand_dims", x.rank, ())
    count = indices.dims[vector] if vector < indices.rank else 1
    batch = [size for axis, size in enumerate(indices.dims) if axis != vector]
    scattered = [size for axis, size in enumerate(update.dims) if axis not in window]
    if len(mapped) != count or batch != scattered:
        raise site.fail(
            f"{indices.logical()} must hold {len(mapped)} indices for each of the updates' "
            f"{scattered}, got {count} for each of {batch}"
        )
    if len(batching) != len(site.axes("scatter_indices_batching_dims", indices.rank, ())):
        raise site.fail("input_batching_dims and scatter_indices_batching_dims must be as many")


def _select_and_scatter(site: Site) -> Shape:
    site.count(3)
    x, source, initial = (site.array(i) for i in range(3))
    windows = _window(site, x.rank)
    dims = tuple(window_size(size, w) for size, w in zip(x.dims, windows, strict=True))
    if not source.matches(Shape(x.type, dims)) or not initial.matches(Shape(x.type)):
        raise site.fail(
            f"its source must be {Shape(x.type, dims).logical()} and its initial value {x.type}[], "
            f"got {source.logical()} and {initial.logical()}"
        )
    for name, wanted in (("select", Shape("pred")), ("scatter", Shape(x.type))):
        parameters, result = site.called(name)
        site.takes(name, parameters, [Shape(x.type)] * 2)
        if not result.matches(wanted):
            raise site.fail(f"{name} must give {wanted.logical()}, got {result.logical()}")
    return x


WINDOW_RULES: dict[str, Callable[[Site], Any]] = {
    "dot": _dot,
    "convolution": _convolution,
    "reduce-window": _reduce_window,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scatter,
    "select-and-scatter": _select_and_scatter,
}
"""Opcode to rule."""
