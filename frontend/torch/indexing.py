"""Lookups and assignments by lists of indices."""

from __future__ import annotations

from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.assignment import pick, put
from ..correspondence.reading import Pair
from ..torch_calls.call import Value
from .node import Node


def _items(node: Node) -> list[GraphTensor | None]:
    """One tensor, or None for a whole axis, per axis."""
    value = node.argument("indices")
    items = value if isinstance(value, list) else [value]
    return [x if x is None or isinstance(x, GraphTensor) else node.tensor(x) for x in items]  # type: ignore[arg-type]


def _read_index(node: Node, _: str) -> Value:
    return pick(node, node.tensor_of(), _items(node))


def _read_index_put(node: Node, _: str) -> Value:
    adds = node.attr_bool("accumulate", False)
    return put(node, node.tensor_of(), _items(node), node.tensor_of("values"), adds)


PAIRS = {"index": Pair(_read_index), "index_put": Pair(_read_index_put)}
