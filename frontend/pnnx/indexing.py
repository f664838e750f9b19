"""Operators that select elements by index tensors: gather, advanced indexing, embeddings, windows, diagonals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...base.dtypes import BOOL, S64
from ...graph_ir.ir.graph import GraphTensor
from .builder import Builder
from .expression import evaluate_expression, parse_expression
from .scope import Handler, Node, Value


def axis_of(node: Node, x: GraphTensor, default: int = 0) -> int:
    """The axis `dim` of a tensor that has axes."""
    if not x.details.rank:
        raise node.rule("the input must have axes", str(x.details))
    return node.axis(node.integer("dim", default), x.details.rank)


def _index_select(node: Node) -> Value:
    x = node.tensor_of()
    axis, index = axis_of(node, x), node.tensor_of("index")
    if index.details.rank > 1:
        raise node.rule("index must be a vector", str(index.details))
    return node.make("gather", x, node.reshaped(index, (index.details.elements,)), axis=axis)


def _gather(node: Node) -> Value:
    """out[i][j] = x[index[i][j]][j] for dim 0."""
    x, index = node.tensor_of(), node.tensor_of("index", S64)
    axis = axis_of(node, x)
    node.flag("sparse_grad", False)
    return node.make("gather_elements", x, index, axis=axis)


def _take_along(node: Node) -> Value:
    """As gather, with both broadcast along the other axes; without dim both count as vectors."""
    x, index = node.tensor_of(), node.tensor_of("indices", S64)
    if not node.given("dim"):
        flat, places = (node.reshaped(t, (t.details.elements,)) for t in (x, index))
        return node.make("gather_elements", flat, places, axis=0)
    axis = axis_of(node, x)
    dims, wanted = x.details.plain_dims, index.details.plain_dims
    if len(dims) != len(wanted):
        raise node.rule("indices must have the axes of the input", f"{index.details}, {x.details}")
    common = [max(a, b) for a, b in zip(dims, wanted, strict=True)]
    x, index = (
        node.broadcast(t, [*common[:axis], t.details.plain_dims[axis], *common[axis + 1 :]])
        for t in (x, index)
    )
    return node.make("gather_elements", x, index, axis=axis)


# Advanced indexing: x[:, i, j].

_INDEX_SLOTS = ("indices", *(f"indices_{number}" for number in range(1, 8)))
"""A list of indices, or the tensors of the operator's own expression."""


@dataclass(frozen=True)
class Picks:
    """The elements that x[items...] selects: an integer tensor for each axis of `axes`; other axes are whole.

    `dims` is the shape of the result, whose picked axes start at `start` and have the shape `common`.
    """

    axes: tuple[int, ...]
    tensors: tuple[GraphTensor, ...]
    common: tuple[int, ...]
    start: int
    dims: tuple[int, ...]


def index_items(node: Node) -> list[GraphTensor | None]:
    """The index list: tensors, and None for whole axes."""
    text = node.text("expr")
    if text is not None:
        others = [node.scope.values[operand] for operand in node.op.inputs[1:]]
        for name in _INDEX_SLOTS:
            node.argument(name)
        value: Value = evaluate_expression(parse_expression(text), others, node.part())
    else:
        value = node.argument("expr" if node.given("expr") else "indices")
    items: list[GraphTensor | None] = []
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, int) and not isinstance(item, bool):
            item = node.constant(item, S64)
        if item is not None and not isinstance(item, GraphTensor):
            raise node.rule("an index must be a tensor or None", repr(item)[:64])
        items.append(item)
    return items


def picks_of(node: Node, x: GraphTensor, items: Sequence[GraphTensor | None]) -> Picks:
    """PyTorch's rule: adjacent indices put their axes in place, separated indices put them first."""
    axes = tuple(axis for axis, item in enumerate(items) if item is not None)
    given = [item for item in items if item is not None]
    if len(items) > x.details.rank or not given:
        raise node.rule("there must be an index for some axes", f"{len(items)} for {x.details}")
    if any(item.details.dtype == BOOL for item in given):
        raise node.unsupported("picking by a mask, whose number of elements the data decides,")
    if any(item.details.dtype.is_float for item in given):
        raise node.rule("an index must hold integers", str(given[0].details))
    try:
        common = np.broadcast_shapes(*(item.details.plain_dims for item in given))
    except ValueError as error:
        shown = ", ".join(str(item.details) for item in given)
        raise node.rule("indices must broadcast to one shape", shown) from error
    is_block = axes == tuple(range(axes[0], axes[-1] + 1))
    start = axes[0] if is_block else 0
    rest = [size for axis, size in enumerate(x.details.plain_dims) if axis not in axes]
    dims = (*rest[:start], *common, *rest[start:])
    return Picks(axes, tuple(given), tuple(common), start, dims)


