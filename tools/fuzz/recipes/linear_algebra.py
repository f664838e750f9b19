"""Factors of matrices and triangular systems, well conditioned: small elements beside a large diagonal."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....base.dtypes import F32, F64
from ....graph_ir.ir.graph import GraphTensor
from ..scope import Dims, Scope

_MOST = 40  # rows: references go through them one at a time


def _small(scope: Scope, dims: Dims) -> GraphTensor:
    """Elements in [-1, 1], or NaN."""
    dtype = scope.random.choice((F32, F32, F64))
    return scope.one("clamp", scope.like(dtype, scope.fitting(dims)), min=-1.0, max=1.0)


def _batch(scope: Scope) -> Dims:
    return tuple(min(scope.size(), 3) for _ in range(scope.random.choice((0, 1, 1, 2))))


def _matrices(scope: Scope) -> GraphTensor:
    """Square ones with a diagonal that dominates each row and column."""
    size = min(scope.size(), _MOST)
    x = _small(scope, (*_batch(scope), size, size))
    size = min(x.details.plain_dims[-2:])
    *lead, rows, columns = x.details.plain_dims
    if rows != columns:  # cut down to fit the plan
        starts, steps = (0,) * (len(lead) + 2), (1,) * (len(lead) + 2)
        x = scope.one("slice", x, starts=starts, steps=steps, sizes=(*lead, size, size))
    diagonal = np.eye(size) * (2 * size + 1)
    return scope.one("add", x, scope.constant(diagonal.astype(x.details.dtype.numpy), "diagonal"))


def triangular_solve(scope: Scope) -> None:
    """Some right sides for each matrix, every half and order."""
    a = _matrices(scope)
    dims = (*a.details.plain_dims[:-1], min(scope.size(), 3 * _MOST))
    b = scope.one("clamp", scope.like(a.details.dtype, dims), min=-1.0, max=1.0)
    names = ("lower", "transpose_a")
    scope.make("triangular_solve", [a, b], **{name: scope.chance(0.5) for name in names})


def cholesky(scope: Scope) -> None:
    """The lower half of a matrix that is positive definite."""
    scope.make("cholesky", [_matrices(scope)])


def lu(scope: Scope) -> None:
    """Both factors."""
    scope.make("lu", [_matrices(scope)])


def householder(scope: Scope) -> None:
    """Add reflections and the matrix they form."""
    packed, scales = scope.make("householder", [_matrices(scope)])
    scope.make("householder_product", [packed, scales])


RECIPES: dict[str, Callable[[Scope], None]] = {
    "triangular_solve": triangular_solve,
    "cholesky": cholesky,
    "lu": lu,
    **dict.fromkeys(("householder", "householder_product"), householder),
}
