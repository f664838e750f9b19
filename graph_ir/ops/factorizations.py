"""Orthogonal factors of a batch of matrices: reflections (QR), singular values, eigenvalues of symmetric matrices."""

from __future__ import annotations

import numpy as np

from ...base.dtypes import DType
from ..ir.graph import Array
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand
from ..ir.registry import register
from .linear_algebra import MatrixOp

MAX_SWEEPS = 40
"""Rounds through all pairs of rows after which Jacobi's method ends; it converges in 6 to 12."""


def rotation_limit(dtype: DType) -> float:
    """Return the cosine of two rows that count as orthogonal, and what counts as 0 in a symmetric matrix of norm 1."""
    return float(np.finfo(dtype.numpy).eps) / 2


@register("householder")
class Householder(MatrixOp):
    """(packed, scales): the factor R of a = Q @ R over the diagonal, and the reflections that make up Q below it.

    Reflection k is I - scales[k] v v.T, where v is 0 before row k, 1 there, and packed[k+1:, k] after it. As LAPACK's
    geqrf: an element of the diagonal has the sign opposite to what its column begins with.
    """

    a = Operand("matrices")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The shape of a, and a scale for each reflection."""
        (a,) = inputs
        steps = min(self.checked(a, is_square=False))
        return [
            LogicalTensor(a.dtype, a.plain_dims),
            LogicalTensor(a.dtype, (*a.plain_dims[:-2], steps)),
        ]

    def solve(self, operands: list[Array], results: list[Array]) -> None:
        """Column by column."""
        matrix, scales = results
        matrix[...] = operands[0]
        for k in range(scales.size):
            scales[k] = _reflect(matrix, k)

    def get_gflop(self) -> float:
        """Four operations for each element and reflection."""
        return 4 * self.matrices.typical.elements * self.outputs[1].details.plain_dims[-1] / 1e9


def _reflect(matrix: Array, k: int) -> Array:
    """Reflect the rest of column k onto its first element, in place; return the scale."""
    tail, first = matrix[k + 1 :, k], matrix[k, k]
    top = np.abs(tail).max(initial=0)
    if top == 0:
        return np.zeros((), matrix.dtype)
    top = max(top, abs(first))
    size = top * np.sqrt(np.square(first / top) + np.square(tail / top).sum())
    reflected = size if first < 0 else -size
    scale = (reflected - first) / reflected
    tail /= first - reflected
    matrix[k, k] = reflected
    sums = matrix[k, k + 1 :] + tail @ matrix[k + 1 :, k + 1 :]
    matrix[k, k + 1 :] -= scale * sums
    matrix[k + 1 :, k + 1 :] -= np.outer(scale * tail, sums)
    return np.asarray(scale)


@register("householder_product")
class HouseholderProduct(MatrixOp):
    """The first columns of Q of a = Q @ R, from the reflections that `householder` returns."""

    packed = Operand("reflections under the diagonal; columns behind those are not read")
    scales = Operand("a scale for each reflection")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The shape of packed."""
        packed, scales = inputs
        rows, columns = self.checked(packed, is_square=False)
        if scales.dtype != packed.dtype or scales.plain_dims[:-1] != packed.plain_dims[:-2]:
            raise self.rule(
                "scales must have the type and the batch of packed", f"{packed} and {scales}"
            )
        if not scales.rank or not scales.plain_dims[-1] <= columns <= rows:
            rule = "there must be at most as many scales as columns, and as columns as rows"
            raise self.rule(rule, f"{packed} and {scales}")
        return super().infer(inputs)

    def solve(self, operands: list[Array], results: list[Array]) -> None:
        """The last reflection first."""
        (packed, scales), (q,) = operands, results
        q[...] = np.eye(*q.shape)
        for k in reversed(range(scales.size)):
            v = packed[k:, k].copy()
            v[0] = 1
            q[k:, k:] -= np.outer(scales[k] * v, v @ q[k:, k:])

    def get_gflop(self) -> float:
        """Four operations for each element and reflection."""
        return 4 * self.matrices.typical.elements * self.inputs[1].details.plain_dims[-1] / 1e9


@register("svd")
class SVD(MatrixOp):
    """(left, values, right) with a = left.T @ diag(values) @ right, for matrices with no more rows than columns.

    Rows of left are orthonormal, and those of right except for rows of zeros where the value is 0 or is lost beside the
    largest one. Values descend. By one-sided Jacobi rotations of rows.
    """

    a = Operand("matrices")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """A square matrix of rotations, a value for each row, and the shape of a."""
        (a,) = inputs
        rows, columns = self.checked(a, is_square=False)
        if rows > columns:
            raise self.rule("a must have no more rows than columns", f"{a}", "transpose it")
        batch = a.plain_dims[:-2]
        dims = ((*batch, rows, rows), (*batch, rows), a.plain_dims)
        return [LogicalTensor(a.dtype, sizes) for sizes in dims]

    def solve(self, operands: list[Array], results: list[Array]) -> None:
        """Rotate pairs of rows until all are orthogonal."""
        left, values, right = results
        left[...], right[...] = np.eye(len(left)), operands[0]
        _rotate_rows(left, values, right)

    def get_gflop(self) -> float:
        """Ten rounds through all pairs of rows."""
        rows, columns = self.matrices.plain_dims[-2:]
        return (
            5
            * self.matrices.typical.elements
            * rows
            * (8 * columns + 6 * rows)
            / max(columns, 1)
            / 1e9
        )


