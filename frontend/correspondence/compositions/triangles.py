"""Triangles and diagonals of matrices, of static and dynamic sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....base.dims import Size, bounds
from ....base.dtypes import BOOL, F32, S64, DType
from ....graph_ir.ir.graph import Array
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder, like
from .indexing import dynamic_size, positions

_RELATIONS: dict[str, Callable[[Array, int], Array]] = {
    "ge": np.greater_equal, "le": np.less_equal, "eq": np.equal,
}  # fmt: skip


def triangle(node: OpBuilder, x: Tensor, diagonal: Size = 0, upper: bool = True) -> Tensor:
    """Matrices with zeros below (`upper`) or above a diagonal."""
    return triangle_at(node, x, diagonal, upper)


def triangle_at(node: OpBuilder, x: Tensor, diagonal: Size | Tensor, upper: bool) -> Tensor:
    """`triangle` of a diagonal that may be one s64 that only a run knows."""
    dims = x.details.plain_dims
    if len(dims) < 2:
        raise node.rule("the input must be a matrix or a stack of them", str(x.details))
    kept = diagonal_mask(node, dims[-2], dims[-1], diagonal, "ge" if upper else "le")
    return node.make("select", kept, x, like(node, 0, x))


def diagonal_mask(
    node: OpBuilder, rows: Size, columns: Size, diagonal: Size | Tensor, relation: str
) -> Tensor:
    """Return whether each element of a matrix is on a diagonal ("eq"), not below it ("ge") or not above it ("le").

    The result is bool[rows, columns].
    """
    if isinstance(diagonal, int):
        # Beyond the matrix it makes no difference where the diagonal is, but integers could overflow.
        far = max(bounds(rows)[1], bounds(columns)[1]) + 1
        diagonal = max(-far, min(diagonal, far))
        if isinstance(rows, int) and isinstance(columns, int):
            node.check_array((rows, columns))
            offsets = np.arange(columns) - np.arange(rows)[:, None]
            return node.constant(_RELATIONS[relation](offsets, diagonal), BOOL)
        at = node.constant(diagonal, S64)
    else:
        at = (
            node.reshaped(diagonal, ())
            if isinstance(diagonal, Tensor)
            else dynamic_size(node, diagonal)
        )
    row, column = positions(node, rows, 0, 2), positions(node, columns, 1, 2)
    return node.helper(relation, node.helper("sub", column, row), at)


def identity(
    node: OpBuilder, rows: int, columns: int | None = None, dtype: DType | None = None
) -> Tensor:
    """A matrix with ones on its diagonal, f32 unless it has another type."""
    on = diagonal_mask(node, rows, rows if columns is None else columns, 0, "eq")
    return node.converted(on, dtype or F32)
