"""Elements looked up and replaced by index: gathers, scatters, embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...base.dtypes import S64
from ...graph_ir.ir.graph import GraphTensor
from ..op_builder import Value
from ..shape_spec import check_size
from .scope import Handler, NodeContext


def _scatter_elements(node: NodeContext) -> Value:
    data, indices = node.tensor("data"), node.tensor("indices")
    updates = node.tensor_as("updates", data.details.dtype)
    attrs = {"axis": node.attr_int("axis"), "reduction": node.attr_text("reduction")}
    return node.make("scatter_elements", data, indices, updates, **attrs)


def _gather_elements(node: NodeContext) -> Value:
    return node.make(
        "gather_elements", node.tensor("x"), node.tensor("index"), axis=node.attr_int("dim")
    )


def _integers(node: NodeContext, name: str) -> GraphTensor:
    """An input of indices, as integers."""
    indices = node.tensor(name)
    return (
        indices if indices.details.dtype.kind in ("int", "uint") else node.converted(indices, S64)
    )


def _gather(node: NodeContext) -> Value:
    x, indices = node.tensor("x"), _integers(node, "indices")
    shared = node.attr_int("batch_dims") if node.type != "GatherV2D" else 0
    if node.type == "GatherV2D":
        axis = node.attr_int("axis")
    else:
        axis = node.integer("axis") if node.type == "GatherV2" else shared
    if not shared:
        return node.make("gather", x, indices, axis=axis)
    return _batched_gather(node, x, indices, node.axis(axis, x.details.rank), shared)


def _batched_gather(
    node: NodeContext, x: GraphTensor, indices: GraphTensor, axis: int, shared: int
) -> Value:
    """The first `shared` axes belong together: they are joined with the looked-up axis, and indices moved along."""
    shared = node.axis(shared, indices.details.rank, inclusive=True)
    dims, picked = x.details.plain_dims, indices.details.plain_dims
    if axis < shared or dims[:shared] != picked[:shared]:
        raise node.rule(
            f"the first {shared} axes must be equal and not looked up", f"{dims} and {picked}"
        )
    between = range(shared, axis)
    order = [*range(shared), axis, *between, *range(axis + 1, len(dims))]
    moved = node.transposed(x, order)
    count, size, rest = math.prod(dims[:shared]), dims[axis], moved.details.plain_dims[shared + 1 :]
    flat = node.reshaped(moved, (count * size, *rest))
    starts = (np.arange(count) * size).reshape(*dims[:shared], *(1,) * (len(picked) - shared))
    places = node.helper("add", node.converted(indices, S64), node.constant(starts, S64))
    y = node.make("gather", flat, places, axis=0)
    # [shared, picked, between, behind] -> [shared, between, picked, behind]
    first, own = shared, len(picked) - shared
    back = [
        *range(first),
        *range(first + own, first + own + len(between)),
        *range(first, first + own),
        *range(first + own + len(between), y.details.rank),
    ]
    return node.transposed(y, back)


def _places(
    node: NodeContext, indices: GraphTensor, dims: Sequence[int]
) -> tuple[GraphTensor, int, int]:
    """Row-major places in `dims` of tuples of indices (the last axis); the length of a tuple, the elements it means."""
    if not indices.details.rank:
        raise node.rule("indices must have an axis of tuples", str(indices.details))
    depth = indices.details.plain_dims[-1]
    if not 1 <= depth <= len(dims):
        raise node.rule(
            f"indices must have 1 to {len(dims)} entries on their last axis", str(indices.details)
        )
    steps = [math.prod(dims[i + 1 :]) for i in range(depth)]
    wide = node.converted(indices, S64)
    scaled = node.helper("mul", wide, node.constant(steps, S64))
    places = node.helper("reduce_sum", scaled, axes=(-1,), keep_dims=False)
    return places, depth, math.prod(dims[depth:])


def _gather_nd(node: NodeContext) -> Value:
    x, indices = node.tensor("x"), _integers(node, "indices")
    dims = x.details.plain_dims
    places, depth, run = _places(node, indices, dims)
    rows = places
    if run > 1:
        rows = node.helper("div", places, node.constant(run, S64))
    flat = node.reshaped(x, (math.prod(dims[:depth]), *dims[depth:]))
    return node.make("gather", flat, rows, axis=0)


def _scatter_nd(node: NodeContext) -> Value:
    """Zeros with updates added in; tuples that are given twice add up."""
    updates, dims = node.tensor("x"), node.ints("shape")
    check_size(f"{node.type} '{node.name}'", updates.details.dtype, dims)
    zeros = node.helper("broadcast", node.constant(0, updates.details.dtype), shape=dims)
    return _scattered(node, zeros, updates, "add")


def _tensor_scatter(reduction: str) -> Handler:
    def handler(node: NodeContext) -> Value:
        data = node.tensor("x")
        updates = node.tensor_as("updates", data.details.dtype)
        if node.type == "TensorScatterSub":
            updates = node.helper("neg", updates)
        return _scattered(node, data, updates, reduction)

    return handler


def _scattered(
    node: NodeContext, data: GraphTensor, updates: GraphTensor, reduction: str
) -> GraphTensor:
    indices = _integers(node, "indices")
    dims = data.details.plain_dims
    places, depth, run = _places(node, indices, dims)
    wanted = (*indices.details.plain_dims[:-1], *dims[depth:])
    if updates.details.plain_dims != wanted:
        raise node.rule(f"updates must have shape {list(wanted)}", str(updates.details))
    return node.make("scatter", places, data, updates, reduction=reduction, run=max(run, 1))


def _where(node: NodeContext) -> Value:
    """Where elements are not 0: a size that only values known at import have."""
    found = np.argwhere(node.array("x")).astype(np.int64)
    transposed = "transpose" in node.signature.defaults and node.attr_bool("transpose")
    return np.ascontiguousarray(found.T) if transposed else found


HANDLERS: dict[str, Handler] = {
    "ScatterElements": _scatter_elements, "GatherElements": _gather_elements, "Gather": _gather,
    "GatherV2": _gather, "GatherV2D": _gather, "GatherNd": _gather_nd, "ScatterNd": _scatter_nd,
    "TensorScatterUpdate": _tensor_scatter("none"), "TensorScatterAdd": _tensor_scatter("add"),
    "TensorScatterSub": _tensor_scatter("add"), "TensorScatterMax": _tensor_scatter("max"),
    "TensorScatterMin": _tensor_scatter("min"), "Where": _where, "NonZero": _where,
}  # fmt: skip
