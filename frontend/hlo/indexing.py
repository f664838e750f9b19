"""Ops that index at run time: dynamic-slice, dynamic-update-slice, gather."""

from __future__ import annotations

import math

import numpy as np

from ...base.dtypes import S64
from ...graph_ir.ir.graph import GraphTensor
from ...graph_ir.ops.gather import Gather, GatherElements
from ...graph_ir.ops.update_slice import UpdateSlice
from ...graph_ir.rewriting.known_values import clamp_limits
from ..correspondence.compositions.indexing import positions, selected_update
from ..correspondence.writing import Write
from .formulas import compare
from .frame import Value, Writer
from .index_map import IndexMap
from .scope import Handler, Step


def _starts(step: Step, first: int, rank: int) -> list[GraphTensor]:
    """One scalar s64 per axis; the old form has all in one array."""
    tensors = step.tensors()[first:]
    if len(tensors) == 1 and tensors[0].details.plain_dims == (rank,):
        parts = [step.sliced(tensors[0], 0, i, 1) for i in range(rank)]
        tensors = [step.reshaped(part, ()) for part in parts]
    if len(tensors) != rank or any(x.details.rank for x in tensors):
        rule = f"it must have a scalar start for each of the {rank} axes"
        raise step.rule(rule, str(len(tensors)))
    return [step.converted(x, S64) for x in tensors]


def _clamped(step: Step, x: GraphTensor, most: int) -> GraphTensor:
    if step.is_clamped(x, most):
        return x
    value = step.known(x)
    if value is not None:
        return step.constant(np.clip(value, 0, most))
    return step.make("min", step.make("max", x, step.constant(0)), step.constant(most))


def _fitting(step: Step, x: GraphTensor, name: str) -> tuple[int, ...]:
    """The sizes of a slice, which must fit into x."""
    dims, sizes = x.details.plain_dims, step.attribute(name)
    if len(sizes) != len(dims) or any(not 0 <= s <= d for s, d in zip(sizes, dims, strict=True)):
        raise step.rule(f"{name} must fit {step.shown(x)}", str([*sizes]))
    return tuple(sizes)


def _dynamic_slice(step: Step) -> GraphTensor:
    x = step.tensor(0)
    dims, sizes = x.details.plain_dims, _fitting(step, x, "dynamic_slice_sizes")
    for axis, start in enumerate(_starts(step, 1, len(dims))):
        if sizes[axis] == dims[axis]:
            continue
        begin = _clamped(step, start, dims[axis] - sizes[axis])
        known = step.known(begin)
        if known is not None:
            x = step.sliced(x, axis, int(known), sizes[axis])
        else:
            moved = step.make("add", positions(step, sizes[axis], 0, 1), begin)
            x = step.make("gather", x, moved, axis=axis)
    return x


def _dynamic_update_slice(step: Step) -> GraphTensor:
    """The update expanded to the whole array and selected inside its box; inside a loop, a single op.

    That op may write in place (`graph_ir.passes.update_in_place`).
    """
    x, update = step.tensor(0), step.tensor(1)
    dims, sizes = x.details.plain_dims, update.details.plain_dims
    starts = _starts(step, 2, len(dims))
    small = len(sizes) == len(dims) and all(s <= d for s, d in zip(sizes, dims, strict=True))
    if not small or update.details.dtype != x.details.dtype:
        raise step.rule(f"the update must fit {step.shown(x)}", step.shown(update))
    if not update.details.elements:
        return x
    if step.owner.is_inside:
        return step.make("update_slice", x, update, *starts, axes=tuple(range(len(dims))))
    begins = {
        axis: _clamped(step, start, dims[axis] - sizes[axis])
        for axis, start in enumerate(starts)
        if sizes[axis] != dims[axis]
    }
    return selected_update(step, x, update, begins)


