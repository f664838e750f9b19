"""Reductions of ATen under other names."""

from __future__ import annotations

from ..correspondence.compositions.reduction import lp_norm
from ..torch_calls.call import Value
from .node import Node, Read


def _read_vector_norm(node: Node) -> Value:
    """Of the axes `dim`, all of them where there are none."""
    x = node.tensor_of()
    x = node.converted(x, node.dtype() or x.details.dtype)
    axes = node.attr_ints("dim", None) or tuple(range(x.details.rank))
    found = tuple(sorted(node.axis(axis, x.details.rank) for axis in axes))
    order = node.attr_float("ord", 2.0)
    return lp_norm(node, x, order, found, node.attr_bool("keepdim", False))


HANDLERS: dict[str, Read] = {"linalg_vector_norm": _read_vector_norm}
"""Operators of this family."""
