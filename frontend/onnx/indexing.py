"""Reads and writes lookups by index along one axis that rows of the table cannot express."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from ...base.dims import Dim
from ...base.dtypes import S32, S64
from ...base.size_limits import at_least
from ...graph_ir.ir.graph import GraphTensor, Op
from ..correspondence.compositions.counted import (
    Distinct,
    along,
    distinct,
    is_set,
    nonzero,
    rows_where,
    stacked,
)
from ..correspondence.compositions.indexing import dynamic_size, positions
from ..correspondence.compositions.movement import select_index
from ..correspondence.reading import Pair
from ..correspondence.writing import InexpressibleError
from ..op_builder import Value
from .export import ELEMENT_TYPES, Exporter
from .scope import Handler, NodeContext


def _read_gather(node: NodeContext, _: str) -> Value:
    x = node.tensor(0)
    dims = x.details.plain_dims
    axis = node.axis(node.attr_int("axis"), len(dims))
    known = node.known(1)
    if known is None or known.dtype == object:  # dynamic sizes among them
        return node.make("gather", x, node.tensor(1), axis=axis)
    if known.dtype.kind not in "iu":
        raise node.rule("indices must be integers", known.dtype.name)
    size = dims[axis]
    needed = max(-int(known.min()), int(known.max()) + 1) if known.size else 0
    if not at_least(size, needed):
        raise node.rule(f"indices must be in [{-size}, {size})", f"{known.min()}..{known.max()}")
    if known.ndim:
        return node.make("gather", x, node.tensor(1), axis=axis)
    # One fixed index is a slice: no index to load at run time.
    return select_index(node, x, axis, int(known))


def _indices(e: Exporter, op: Op, tensor: GraphTensor) -> str:
    """Indices in a type that ONNX accepts."""
    value = e.operand(tensor)
    if tensor.details.dtype in (S32, S64):
        return value
    return e.part(op, "Cast", [value], S64, to=ELEMENT_TYPES[S64])


def _write_indexed(e: Exporter, op: Op, op_type: str) -> None:
    """Gathers and scatters of elements; the second operand are the indices."""
    inputs = [e.operand(x) for x in op.inputs]
    inputs[1] = _indices(e, op, op.inputs[1])
    reduction = cast(Any, op).reduction if op.op_name == "scatter_elements" else None
    e.node(op, op_type, inputs, axis=cast(Any, op).axis, reduction=reduction)


def _write_update_slice(e: Exporter, op: Op) -> None:
    x, update, *starts = e.values(op)
    whole, part = (tensor.details.plain_dims for tensor in op.inputs[:2])
    moved = [
        (axis, start)
        for axis, start in zip(op.attr("axes"), starts, strict=True)
        if part[axis] != whole[axis]
    ]
    if len(moved) != 1:
        if moved:
            raise InexpressibleError("update_slice along several axes")
        e.node(op, "Identity", [update])
        return
    ((axis, start),) = moved
    begin = e.part(op, "Max", [start, e.scalar(op, "first", 0, S64)])
    begin = e.part(op, "Min", [begin, e.scalar(op, "last", whole[axis] - part[axis], S64)])
    rows = np.arange(part[axis]).reshape([-1 if a == axis else 1 for a in range(len(part))])
    at = e.part(op, "Add", [e.constant(op, "positions", rows), begin])
    at = e.part(op, "Expand", [at, e.constant(op, "sizes", np.array(part, np.int64))])
    e.node(op, "ScatterElements", [x, at, update], axis=axis)


def _one_hot(node: NodeContext) -> Value:
    """The position along the new axis compared with the index; negative indices count from the back."""
    indices, values = node.converted(node.tensor(0), S64), node.tensor(2)
    given = node.array(1, "a depth", sizes=True)
    if given.size != 1 or values.details.plain_dims != (2,):
        raise node.rule(
            "depth must be one number and values [off, on]", f"{given.shape}, {values.details}"
        )
    depth, dims = given.reshape(-1)[0], indices.details.plain_dims
    depth = depth if isinstance(depth, Dim) else int(depth)
    if not isinstance(depth, Dim) and depth < 1:
        raise node.rule("depth must be 1 or more", str(depth))
    axis = node.axis(node.attr_int("axis"), len(dims) + 1)
    below = node.helper("lt", indices, node.constant(0, S64))
    from_back = node.helper("add", indices, dynamic_size(node, depth))
    wanted = node.helper("select", below, from_back, indices)
    wanted = node.reshaped(wanted, (*dims[:axis], 1, *dims[axis:]))
    hit = node.helper("eq", wanted, positions(node, depth, axis, len(dims) + 1))
    off, on = (node.reshaped(node.sliced(values, 0, i, 1), ()) for i in (0, 1))
    return node.make("select", hit, on, off)


def _hardmax(node: NodeContext) -> Value:
    """1 at the first largest element; before opset 13 that of all axes from `axis` on together."""
    x = node.tensor(0)
    dims = x.details.plain_dims
    axis = node.axis(node.attr_int("axis"), len(dims))
    if node.opset < 13:
        x = node.reshaped(x, (math.prod(dims[:axis]), math.prod(dims[axis:])))
        axis = 1
    found = node.helper("arg_max", x, axis=axis, keep_dims=True)
    size = x.details.plain_dims[axis]
    hit = node.helper("eq", found, positions(node, size, axis, x.details.rank))
    return node.reshaped(node.make("cast", hit, dtype=x.details.dtype.name), dims)


def _reverse_sequence(node: NodeContext) -> Value:
    """Step t of a sequence of n steps is step n - 1 - t, and t itself after its end."""
    x, lengths = node.tensor(0), node.tensor(1)
    dims = x.details.plain_dims
    batch, time = node.attr_int("batch_axis"), node.attr_int("time_axis")
    if {batch, time} != {0, 1} or len(dims) < 2:
        raise node.rule("batch_axis and time_axis must be 0 and 1", f"{batch} and {time}")
    if lengths.details.plain_dims != (dims[batch],):
        raise node.rule(f"sequence_lens must have shape [{dims[batch]}]", str(lengths.details))
    steps = positions(node, dims[time], time, len(dims))
    each = [dims[batch] if i == batch else 1 for i in range(len(dims))]
    ends = node.reshaped(node.converted(lengths, S64), each)
    last = node.helper("sub", ends, node.constant(1, S64))
    mirrored = node.helper("sub", last, steps)
    order = node.helper("select", node.helper("lt", steps, ends), mirrored, steps)
    return node.make("gather_elements", x, node.helper("broadcast", order, shape=dims), axis=time)


def _compress(node: NodeContext) -> Value:
    """The slices whose condition is true."""
    x = node.tensor(0)
    axis = 0
    if node.given("axis"):
        axis = node.axis(node.attr_int("axis"), x.details.rank)
    else:
        x = node.reshaped(x, (x.details.elements,))
    if node.known(1) is None:
        mask = is_set(node, node.tensor(1))
        return rows_where(node, x, mask, axis, node.counted_name(0, axis))
    kept = np.flatnonzero(node.array(1, "a condition"))
    if kept.size and kept[-1] >= x.details.plain_dims[axis]:
        raise node.rule(
            f"the condition must not be longer than axis {axis} of {x.details}", str(kept[-1] + 1)
        )
    return node.make("gather", x, node.constant(kept, S64), axis=axis)


def _non_zero(node: NodeContext) -> Value:
    """Indices of non-zero elements; of a scalar [0, count], unlike in NumPy."""
    rank = node.details(0).rank
    if node.known(0) is None:
        found = stacked(node, nonzero(node, node.tensor(0), node.counted_name(0, 1)), 0)
        return node.sliced(found, 0, 0, rank)
    known = np.nonzero(np.atleast_1d(node.array(0, "a value to look through")))
    return np.stack(known)[:rank].astype(np.int64)


def _unique(node: NodeContext) -> list[Value]:
    """The distinct elements or slices, sorted or in order of appearance."""
    details, in_order = node.details(0), bool(node.attr_int("sorted"))
    axis = node.axis(node.attr_int("axis"), details.rank) if node.given("axis") else None
    if node.known(0) is None:

        def find(x: GraphTensor) -> Distinct:
            return distinct(node, x, in_order, node.counted_name(0, axis or 0))

        given = node.tensor(0)
        if axis is None or details.rank == 1:
            found = find(node.reshaped(given, (details.elements,)))
        else:
            found = along(node, given, axis, find)
        return [found.values, found.first, found.inverse, found.counts]
    values, first, inverse, counts = np.unique(
        node.array(0), return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    if not in_order:
        order = np.argsort(first)
        values = np.take(values, order, axis=axis or 0)
        inverse, first, counts = np.argsort(order)[inverse], first[order], counts[order]
    others = [part.reshape(-1).astype(np.int64) for part in (first, inverse, counts)]
    return [np.ascontiguousarray(values), *others]


PAIRS = {"gather": Pair(_read_gather, _write_indexed), "elements": Pair(None, _write_indexed)}

HANDLERS: dict[str, Handler] = {
    "OneHot": _one_hot, "Hardmax": _hardmax, "ReverseSequence": _reverse_sequence, "Compress": _compress,
    "NonZero": _non_zero, "Unique": _unique,
}  # fmt: skip

EXPORTERS = {"update_slice": _write_update_slice}