def _gather(step: Step) -> GraphTensor:
    x, indices = step.tensors(2)
    dims, sizes = x.details.plain_dims, _fitting(step, x, "slice_sizes")
    index = IndexMap(
        step, x, indices, "start_index_map", "collapsed_slice_dims", "operand_batching_dims",
        "start_indices_batching_dims",
    )  # fmt: skip
    if any(size > 1 for axis, size in enumerate(sizes) if axis not in index.kept):
        raise step.fail("slice_sizes must be 1 on collapsed and batching axes")
    rank = len(index.kept) + len(index.batch)
    offsets = step.axes("offset_dims", rank)
    if len(offsets) != len(index.kept):
        raise step.rule(f"offset_dims must name {len(index.kept)} axes", str(len(offsets)))
    # Parts have the batch axes, then those of the window; the result mixes them by offset_dims.
    inner, outer = iter(range(len(index.batch), rank)), iter(range(len(index.batch)))
    order = [next(inner if i in offsets else outer) for i in range(rank)]
    window = {axis: sizes[axis] for axis in index.kept}
    if not math.prod((*index.batch, *window.values())):
        shape = (*index.batch, *window.values())
        zero = step.constant(0, x.details.dtype)
        return step.broadcast(zero, [shape[i] for i in order])
    if len(index.mapped) == 1 and window == {
        axis: size for axis, size in enumerate(dims) if axis != index.mapped[0]
    }:
        return _take(step, x, index, order)
    origin: GraphTensor | None = None
    for axis, start in index.starts():
        clamped = _clamped(step, start, dims[axis] - sizes[axis]) if axis in index.mapped else start
        origin = index.added(origin, clamped, axis)
    origin = index.spread(origin, window)
    flat = step.reshaped(x, (math.prod(dims),))
    whole = step.broadcast(origin, (*index.batch, *window.values()))
    return step.transposed(step.make("gather", flat, whole, axis=0), order)


def _take(step: Step, x: GraphTensor, index: IndexMap, order: list[int]) -> GraphTensor:
    """Whole rows picked along one axis (an embedding)."""
    ((axis, rows),) = index.starts()
    clamped = _clamped(step, rows, x.details.plain_dims[axis] - 1)
    found = step.make("gather", x, clamped, axis=axis)
    # `found` has the axes before, the batch, the axes after.
    count = len(index.batch)
    window = [i if i < axis else i + count for i in range(x.details.rank - 1)]
    batch_first = [*range(axis, axis + count), *window]
    return step.transposed(found, [batch_first[i] for i in order])


HANDLERS: dict[str, Handler] = {
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
}


def _wrapped(writer: Writer, tensor: GraphTensor, size: int) -> Value:
    """Negative indices counted from the back, as s64; indices that cannot be negative are unchanged."""
    indices = writer.cast(writer.operand(tensor), S64)
    value = writer.known(tensor)
    limits = clamp_limits(tensor, writer.known)
    if (limits and limits[0] >= 0) or (value is not None and (value >= 0).all()):
        return indices
    zero, length = (
        writer.broadcast(writer.constant(number, S64), indices.dims) for number in (0, size)
    )
    negative = compare(writer, "lt", indices, zero)
    return writer.same("select", negative, writer.same("add", indices, length), indices)


def _write_gather(writer: Writer, op: Gather) -> Value:
    x = writer.operand(op.inputs[0])
    return writer.take(x, _wrapped(writer, op.inputs[1], x.dims[op.axis]), op.axis, op.name)


def _write_update_slice(writer: Writer, op: UpdateSlice) -> Value:
    x, update, *starts = writer.operands(op)
    given, zero = dict(zip(op.axes, starts, strict=True)), writer.constant(0, S64)
    corner = [given.get(axis, zero) for axis in range(len(x.dims))]
    return writer.apply("dynamic-update-slice", [x, update, *corner], x.dtype, x.dims, op.name)


def _write_gather_elements(writer: Writer, op: GatherElements) -> Value:
    """A gather of single elements, whose index rows contain the element's own position on the other axes."""
    x, indices = writer.operands(op)
    wrapped = _wrapped(writer, op.inputs[1], x.dims[op.axis])
    cells, rank = (*indices.dims, 1), len(x.dims)
    parts = [
        writer.reshape(wrapped, cells)
        if axis == op.axis
        else writer.apply("iota", [], S64, cells, iota_dimension=axis)
        for axis in range(rank)
    ]
    rows = writer.apply("concatenate", parts, S64, (*indices.dims, rank), dimensions=[rank])
    return writer.apply(
        "gather",
        [x, rows],
        x.dtype,
        indices.dims,
        op.name,
        offset_dims=[],
        collapsed_slice_dims=range(rank),
        start_index_map=range(rank),
        index_vector_dim=rank,
        slice_sizes=[1] * rank,
    )


EXPORTERS: dict[str, Write] = {
    "gather": _write_gather,
    "gather_elements": _write_gather_elements,
    "update_slice": _write_update_slice,
}
