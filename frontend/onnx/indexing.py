"""Nodes that look elements up by index along one axis, and running sums."""

from __future__ import annotations

import numpy as np

from ...base.dtypes import S64
from ...graph_ir.ir.graph import GraphTensor
from ..op_builder import Value
from .scope import Handler, NodeContext


def _gather_elements(node: NodeContext) -> Value:
    x = node.tensor(0)
    axis = node.axis(node.attr_int("axis"), x.details.rank)
    return node.make("gather_elements", x, node.tensor(1), axis=axis)


def _scatter_elements(node: NodeContext) -> Value:
    data = node.tensor(0)
    axis = node.axis(node.attr_int("axis"), data.details.rank)
    attrs = {"axis": axis, "reduction": node.attr_text("reduction", "none")}
    return node.make("scatter_elements", data, node.tensor(1), node.tensor(2), **attrs)


def _top_k(node: NodeContext) -> list[Value]:
    x = node.tensor(0)
    given = node.ints(1, "k") if node.opset >= 10 else (node.attr_int("k"),)
    if len(given) != 1:
        raise node.rule("k must be one integer", str(list(given)))
    attrs = {
        "k": given[0],
        "axis": node.axis(node.attr_int("axis"), x.details.rank),
        "largest": bool(node.attr_int("largest")),
    }
    return list(node.scope.graph.make("top_k", [x], attrs, node.name).outputs)


def _steps(node: NodeContext, count: int, axis: int, rank: int) -> GraphTensor:
    """0, 1, ..., count - 1 along `axis`, s64."""
    node.check_array((count,))
    shape = [count if i == axis else 1 for i in range(rank)]
    return node.constant(np.arange(count).reshape(shape), S64)


def _one_hot(node: NodeContext) -> Value:
    """The place along the new axis compared with the index; negative indices count from the back."""
    indices, values = node.converted(node.tensor(0), S64), node.tensor(2)
    given = node.array(1, "a depth")
    if given.size != 1 or values.details.plain_dims != (2,):
        raise node.rule(
            "depth must be one number and values [off, on]", f"{given.shape}, {values.details}"
        )
    depth, dims = int(given.reshape(())), indices.details.plain_dims
    if depth < 1:
        raise node.rule("depth must be 1 or more", str(depth))
    axis = node.axis(node.attr_int("axis"), len(dims) + 1)
    below = node.helper("lt", indices, node.constant(0, S64))
    from_back = node.helper("add", indices, node.constant(depth, S64))
    places = node.helper("select", below, from_back, indices)
    places = node.reshaped(places, (*dims[:axis], 1, *dims[axis:]))
    hit = node.helper("eq", places, _steps(node, depth, axis, len(dims) + 1))
    off, on = (node.reshaped(node.sliced(values, 0, i, 1), ()) for i in (0, 1))
    return node.make("select", hit, on, off)


def _hardmax(node: NodeContext) -> Value:
    """1 at the first largest element; before opset 13 that of all axes from `axis` on together."""
    x = node.tensor(0)
    dims = x.details.plain_dims
    axis = node.axis(node.attr_int("axis"), len(dims))
    if node.opset < 13:
        x = node.reshaped(x, (int(np.prod(dims[:axis])), int(np.prod(dims[axis:]))))
        axis = 1
    place = node.helper("arg_max", x, axis=axis, keep_dims=True)
    size = x.details.plain_dims[axis]
    hit = node.helper("eq", place, _steps(node, size, axis, x.details.rank))
    return node.reshaped(node.make("cast", hit, dtype=x.details.dtype.name), dims)


def _reverse_sequence(node: NodeContext) -> Value:
    """Step t of a sequence of n steps is step n - 1 - t, and t itself behind its end."""
    x, lengths = node.tensor(0), node.tensor(1)
    dims = x.details.plain_dims
    batch, time = node.attr_int("batch_axis"), node.attr_int("time_axis")
    if {batch, time} != {0, 1} or len(dims) < 2:
        raise node.rule("batch_axis and time_axis must be 0 and 1", f"{batch} and {time}")
    if lengths.details.plain_dims != (dims[batch],):
        raise node.rule(f"sequence_lens must have shape [{dims[batch]}]", str(lengths.details))
    steps = _steps(node, dims[time], time, len(dims))
    each = [dims[batch] if i == batch else 1 for i in range(len(dims))]
    ends = node.reshaped(node.converted(lengths, S64), each)
    last = node.helper("sub", ends, node.constant(1, S64))
    turned = node.helper("sub", last, steps)
    places = node.helper("select", node.helper("lt", steps, ends), turned, steps)
    return node.make("gather_elements", x, node.helper("broadcast", places, shape=dims), axis=time)


def _compress(node: NodeContext) -> Value:
    """The slices whose condition holds, which must be known: how many there are is the result's shape."""
    x = node.tensor(0)
    kept = np.flatnonzero(node.array(1, "a condition"))
    axis = 0
    if node.given("axis"):
        axis = node.axis(node.attr_int("axis"), x.details.rank)
    else:
        x = node.reshaped(x, (x.details.elements,))
    if kept.size and kept[-1] >= x.details.plain_dims[axis]:
        raise node.rule(
            f"the condition must not be longer than axis {axis} of {x.details}", str(kept[-1] + 1)
        )
    return node.make("gather", x, node.constant(kept, S64), axis=axis)


def _non_zero(node: NodeContext) -> Value:
    """Where elements are not 0: a size that only values known at import have."""
    found = np.nonzero(np.atleast_1d(node.array(0, "a value to look through")))
    return np.ascontiguousarray(np.stack(found)).astype(np.int64)


def _unique(node: NodeContext) -> list[Value]:
    """The distinct elements or slices, in order or as they come first, where they are known at import."""
    x = node.array(0, "a value to look through")
    axis = node.axis(node.attr_int("axis"), x.ndim) if node.given("axis") else None
    values, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    if not node.attr_int("sorted"):
        order = np.argsort(first)
        values = np.take(values, order, axis=axis or 0)
        inverse, first, counts = np.argsort(order)[inverse], first[order], counts[order]
    places = [part.reshape(-1).astype(np.int64) for part in (first, inverse, counts)]
    return [np.ascontiguousarray(values), *places]


HANDLERS: dict[str, Handler] = {
    "GatherElements": _gather_elements,
    "ScatterElements": _scatter_elements,
    "Scatter": _scatter_elements,
    "TopK": _top_k,
    "OneHot": _one_hot,
    "Hardmax": _hardmax,
    "ReverseSequence": _reverse_sequence,
    "Compress": _compress,
    "NonZero": _non_zero,
    "Unique": _unique,
}
