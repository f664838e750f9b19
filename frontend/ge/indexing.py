"""Elements looked up and replaced by index, where a row of the table is not enough."""

from __future__ import annotations

import numpy as np

from ...base.dtypes import S64
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.indexing import batched_gather, scatter_nd
from ..correspondence.reading import Pair
from ..op_builder import Value
from ..shape_spec import check_size
from .scope import Handler, NodeContext


def _read_scatter_elements(node: NodeContext, op_name: str) -> Value:
    data, indices = node.tensor("data"), node.tensor("indices")
    updates = node.tensor_as("updates", data.details.dtype)
    attrs = {"axis": node.attr_int("axis"), "reduction": node.attr_text("reduction")}
    return node.make(op_name, data, indices, updates, **attrs)


def _integers(node: NodeContext, name: str) -> GraphTensor:
    """An input of indices, as integers."""
    indices = node.tensor(name)
    return (
        indices if indices.details.dtype.kind in ("int", "uint") else node.converted(indices, S64)
    )


def _read_gather(node: NodeContext, _: str) -> Value:
    x, indices = node.tensor("x"), _integers(node, "indices")
    shared = node.attr_int("batch_dims") if node.type != "GatherV2D" else 0
    axis = shared if node.type == "Gather" else node.integer("axis")
    if not shared:
        return node.make("gather", x, indices, axis=axis)
    shared = node.axis(shared, indices.details.rank, inclusive=True)
    return batched_gather(node, x, indices, node.axis(axis, x.details.rank), shared)


def _scatter_nd(node: NodeContext) -> Value:
    """Zeros with updates added; updates of repeated tuples accumulate."""
    updates, dims = node.tensor("x"), node.ints("shape")
    check_size(f"{node.type} '{node.name}'", updates.details.dtype, dims)
    zeros = node.helper("broadcast", node.constant(0, updates.details.dtype), shape=dims)
    return scatter_nd(node, zeros, _integers(node, "indices"), updates, "add", check_bounds=False)


def _tensor_scatter(reduction: str) -> Handler:
    def handler(node: NodeContext) -> Value:
        data = node.tensor("x")
        updates = node.tensor_as("updates", data.details.dtype)
        if node.type == "TensorScatterSub":
            updates = node.helper("neg", updates)
        indices = _integers(node, "indices")
        return scatter_nd(node, data, indices, updates, reduction, check_bounds=False)

    return handler


def _where(node: NodeContext) -> Value:
    """Indices of non-zero elements: their number is known only for values known at import."""
    found = np.argwhere(node.array("x")).astype(np.int64)
    transposed = "transpose" in node.signature.defaults and node.attr_bool("transpose")
    return np.ascontiguousarray(found.T) if transposed else found


PAIRS = {"gather": Pair(_read_gather), "scatter_elements": Pair(_read_scatter_elements)}

HANDLERS: dict[str, Handler] = {
    "ScatterNd": _scatter_nd, "Where": _where, "NonZero": _where, "TensorScatterUpdate": _tensor_scatter("none"),
    "TensorScatterAdd": _tensor_scatter("add"), "TensorScatterSub": _tensor_scatter("add"),
    "TensorScatterMax": _tensor_scatter("max"), "TensorScatterMin": _tensor_scatter("min"),
}  # fmt: skip
