"""Det: determinants by Gaussian elimination, with the largest element of each column as pivot."""

from __future__ import annotations

import numpy as np

from ...graph_ir.ir.graph import GraphTensor
from ..op_builder import Value
from .scope import Handler, NodeContext

_LARGEST = 32
"""Rows of a matrix: each is a step of its own in the graph."""


def _determinant(node: NodeContext) -> Value:
    x = node.tensor(0)
    *batch, rows, columns = x.details.plain_dims if x.details.rank > 1 else (0, 0)
    if x.details.rank < 2 or rows != columns:
        raise node.rule("the last two axes must be square", str(x.details))
    if rows > _LARGEST:
        raise node.unsupported(f"a matrix of more than {_LARGEST} rows, {x.details},")
    count = int(np.prod(batch))
    left, found = node.reshaped(x, (count, rows, rows)), None
    for size in range(rows, 0, -1):
        left, factor = _eliminated(node, left, count, size)
        found = factor if found is None else node.helper("mul", found, factor)
    if found is None:
        return node.constant(np.ones(batch), x.details.dtype)
    return node.reshaped(found, tuple(batch))


def _eliminated(
    node: NodeContext, left: GraphTensor, count: int, size: int
) -> tuple[GraphTensor, GraphTensor]:
    """Matrices without the first column and its pivot's row, and the signed pivots [count, 1, 1]."""
    dtype = left.details.dtype
    column, first = node.sliced(left, 2, 0, 1), node.sliced(left, 1, 0, 1)
    zero, one = node.constant(0.0, dtype), node.constant(1.0, dtype)
    best = node.helper("arg_max", node.helper("abs", column), axis=1, keep_dims=True)
    numbers = node.constant(np.arange(size).reshape(1, size, 1), best.details.dtype)
    is_best = node.helper("eq", best, numbers)
    masked = node.helper("select", is_best, left, zero)
    row = node.helper("reduce_sum", masked, axes=(1,), keep_dims=True)
    pivot = node.sliced(row, 2, 0, 1)
    is_first = node.sliced(is_best, 1, 0, 1)
    signed = node.helper("select", is_first, pivot, node.helper("neg", pivot))
    if size == 1:
        return left, signed
    swapped = node.helper("select", is_best, first, left)  # the pivot's row becomes the first
    rest = node.sliced(node.sliced(swapped, 1, 1, size - 1), 2, 1, size - 1)
    below = node.sliced(node.sliced(swapped, 1, 1, size - 1), 2, 0, 1)
    divisor = node.helper("select", node.helper("eq", pivot, zero), one, pivot)
    share = node.helper("div", below, divisor)
    taken = node.helper("mul", share, node.sliced(row, 2, 1, size - 1))
    return node.helper("sub", rest, taken), signed


HANDLERS: dict[str, Handler] = {"Det": _determinant}
