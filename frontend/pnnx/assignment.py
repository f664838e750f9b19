"""Operators that write elements into a tensor: scatter, assignment to slices and indices, copies and fills."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...base.dtypes import BOOL, S64
from ...graph_ir.ir.graph import GraphTensor
from .indexing import axis_of, flat_places, index_items, picks_of
from .scope import Handler, Node, Value
from .slicing import kept_sizes, sliced_ranges

_REDUCTIONS = {
    **dict.fromkeys(("add", "sum"), "add"),
    **dict.fromkeys(("multiply", "prod"), "mul"),
    "amin": "min",
    "amax": "max",
}


def _scatter(reduction: str | None) -> Callable[[Node], Value]:
    """`reduction` is implied by the operator's name, or None if a parameter may give it."""

    def run(node: Node) -> Value:
        x, index = node.tensor_of(), node.tensor_of("index", S64)
        axis = axis_of(node, x)
        name = node.word("reduce", "none") if reduction is None else reduction
        if name != "none" and name not in _REDUCTIONS:
            raise node.unsupported(f"reduce={name}")
        if not node.flag("include_self", True):
            raise node.unsupported("include_self=False")
        updates = node.tensor_of("src" if node.given("src") else "value", x.details.dtype)
        wanted = index.details.plain_dims
        if updates.details.rank == 0:
            updates = node.broadcast(updates, wanted)
        if updates.details.rank != len(wanted):
            raise node.rule(
                "src must have the axes of index", f"{updates.details}, {index.details}"
            )
        for place, size in enumerate(
            wanted
        ):  # src may be larger than index: only its start is used
            if updates.details.plain_dims[place] > size:
                updates = node.part().part_of(updates, place, 0, size)
        attrs = {"axis": axis, "reduction": _REDUCTIONS.get(name, "none")}
        return node.make("scatter_elements", x, index, updates, **attrs)

    return run


def _along_axis(reduction: str) -> Callable[[Node], Value]:
    """index_add, index_copy and index_fill: whole slices along an axis, at the indices of a vector."""

    def run(node: Node) -> Value:
        x, index = node.tensor_of(), node.tensor_of("index", S64)
        axis = axis_of(node, x)
        dims, count = x.details.plain_dims, index.details.elements
        sizes = (*dims[:axis], count, *dims[axis + 1 :])
        name = next((n for n in ("source", "tensor") if node.given(n)), "value")
        updates = node.tensor_of(name, x.details.dtype)
        alpha = node.number("alpha", 1)
        if alpha != 1:
            updates = node.helper("mul", updates, node.constant(alpha, x.details.dtype))
        places = node.reshaped(index, (count, *(1,) * (len(dims) - axis - 1)))
        places, updates = node.broadcast(places, sizes), node.broadcast(updates, sizes)
        return node.make("scatter_elements", x, places, updates, axis=axis, reduction=reduction)

    return run


def _index_put(node: Node) -> Value:
    """x[items...] = values, or += with accumulate. A mask takes one value for all of its elements."""
    x, values = node.tensor_of(), node.tensor_of("values")
    values = node.converted(values, x.details.dtype)
    items, accumulate = index_items(node), node.flag("accumulate", False)
    first = items[0] if items else None
    if len(items) == 1 and first is not None and first.details.dtype == BOOL:
        return _masked(node, x, first, values, accumulate)
    picks = picks_of(node, x, items)
    places, updates = flat_places(node, x, picks), node.broadcast(values, picks.dims)
    reduction = "add" if accumulate else "none"
    return node.make("scatter", places, x, updates, reduction=reduction)


def _masked(
    node: Node, x: GraphTensor, mask: GraphTensor, values: GraphTensor, accumulate: bool
) -> GraphTensor:
    dims, covered = x.details.plain_dims, mask.details.plain_dims
    if values.details.elements != 1:
        raise node.unsupported("assigning several values by a mask")
    if dims[: len(covered)] != covered:
        raise node.rule("the mask must have the first axes of the input", f"{mask.details}")
    kept = node.reshaped(mask, (*covered, *(1,) * (len(dims) - len(covered))))
    value = node.reshaped(values, ())
    value = node.helper("add", x, value) if accumulate else value
    return node.make("select", kept, value, x)


def _slice_assign(node: Node) -> Value:
    """x with the elements of a slice replaced by `src`: a scatter with known indices of contiguous runs."""
    x, src = node.tensor_of(), node.tensor_of("src")
    taken, dropped = sliced_ranges(node, x)
    src = node.broadcast(node.converted(src, x.details.dtype), kept_sizes(taken, dropped))
    if not src.details.elements:
        return x
    dims = x.details.plain_dims
    run, last = 1, len(dims)
    while last and taken[last - 1] == range(dims[last - 1]):
        last -= 1
        run *= dims[last]
    places = np.zeros((1,) * last, np.int64)
    for axis in range(last):
        shape = [1] * last
        shape[axis] = len(taken[axis])
        places = places + (np.array(taken[axis]) * math.prod(dims[axis + 1 :])).reshape(shape)
    return node.make("scatter", node.constant(places, S64), x, src, run=run)


def _select_assign(node: Node) -> Value:
    """As a slice of one element, without its axis."""
    x, src = node.tensor_of(), node.tensor_of("src")
    axis, index = axis_of(node, x), node.integer("index")
    dims = x.details.plain_dims
    if not -dims[axis] <= index < dims[axis]:
        raise node.rule(f"the index must be in [{-dims[axis]}, {dims[axis]})", str(index))
    count = math.prod(dims[:axis])
    run = math.prod(dims[axis + 1 :])
    places = (np.arange(count) * dims[axis] + index % dims[axis]) * run
    src = node.broadcast(node.converted(src, x.details.dtype), (*dims[:axis], *dims[axis + 1 :]))
    return node.make("scatter", node.constant(places, S64), x, src, run=run) if run else x


def _copy(node: Node) -> Value:
    """`src` in the shape and the dtype of the tensor it is copied into."""
    x = node.tensor_of()
    src = node.tensor_of("src", x.details.dtype)
    node.flag("non_blocking", False)
    return node.broadcast(src, x.details.plain_dims)


def _fill(node: Node) -> Value:
    x = node.tensor_of()
    return node.broadcast(node.tensor_of("value", x.details.dtype), x.details.plain_dims)


_REPLACE = ("input", "dim", "index", "src", "reduce")
_SLICE = ("input", "src", "dim", "start", "end", "step")

_BY_NAME: dict[str, Handler] = {
    "scatter": Handler(_scatter(None), _REPLACE),
    "scatter_add": Handler(_scatter("add"), _REPLACE[:-1]),
    "scatter_reduce": Handler(_scatter(None), (*_REPLACE, "include_self")),
    "index_add": Handler(_along_axis("add"), ("input", "dim", "index", "source", "alpha")),
    "index_copy": Handler(_along_axis("none"), ("input", "dim", "index", "source")),
    "index_fill": Handler(_along_axis("none"), ("input", "dim", "index", "value")),
    "index_put": Handler(_index_put, ("input", "indices", "values", "accumulate")),
    "slice_scatter": Handler(_slice_assign, _SLICE),
    "slice_copy": Handler(_slice_assign, _SLICE),
    "select_scatter": Handler(_select_assign, ("input", "src", "dim", "index")),
    "copy": Handler(_copy, ("input", "src", "non_blocking")),
    "fill": Handler(_fill, ("input", "value")),
}

HANDLERS: dict[str, Handler] = {
    f"{prefix}{name}": h
    for prefix in ("torch.", "Tensor.", "aten::")
    for name, h in _BY_NAME.items()
}
"""Operators of this family."""
