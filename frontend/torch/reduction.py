"""Reductions of ATen under other names."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.dtypes import S64
from ..correspondence.compositions.arithmetic import distances
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


def _read_distances(node: Node) -> Value:
    """_cdist_forward: of all rows of one batch to all of another."""
    x, y = node.tensor_of("x1"), node.tensor_of("x2")
    p = node.attr_float("p", 2.0)
    node.argument("compute_mode")
    if p == 2:
        return distances(node, x, y)
    (*many, n, size), m = x.details.plain_dims, y.details.plain_dims[-2]
    each = node.reshaped(x, (*many, n, 1, size))
    other = node.reshaped(y, (*y.details.plain_dims[:-2], 1, m, size))
    gap = node.helper("sub", each, other)
    return lp_norm(node, gap, p, (gap.details.rank - 1,), False)


def _read_pair_distances(node: Node) -> Value:
    """_pdist_forward: of all rows, each pair once."""
    x, p = node.tensor_of(), node.attr_float("p", 2.0)
    count = x.details.plain_dims[0]
    node.check_array((count, count))
    first, second = np.triu_indices(count, 1)
    a, b = (node.helper("gather", x, node.constant(i, S64), axis=0) for i in (first, second))
    return lp_norm(node, node.helper("sub", a, b), p, (1,), False)


HANDLERS: dict[str, Read] = {
    "linalg_vector_norm": _read_vector_norm,
    "median": _read_median,
    **dict.fromkeys(("cdist", "_cdist_forward"), _read_distances),
    "_pdist_forward": _read_pair_distances,
}
"""Operators of this family."""