def _rotate_rows(left: Array, values: Array, right: Array) -> None:
    dtype = right.dtype.type
    limit, tiny = dtype(np.finfo(dtype).eps / 2), np.finfo(dtype).tiny
    scale = _scale(right)
    right /= scale
    for _ in range(MAX_SWEEPS):
        rotated = False
        for p in range(len(right)):
            for q in range(p + 1, len(right)):
                above, below, both = right[p] @ right[p], right[q] @ right[q], right[p] @ right[q]
                sizes = np.sqrt(above) * np.sqrt(below)
                if abs(both) > limit * sizes and min(above, below) > tiny:
                    rotated = True
                    _turn_pair((right, left), p, q, _rotation(above, below, both))
        if not rotated:
            break
    values[:] = np.sqrt(np.square(right).sum(axis=1))
    kept = np.square(values) > tiny
    right[kept] /= values[kept, None]
    right[np.square(values) <= tiny] = 0
    values *= scale
    _sort_rows(values, (left, right), descending=True)


def _scale(x: Array) -> Array:
    """Return the largest absolute value, 1 where that is 0 or not finite."""
    largest = np.abs(x).max(initial=0)
    return largest if 0 < largest < np.inf else np.ones((), x.dtype)


def _rotation(above: Array, below: Array, both: Array) -> tuple[Array, Array]:
    """Return the sine s and s / (1 + cosine) of the rotation that makes rows with these dot products orthogonal."""
    ratio = (below - above) / (2 * both)
    size = abs(ratio)
    tangent = 0.5 / size if size > 1e8 else 1 / (size + np.sqrt(1 + ratio * ratio))
    tangent = np.where(ratio < 0, -tangent, tangent).astype(above.dtype)
    root = np.sqrt(1 + tangent * tangent)
    return tangent / root, tangent / (1 + root)


def _turn_pair(matrices: tuple[Array, ...], p: int, q: int, by: tuple[Array, Array]) -> None:
    sine, half_angle = by
    for x in matrices:
        upper, lower = x[p].copy(), x[q].copy()
        x[p] = upper - sine * (half_angle * upper + lower)
        x[q] = lower + sine * (upper - half_angle * lower)


def _sort_rows(values: Array, matrices: tuple[Array, ...], descending: bool) -> None:
    """Sort by selection, as the kernel does: NaN moves nothing."""
    for first in range(len(values)):
        best = first
        for other in range(first + 1, len(values)):
            if values[other] > values[best] if descending else values[other] < values[best]:
                best = other
        for x in (values, *matrices):
            x[[first, best]] = x[[best, first]]


@register("eigh")
class Eigh(MatrixOp):
    """(vectors, values) with a = vectors.T @ diag(values) @ vectors for symmetric a, of which the lower half is read.

    Rows of vectors are orthonormal, values ascend. By Jacobi rotations.
    """

    a = Operand("matrices")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The shape of a, and a value for each row."""
        (a,) = inputs
        self.checked(a)
        return [LogicalTensor(a.dtype, a.plain_dims), LogicalTensor(a.dtype, a.plain_dims[:-1])]

    def solve(self, operands: list[Array], results: list[Array]) -> None:
        """Rotate pairs of rows and columns until the matrix is diagonal."""
        (a,), (vectors, values) = operands, results
        vectors[...] = np.eye(len(a))
        _diagonalize(vectors, values, np.tril(a) + np.tril(a, -1).T)

    def get_gflop(self) -> float:
        """Ten rounds through all pairs of rows."""
        return 60 * self.matrices.typical.elements * self.matrices.plain_dims[-1] / 1e9


def _diagonalize(vectors: Array, values: Array, work: Array) -> None:
    """Rotate rows of `work` = vectors @ a until work @ vectors.T is diagonal."""
    scale = _scale(work)
    work /= scale
    limit = work.dtype.type(np.finfo(work.dtype).eps / 2) * np.sqrt(np.square(work).sum())
    for _ in range(MAX_SWEEPS):
        rotated = False
        for p in range(len(work)):
            for q in range(p + 1, len(work)):
                both = work[p] @ vectors[q]
                if abs(both) > limit:
                    rotated = True
                    by = _rotation(work[p] @ vectors[p], work[q] @ vectors[q], both)
                    _turn_pair((work, vectors), p, q, by)
        if not rotated:
            break
    values[:] = (work * vectors).sum(axis=1) * scale
    _sort_rows(values, (vectors,), descending=False)
