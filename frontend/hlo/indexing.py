"""Opcodes that index at run time: dynamic-slice, dynamic-update-slice, gather, sort, topk."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base.dtypes import S64
from ...graph_ir.ir.graph import GraphTensor
from .bodies import sort_order
from .reduction import top_k
from .scope import Handler, Step

_MOST_COMPARED = 2048  # elements of an axis that are all compared with one another


def _starts(step: Step, first: int, rank: int) -> list[GraphTensor]:
    """One scalar s64 per axis; the old form has all in one array."""
    tensors = step.tensors()[first:]
    if len(tensors) == 1 and tensors[0].details.plain_dims == (rank,):
        parts = [step.strided(tensors[0], 0, i, 1, 1) for i in range(rank)]
        tensors = [step.reshaped(part, ()) for part in parts]
    return [step.cast(x, S64) for x in tensors]


def _clamped(step: Step, x: GraphTensor, most: int) -> GraphTensor:
    if step.is_clamped(x, most):
        return x
    value = step.known(x)
    if value is not None:
        return step.constant(np.clip(value, 0, most))
    return step.make("min", step.make("max", x, step.constant(0)), step.constant(most))


def _dynamic_slice(step: Step) -> GraphTensor:
    x = step.tensor(0)
    dims, sizes = x.details.plain_dims, step.shape.dims
    for axis, start in enumerate(_starts(step, 1, len(dims))):
        if sizes[axis] == dims[axis]:
            continue
        begin = _clamped(step, start, dims[axis] - sizes[axis])
        known = step.known(begin)
        if known is not None:
            x = step.strided(x, axis, int(known), 1, sizes[axis])
        else:
            places = step.make("add", step.positions(0, 1, sizes[axis]), begin)
            x = step.make("gather", x, places, axis=axis)
    return x


def _dynamic_update_slice(step: Step) -> GraphTensor:
    """The update expanded to the whole array and selected inside its box; inside a loop, a single op.

    That op may write in place (`graph_ir.passes.update_in_place`).
    """
    x, update = step.tensor(0), step.tensor(1)
    dims, sizes = x.details.plain_dims, update.details.plain_dims
    if not update.details.elements:
        return x
    if step.owner.is_inside:
        starts = _starts(step, 2, len(dims))
        return step.graph.make(
            "update_slice",
            [x, update, *starts],
            {"axes": tuple(range(len(dims)))},
            step.instruction.name,
        ).outputs[0]
    inside: GraphTensor | None = None
    for axis, start in enumerate(_starts(step, 2, len(dims))):
        if sizes[axis] == dims[axis]:
            continue
        begin = _clamped(step, start, dims[axis] - sizes[axis])
        here = step.make("sub", step.positions(0, 1, dims[axis]), begin)
        covered = step.make(
            "and",
            step.make("ge", here, step.constant(0)),
            step.make("lt", here, step.constant(sizes[axis])),
        )
        place = step.make("max", here, step.constant(0))
        update = step.make("gather", update, place, axis=axis)
        shape = [1] * len(dims)
        shape[axis] = dims[axis]
        mask = step.reshaped(covered, shape)
        inside = mask if inside is None else step.make("and", inside, mask)
    return update if inside is None else step.make("select", inside, update, x)


def _gather(step: Step) -> GraphTensor:
    taken = _take(step)
    return _general_gather(step) if taken is None else taken


def index_rows(step: Step, indices: GraphTensor) -> tuple[GraphTensor, tuple[int, ...]]:
    """(indices with the vector axis last, s64; sizes of the batch axes)."""
    indices = step.cast(indices, S64)
    dims = indices.details.plain_dims
    vector = step.attribute("index_vector_dim")
    if vector == len(dims):
        return step.reshaped(indices, (*dims, 1)), dims
    order = [*(i for i in range(len(dims)) if i != vector), vector]
    rows = step.transposed(indices, order)
    return rows, rows.details.plain_dims[:-1]


def _take(step: Step) -> GraphTensor | None:
    """Whole rows picked along one axis (an embedding), None for any other gather."""
    x = step.tensor(0)
    dims = x.details.plain_dims
    sizes = step.attribute("slice_sizes")
    mapped = step.attribute("start_index_map", ())
    collapsed = step.attribute("collapsed_slice_dims", ())
    if mapped != collapsed or len(mapped) != 1 or step.attribute("operand_batching_dims", ()):
        return None
    (axis,) = mapped
    if any(
        size != full for i, (size, full) in enumerate(zip(sizes, dims, strict=True)) if i != axis
    ):
        return None
    if not dims[axis]:
        return None
    rows, batch = index_rows(step, step.tensor(1))
    places = _clamped(step, step.reshaped(rows, batch), dims[axis] - 1)
    found = step.make("gather", x, places, axis=axis)
    offsets = step.attribute("offset_dims", ())
    # `found` has the axes before, the batch, the axes after; the output mixes them by offset_dims.
    window = [i if i < axis else i + len(batch) for i in range(len(dims) - 1)]
    inner, outer = iter(window), iter(range(axis, axis + len(batch)))
    rank = len(offsets) + len(batch)
    return step.transposed(found, [next(inner if i in offsets else outer) for i in range(rank)])


def _general_gather(step: Step) -> GraphTensor:
    """Positions in the flattened operand, computed for every element of the output."""
    x = step.tensor(0)
    dims, sizes = x.details.plain_dims, step.attribute("slice_sizes")
    out = step.shape.dims
    if not math.prod(out):
        return step.broadcast(step.constant(0, x.details.dtype), out)
    rows, batch = index_rows(step, step.tensor(1))
    offsets = step.attribute("offset_dims", ())
    batch_axes = [i for i in range(len(out)) if i not in offsets]
    kept = iter(offsets)
    dropped = {
        *step.attribute("collapsed_slice_dims", ()),
        *step.attribute("operand_batching_dims", ()),
    }
    mapped = step.attribute("start_index_map", ())
    place = step.constant(0)
    for axis, size in enumerate(dims):
        start = _axis_start(step, axis, rows, batch, batch_axes, len(out))
        if axis in mapped:
            start = _clamped(step, start, size - sizes[axis])
        if axis not in dropped:
            start = step.make("add", start, step.positions(next(kept), len(out), sizes[axis]))
        stride = step.constant(math.prod(dims[axis + 1 :]))
        place = step.make("add", place, step.make("mul", start, stride))
    flat = step.reshaped(x, (math.prod(dims),))
    return step.make("gather", flat, step.broadcast(place, out), axis=0)


def _axis_start(
    step: Step,
    axis: int,
    rows: GraphTensor,
    batch: tuple[int, ...],
    batch_axes: list[int],
    rank: int,
) -> GraphTensor:
    """Where slices start on an operand axis, over the batch axes of the output."""
    mapped = step.attribute("start_index_map", ())
    batching = step.attribute("operand_batching_dims", ())
    shape = [1] * rank
    for output_axis, size in zip(batch_axes, batch, strict=True):
        shape[output_axis] = size
    if axis in mapped:
        last = len(batch)
        return step.reshaped(step.strided(rows, last, mapped.index(axis), 1, 1), shape)
    if axis in batching:
        vector = step.attribute("index_vector_dim")
        source = step.attribute("start_indices_batching_dims")[batching.index(axis)]
        number = source - (source > vector)
        return step.positions(batch_axes[number], rank, batch[number])
    return step.constant(0)


def _sort(step: Step) -> Any:
    order = sort_order(step.computation("to_apply"))
    arrays = step.tensors()
    dims = arrays[0].details.plain_dims
    axis: int = step.attribute("dimensions", (len(dims) - 1,))[0]
    if not order:
        return _ranked_sort(step, arrays, axis)
    attrs = {"k": dims[axis], "axis": axis, "largest": order == "GT"}
    keys = step.graph.make("top_k", arrays[:1], attrs, step.instruction.name)
    values, places = keys.outputs
    if len(arrays) == 1:
        return values
    others = [step.make("gather_elements", x, places, axis=axis) for x in arrays[1:]]
    return (values, *others)


def _ranked_sort(step: Step, arrays: list[GraphTensor], axis: int) -> Any:
    """Stable sort with any comparator: the rank of each element is the number of elements before it."""
    dims = arrays[0].details.plain_dims
    size, rank = dims[axis], len(dims)
    if size > _MOST_COMPARED:
        raise step.unsupported(
            f"a comparator other than < or > for more than {_MOST_COMPARED} elements"
        )
    # Pairs (j, i) are on two axes that replace the sorted one.
    pairs = (*dims[:axis], size, size, *dims[axis + 1 :])
    operands = []
    for x in arrays:
        for shape in (
            (*dims[: axis + 1], 1, *dims[axis + 1 :]),
            (*dims[:axis], 1, *dims[axis:]),
        ):
            operands.append(step.broadcast(step.reshaped(x, shape), pairs))
    before = step.owner.inline_mapped(step.computation("to_apply"), operands)
    swap = [*range(axis), axis + 1, axis, *range(axis + 2, rank + 1)]
    after = step.transposed(before, swap)
    j, i = (step.positions(axis + k, rank + 1, size) for k in range(2))
    tied = step.make("and", step.make("not", after), step.make("lt", j, i))
    count = step.cast(step.make("or", before, tied), S64)
    place = step.make("reduce_sum", count, axes=(axis,), keep_dims=False)
    # places[r] = the element of rank r, found the same way.
    wide = step.reshaped(place, (*dims[:axis], 1, *dims[axis:]))
    hit = step.make("eq", wide, j)
    found = step.make("reduce_sum", step.make("select", hit, i, step.constant(0)), axes=(axis + 1,))
    results = tuple(step.make("gather_elements", x, found, axis=axis) for x in arrays)
    return results if step.shape.is_tuple else results[0]


def _top_k(step: Step) -> Any:
    return top_k(step, step.tensor(0), step.typed("k", int), step.attribute("largest", True))


INDEXING: dict[str, Handler] = {
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "sort": _sort,
    "topk": _top_k,
}
"""Opcode to handler."""
