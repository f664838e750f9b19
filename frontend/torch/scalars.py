"""Operators along an axis of a scalar, which counts as a vector of one element."""

from __future__ import annotations

from typing import Any

from ...graph_ir.ir.graph import GraphTensor
from .node import Node, Read

OVER_AN_AXIS = (
    "softmax", "_softmax", "log_softmax", "_log_softmax", "gather", "scatter", "scatter_add", "scatter_reduce",
    "index_select", "index_fill", "index_copy", "index_add", "index_reduce", "kthvalue", "unfold", "linalg_vector_norm",
    "nanmedian", "mode", "logcumsumexp", "cummax", "cummin",
)  # fmt: skip


def of_scalars_too(read: Read) -> Read:
    """A reader of tensors with axes, for scalars too."""

    def reader(node: Node) -> Any:
        x = node.bound.get("self")
        if not isinstance(x, GraphTensor) or x.details.rank:
            return read(node)
        node.bound = {name: _as_vector(node, value) for name, value in node.bound.items()}
        found = read(node)
        single = [node.reshaped(y, node.example_dims(i)) for i, y in enumerate(_listed(found))]
        return single if isinstance(found, (list, tuple)) else single[0]

    return reader


def _as_vector(node: Node, value: Any) -> Any:
    is_scalar = isinstance(value, GraphTensor) and not value.details.rank
    return node.reshaped(value, (1,)) if is_scalar else value


def _listed(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (list, tuple)) else [found]
