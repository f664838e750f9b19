"""Elements of an axis in order of size. A scalar counts as an axis of size 1."""

from __future__ import annotations

from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder


def first_k(node: OpBuilder, x: Tensor, k: int, at: int = -1, largest: bool = True) -> list[Tensor]:
    """The k largest or smallest elements of axis `at`, in order, and their indices."""
    dims = x.details.plain_dims
    axis = node.axis(at, max(len(dims), 1))
    rows = node.reshaped(x, dims or (1,))
    found = node.outputs("top_k", rows, axis=axis, k=k, largest=largest)
    return found if dims else [node.reshaped(y, ()) for y in found]


def sort(node: OpBuilder, x: Tensor, at: int = -1, descending: bool = False) -> list[Tensor]:
    """All elements of axis `at` in order, equal ones as they were, and their indices."""
    dims = x.details.plain_dims or (1,)
    return first_k(node, x, dims[node.axis(at, len(dims))], at, descending)


def argsort(node: OpBuilder, x: Tensor, at: int = -1, descending: bool = False) -> Tensor:
    """The indices of the elements of axis `at` in order."""
    return sort(node, x, at, descending)[1]


def kth_value(
    node: OpBuilder, x: Tensor, k: int, axis: int, keep_dims: bool = False
) -> list[Tensor]:
    """The k-th smallest element of an axis, counted from 1, and its index."""
    dims = x.details.plain_dims
    if not 1 <= k <= dims[axis]:
        raise node.rule(f"k must be in [1, {dims[axis]}]", str(k))
    shape = (*dims[:axis], *((1,) if keep_dims else ()), *dims[axis + 1 :])
    found = first_k(node, x, k, axis, largest=False)
    return [node.reshaped(node.sliced(y, axis, k - 1, 1), shape) for y in found]
