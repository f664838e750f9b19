"""QR factors, singular values and eigenvectors of matrices [.., m, n], in the shapes that LAPACK's routines give."""

from __future__ import annotations

import numpy as np

from ....base.dtypes import BOOL, S64
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder, like
from .linear_algebra import diagonal


def outputs(node: OpBuilder, op_name: str, *inputs: Tensor) -> list[Tensor]:
    """Return all results of an op."""
    return node.graph.make(op_name, inputs, {}, f"{node.name}.{op_name}").outputs


def swapped(node: OpBuilder, x: Tensor) -> Tensor:
    """Return the matrices transposed."""
    rank = x.details.rank
    return node.transposed(x, (*range(rank - 2), rank - 1, rank - 2))


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
    return product(node, packed, scales, count), upper(
        node, node.sliced(packed, rank - 2, 0, count)
    )


def product(node: OpBuilder, packed: Tensor, scales: Tensor, count: int) -> Tensor:
    """Return the first columns of the product of reflections."""
    *outer, _, columns = packed.details.plain_dims
    if count <= columns:
        packed = node.sliced(packed, len(outer) + 1, 0, count)
    else:
        before, after = (0,) * (len(outer) + 2), (*(0,) * (len(outer) + 1), count - columns)
        packed = node.helper("pad", packed, before=before, after=after)
    return node.helper("householder_product", packed, scales)


def svd(node: OpBuilder, a: Tensor, is_full: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return U [.., m, k], values [.., k] in descending order and V transposed, [.., k, n]; with `is_full`, both are
    square."""
    rows, columns = a.details.plain_dims[-2:]
    is_tall = rows > columns
    left, values, right = outputs(node, "svd", swapped(node, a) if is_tall else a)
    long = _completed(node, right, max(rows, columns) if is_full else min(rows, columns))
    return (long, values, left) if is_tall else (swapped(node, left), values, swapped(node, long))


def _completed(node: OpBuilder, rows: Tensor, count: int) -> Tensor:
    """Return columns that are orthonormal: first the rows that are not 0, each at its index."""
    packed, scales = outputs(node, "householder", swapped(node, rows))
    q = product(node, packed, scales, count)
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


def solve_least_squares(
    node: OpBuilder, a: Tensor, b: Tensor, limit: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the solution of least length of a @ x = b, the rank of a, and its singular values.

    Singular values up to `limit` times the largest count as 0.
    """
    u, values, right = svd(node, a, is_full=False)
    zero, rank = like(node, 0.0, a), a.details.rank
    largest = node.helper("reduce_max", values, axes=(rank - 2,), keep_dims=True)
    counts = node.helper("gt", values, node.helper("mul", largest, like(node, limit, a)))
    inverse = node.helper("select", counts, node.helper("div", like(node, 1.0, a), values), zero)
    scaled = node.helper(
        "mul", node.helper("matmul_core", u, b, transpose_a=True), _column(node, inverse)
    )
    number = node.helper(
        "reduce_sum", node.converted(counts, S64), axes=(rank - 2,), keep_dims=False
    )
    return node.helper("matmul_core", right, scaled, transpose_a=True), number, values


def _column(node: OpBuilder, x: Tensor) -> Tensor:
    return node.reshaped(x, (*x.details.plain_dims, 1))
