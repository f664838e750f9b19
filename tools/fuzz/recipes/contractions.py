"""Matmuls, with the ops that models put around them."""

from __future__ import annotations

from collections.abc import Callable

from ....base.dtypes import F32, F64, S64, DType
from ....graph_ir.ir.graph import GraphTensor
from ..scope import ANY, Dims, Scope


def multiply(scope: Scope, a: GraphTensor, columns: int = 0) -> GraphTensor:
    """a times a weight or another tensor, either of them transposed now and then."""
    transpose_a = scope.chance(0.15)
    *batch, m, k = a.details.plain_dims
    k = m if transpose_a else k
    n = columns or scope.size()
    transpose_b = scope.chance(0.3)
    b = _right(scope, a.details.dtype, tuple(batch), (n, k) if transpose_b else (k, n))
    attrs = {"transpose_a": True} if transpose_a else {}
    attrs |= {"transpose_b": True} if transpose_b else {}
    return scope.one("matmul_core", a, b, **attrs)


def _right(scope: Scope, dtype: DType, batch: Dims, matrix: Dims) -> GraphTensor:
    """The second operand: a matrix for all, one for each, or one that broadcasts."""
    if batch and scope.chance(0.4):
        lead = tuple(1 if scope.chance(0.2) else d for d in batch)
        return scope.like(dtype, (*lead, *matrix))
    if scope.chance(0.6):
        return scope.weight(dtype, matrix)
    return scope.like(dtype, matrix)


def matmul(scope: Scope) -> None:
    """One matmul."""
    multiply(scope, scope.any(ANY, 2))


def grouped(scope: Scope) -> None:
    """Rows of a few experts and of none, in runs and in no order."""
    dtype = scope.random.choice((F32, F32, F64))
    a = scope.like(dtype, scope.fitting((scope.size(), scope.size())))
    rows, k = a.details.plain_dims
    panels = tuple(min(scope.size(), most) for most in (4, 3, 1 << 30, 70))
    b = scope.weight(dtype, (panels[0], panels[1], k, panels[3]))
    expert = scope.small_integers(S64, (rows,), -1, panels[0] + 1)
    scope.make("grouped_matmul", [a, b, expert])


RECIPES: dict[str, Callable[[Scope], None]] = {"matmul_core": matmul, "grouped_matmul": grouped}
