"""Factors, singular values, eigenvectors and exponentials of matrices [.., m, n], in the shapes that LAPACK gives."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ....base.dtypes import BOOL, F32, F64, S64
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder, like
from .control import CountedLoop, Round
from .linear_algebra import diagonal, identity_like, outputs, swapped
from .special import fraction_and_exponent


def upper(node: OpBuilder, x: Tensor) -> Tensor:
    """Return the matrices with zeros under the diagonal."""
    mask = np.triu(np.ones(x.details.plain_dims[-2:], bool))
    return node.helper("select", node.constant(mask, BOOL), x, like(node, 0.0, x))


def qr(node: OpBuilder, a: Tensor, is_complete: bool) -> tuple[Tensor, Tensor]:
    """Return Q [.., m, k] and R [.., k, n]; k is min(m, n), or m for complete factors."""
    packed, scales = outputs(node, "householder", a)
    rows, columns = a.details.plain_dims[-2:]
    count = rows if is_complete else min(rows, columns)
    rank = a.details.rank
    return orthogonal_matrix(node, packed, scales, count), upper(
        node, node.sliced(packed, rank - 2, 0, count)
    )


def orthogonal_matrix(node: OpBuilder, packed: Tensor, scales: Tensor, count: int) -> Tensor:
    """Return the first `count` columns of Q, given the reflections of a QR factorization."""
    *outer, _, columns = packed.details.plain_dims
    if count <= columns:
        packed = node.sliced(packed, len(outer) + 1, 0, count)
    else:
        before, after = (0,) * (len(outer) + 2), (*(0,) * (len(outer) + 1), count - columns)
        packed = node.helper("pad", packed, before=before, after=after)
    return node.helper("householder_product", packed, scales)


def svd(node: OpBuilder, a: Tensor, is_full: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return U [.., m, k], values [.., k] in descending order and V transposed, [.., k, n]; with `is_full`, both
    are square."""
    rows, columns = a.details.plain_dims[-2:]
    is_tall = rows > columns
    left, values, right = outputs(node, "svd", _flat_matrix(node, a))
    long = _completed(node, right, max(rows, columns) if is_full else min(rows, columns))
    return (long, values, left) if is_tall else (swapped(node, left), values, swapped(node, long))


def _completed(node: OpBuilder, rows: Tensor, count: int) -> Tensor:
    """Return columns that are orthonormal: first the rows that are not 0, each at its index."""
    packed, scales = outputs(node, "householder", swapped(node, rows))
    q = orthogonal_matrix(node, packed, scales, count)
    is_negative = node.helper("lt", diagonal(node, packed), like(node, 0.0, rows))
    signs = node.helper("select", is_negative, like(node, -1.0, rows), like(node, 1.0, rows))
    *outer, known = signs.details.plain_dims
    if count > known:
        before, after = (0,) * (len(outer) + 1), (*(0,) * len(outer), count - known)
        signs = node.helper("pad", signs, before=before, after=after, value=1.0)
    return node.helper("mul", q, node.reshaped(signs, (*outer, 1, count)))


def eigh(node: OpBuilder, a: Tensor, lower: bool) -> tuple[Tensor, Tensor]:
    """Return values in ascending order and eigenvectors as columns, of the lower or the upper half."""
    vectors, values = outputs(node, "eigh", a if lower else swapped(node, a))
    return values, swapped(node, vectors)


def pseudo_inverse(node: OpBuilder, a: Tensor, absolute: Tensor, relative: Tensor) -> Tensor:
    """Return the inverse on the space of singular values that are larger than `absolute`, and than `relative` times
    the largest."""
    left, values, right = outputs(node, "svd", _flat_matrix(node, a))
    last, zero = values.details.rank - 1, like(node, 0.0, a)
    largest = node.helper("reduce_max", values, axes=(last,), keep_dims=True)
    limit = node.helper("max", absolute, node.helper("mul", relative, largest))
    counts = node.helper("gt", values, limit)
    inverse = node.helper("div", like(node, 1.0, a), values)
    inverse = node.reshaped(
        node.helper("select", counts, inverse, zero), (*values.details.plain_dims, 1)
    )
    scaled = node.helper("mul", left, inverse)
    rows, columns = a.details.plain_dims[-2:]
    x, y = (scaled, right) if rows > columns else (right, scaled)
    return node.make("matmul_core", x, y, transpose_a=True)


def _flat_matrix(node: OpBuilder, a: Tensor) -> Tensor:
    """Return matrices with no more rows than columns, transposed where a has more."""
    rows, columns = a.details.plain_dims[-2:]
    return swapped(node, a) if rows > columns else a


def singular_values(node: OpBuilder, a: Tensor) -> Tensor:
    """Return singular values [.., min(m, n)] in descending order."""
    return outputs(node, "svd", _flat_matrix(node, a))[1]


def matrix_norm(node: OpBuilder, a: Tensor, order: float | str) -> Tensor:
    """Return a norm of each matrix: `nuc`, or 2, 1 or infinity; the smallest where `order` is negative."""
    if order in ("nuc", 2, -2):
        terms, axis = singular_values(node, a), a.details.rank - 2
    else:
        axis = a.details.rank - (1 if abs(float(order)) == math.inf else 2)
        terms = node.helper("reduce_sum", node.helper("abs", a), axes=(axis,), keep_dims=False)
        axis = a.details.rank - 2
    is_empty = terms.details.plain_dims[axis] == 0  # the largest of none is 0 here
    kind = "sum" if order == "nuc" else "min" if float(order) < 0 else "sum" if is_empty else "max"
    return node.helper(f"reduce_{kind}", terms, axes=(axis,), keep_dims=False)


def matrix_exponential(node: OpBuilder, x: Tensor) -> Tensor:
    """Exponential of matrices [.., n, n]: a Taylor polynomial of x halved to a norm of 1 or less, then squared
    as often."""
    dtype = x.details.dtype
    if not x.details.elements:
        return x
    x = node.converted(x, F64 if dtype == F64 else F32)
    norm = node.helper("reduce_sum", node.helper("abs", x), axes=(-2,), keep_dims=True)
    norm = node.helper("reduce_max", norm, axes=(-1,), keep_dims=True)
    halvings = fraction_and_exponent(node, norm)[1]
    halvings = node.helper("max", halvings, like(node, 0, halvings))
    power = node.helper("pow", like(node, 0.5, x), node.converted(halvings, x.details.dtype))
    x = node.helper("mul", x, power)
    one = node.converted(identity_like(node, x), x.details.dtype)
    y = one
    for number in range(18 if dtype == F64 else 12, 0, -1):
        term = node.helper("div", node.helper("matmul_core", x, y), like(node, number, x))
        y = node.helper("add", one, term)

    def square(build: OpBuilder, i: Tensor, own: Sequence[Tensor], same: Sequence[Tensor]) -> Round:
        twice = build.helper("matmul_core", own[0], own[0])
        return Round([build.helper("select", build.helper("lt", i, same[0]), twice, own[0])])

    wide = node.converted(halvings, S64)
    axes = tuple(range(wide.details.rank))
    most = node.helper("reduce_max", wide, axes=axes, keep_dims=False)
    (y,) = CountedLoop(node, most).make([y], [wide], square)
    return node.converted(y, dtype)
