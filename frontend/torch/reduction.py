"""Reductions of ATen under other names."""

from __future__ import annotations

from typing import Any

from ..correspondence.compositions.order import median
from ..correspondence.compositions.reduction import lp_norm
from ..torch_calls.call import Value
from .node import Node, Read


def _read_vector_norm(node: Node) -> Value:
    """Read a vector norm over the axes `dim`, or all axes if there are none."""
    x = node.tensor_of()
    x = node.converted(x, node.dtype() or x.details.dtype)
    axes = node.attr_ints("dim", None) or tuple(range(x.details.rank))
    found = tuple(sorted(node.axis(axis, x.details.rank) for axis in axes))
    order = node.attr_float("ord", 2.0)
    return lp_norm(node, x, order, found, node.attr_bool("keepdim", False))


def _read_median(node: Node) -> Any:
    """Read both forms of the median."""
    x, axis = node.tensor_of(), None
    if node.given("dim"):
        axis = node.axis(node.attr_int("dim"), x.details.rank)
    return median(node, x, axis, node.attr_bool("keepdim", False))


HANDLERS: dict[str, Read] = {
    "linalg_vector_norm": _read_vector_norm,
    "median": _read_median,
}