def flat_places(b: Builder, x: GraphTensor, picks: Picks) -> GraphTensor:
    """The flat index in x of each selected element, s64 in the result's shape."""
    dims = x.details.plain_dims
    strides = [math.prod(dims[axis + 1 :]) for axis in range(len(dims))]
    behind = len(picks.dims) - picks.start - len(picks.common)
    total: GraphTensor | None = None
    for axis, item in zip(picks.axes, picks.tensors, strict=True):
        index = b.converted(item, S64)
        below = b.helper("lt", index, b.constant(0, S64))
        wrapped = b.helper("add", index, b.constant(dims[axis], S64))
        index = b.helper("select", below, wrapped, index)
        term = b.helper("mul", index, b.constant(strides[axis], S64))
        term = b.reshaped(term, (*term.details.plain_dims, *(1,) * behind))
        total = term if total is None else b.helper("add", total, term)
    whole = np.zeros((), np.int64)
    rest = [axis for axis in range(len(dims)) if axis not in picks.axes]
    for number, axis in enumerate(rest):
        place = number if number < picks.start else number + len(picks.common)
        shape = [1] * len(picks.dims)
        shape[place] = dims[axis]
        whole = whole + (np.arange(dims[axis]) * strides[axis]).reshape(shape)
    assert total is not None  # picks_of refuses an index of nothing
    return b.broadcast(b.helper("add", total, b.constant(whole, S64)), picks.dims)


def _tensor_index(node: Node) -> Value:
    x = node.tensor_of()
    items = index_items(node)
    picks = picks_of(node, x, items)
    if len(picks.axes) == 1:
        return node.make("gather", x, picks.tensors[0], axis=picks.axes[0])
    flat = node.reshaped(x, (x.details.elements,))
    return node.make("gather", flat, flat_places(node, x, picks), axis=0)


def _embedding(is_module: bool) -> Callable[[Node], Value]:
    def run(node: Node) -> Value:
        ids = node.tensor_of()
        table = node.weight("weight") if is_module else node.tensor_of("weight")
        if table.details.rank != 2:
            raise node.rule("weight must be a matrix", str(table.details))
        return node.make("gather", table, ids, axis=0)

    return run


# Views that NumPy would express with strides.


def _windows(node: Node) -> Value:
    """Windows of `size` elements every `step` along an axis, their elements as a new last axis."""
    x = node.tensor_of()
    axis = axis_of(node, x)
    size, step = node.integer("size"), node.integer("step")
    room = x.details.plain_dims[axis] - size
    if size < 0 or room < 0 or step < 1:
        raise node.rule("windows must fit the axis, with a step of 1 or more", f"{size} and {step}")
    places = np.arange(room // step + 1)[:, None] * step + np.arange(size)
    seen = node.make("gather", x, node.constant(places, S64), axis=axis)
    rank = seen.details.rank
    perm = [i for i in range(rank) if i != axis + 1] + [axis + 1]
    return node.transposed(seen, perm)


def _diagonal(node: Node) -> Value:
    """The diagonal `offset` of the axes dim1 and dim2, as the last axis."""
    x = node.tensor_of()
    rank, offset = x.details.rank, node.integer("offset", 0)
    first, second = (node.axis(node.integer(n, d), rank) for n, d in (("dim1", 0), ("dim2", 1)))
    if first == second:
        raise node.rule("dim1 and dim2 must differ", str(first))
    perm = [axis for axis in range(rank) if axis not in (first, second)] + [first, second]
    moved = node.transposed(x, perm)
    *outer, rows, columns = moved.details.plain_dims
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    start = offset if offset >= 0 else -offset * columns
    flat = node.reshaped(moved, (*outer, rows * columns))
    places = start + np.arange(count) * (columns + 1)
    return node.make("gather", flat, node.constant(places, S64), axis=len(outer))


def _triangle(is_lower: bool) -> Handler:
    def run(node: Node) -> Value:
        x, diagonal = node.tensor_of(), node.integer("diagonal", 0)
        if x.details.rank < 2:
            raise node.rule("the input must have rows and columns", str(x.details))
        rows, columns = x.details.plain_dims[-2:]
        below = np.tri(rows, columns, diagonal if is_lower else diagonal - 1, bool)
        kept = node.constant(below if is_lower else ~below, BOOL)
        return node.make("select", kept, x, node.constant(0, x.details.dtype))

    return Handler(run, ("input", "diagonal"))


_BY_NAME: dict[str, Handler] = {
    "index_select": Handler(_index_select, ("input", "dim", "index")),
    "gather": Handler(_gather, ("input", "dim", "index", "sparse_grad")),
    "take_along_dim": Handler(_take_along, ("input", "indices", "dim")),
    "unfold": Handler(_windows, ("input", "dim", "size", "step")),
    "diagonal": Handler(_diagonal, ("input", "offset", "dim1", "dim2")),
    "tril": _triangle(is_lower=True),
    "triu": _triangle(is_lower=False),
}

HANDLERS: dict[str, Handler] = {
    f"{prefix}{name}": h
    for prefix in ("torch.", "Tensor.", "aten::")
    for name, h in _BY_NAME.items()
} | {
    "Tensor.index": Handler(_tensor_index, ("input", *_INDEX_SLOTS)),
    "nn.Embedding": Handler(_embedding(is_module=True)),
    "F.embedding": Handler(_embedding(is_module=False), ("input", "weight")),
}
"""Operators of this family."""
