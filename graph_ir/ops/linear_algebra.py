"""Factors of matrices, and solutions of triangular systems, of a batch of matrices each."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...base.dtypes import F32, F64, S32
from ...base.errors import InternalError
from ..ir.attributes import BoolAttr
from ..ir.graph import Array, Op
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand
from ..ir.registry import register


class MatrixOp(Op):
    """An op on the last two axes of its first operand, whose sizes are known."""

    kind: ClassVar[str] = "loop"

    @property
    def matrices(self) -> LogicalTensor:
        """The first operand."""
        return self.inputs[0].details

    def checked(self, a: LogicalTensor, is_square: bool = True) -> tuple[int, int]:
        """Rows and columns. Raise UserError if `a` is not a batch of f32 or f64 matrices."""
        if a.dtype not in (F32, F64):
            raise self.rule("matrices must be f32 or f64", str(a.dtype), "insert a cast")
        sizes = a.plain_dims[-2:]
        if len(sizes) < 2 or (is_square and sizes[0] != sizes[1]):
            raise self.rule(f"a must have {'square ' * is_square}matrices as its last axes", f"{a}")
        if not all(isinstance(size, int) for size in sizes):
            raise self.rule(
                "the sizes of matrices must be numbers", f"{a}", "give them with --input"
            )
        return int(sizes[0]), int(sizes[1])

    def reference(self, inputs: list[Array]) -> list[Array]:
        """Each matrix of the batch by itself, in its own type."""
        batch = inputs[0].shape[:-2]
        details = [y.details for y in self.outputs]
        shapes = [(*batch, *y.plain_dims[len(batch) :]) for y in details]
        results = [np.zeros(s, y.dtype.numpy) for s, y in zip(shapes, details, strict=True)]
        with np.errstate(all="ignore"):
            for at in np.ndindex(*batch):
                self.solve([x[at] for x in inputs], [y[at] for y in results])
        return results

    def solve(self, operands: list[Array], results: list[Array]) -> None:
        """Fill the results, which are zeros, for one matrix."""
        raise InternalError(f"op '{self.op_name}' has no reference")


@register("triangular_solve")
class TriangularSolve(MatrixOp):
    """x with a @ x = b, where a counts as triangular: only its upper or lower half is read."""

    a = Operand("matrices")
    b = Operand("right sides, as columns")
    lower = BoolAttr("read the lower half")
    transpose_a = BoolAttr("transpose a, after its half is selected")
    unit_diagonal = BoolAttr("treat the diagonal as ones, unread")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The shape of b."""
        a, b = inputs
        rows, _ = self.checked(a)
        if a.plain_dims[:-2] != b.plain_dims[:-2] or b.rank != a.rank or b.plain_dims[-2] != rows:
            raise self.rule("b must have the batch and the rows of a", f"{a} and {b}")
        if b.dtype != a.dtype or not isinstance(b.plain_dims[-1], int):
            raise self.rule(
                "b must have the type of a and a known number of columns", f"{a} and {b}"
            )
        return [LogicalTensor(b.dtype, b.plain_dims)]

    @property
    def is_forward(self) -> bool:
        """Return whether the first row is solved first."""
        return self.lower != self.transpose_a

    def solve(self, operands: list[Array], results: list[Array]) -> None:
        """Substitution, row by row."""
        (a, b), (x,) = operands, results
        a, count = a.T if self.transpose_a else a, len(b)
        for step in range(count):
            row = step if self.is_forward else count - 1 - step
            solved = slice(0, row) if self.is_forward else slice(row + 1, count)
            x[row] = b[row] - np.einsum("k,km->m", a[row, solved], x[solved])
            if not self.unit_diagonal:
                x[row] /= a[row, row]

    def get_gflop(self) -> float:
        """A multiplication and an addition for each element of the triangle and column."""
        return self.outputs[0].details.typical.elements * self.matrices.plain_dims[-1] / 1e9


@register("cholesky")
class Cholesky(MatrixOp):
    """The lower triangular l with l @ l.T = a, of which only the lower half is read.

    The upper half is 0. Where a is not positive definite, elements from there on are NaN.
    """

    a = Operand("matrices")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The shape of a."""
        self.checked(inputs[0])
        return super().infer(inputs)

    def solve(self, operands: list[Array], results: list[Array]) -> None:
        """Column by column."""
        (factor,) = results
        factor[...] = np.tril(operands[0])
        for k in range(len(factor)):
            root = np.sqrt(factor[k, k])
            factor[k:, k] /= root
            factor[k, k] = root
            column = factor[k + 1 :, k]
            factor[k + 1 :, k + 1 :] -= np.tril(np.outer(column, column))

    def get_gflop(self) -> float:
        """A third of the cube of the size."""
        return self.matrices.typical.elements * self.matrices.plain_dims[-1] / 3e9


@register("lu")
class LU(MatrixOp):
    """(both factors in one matrix, pivots s32, order s32): row k was exchanged with row pivots[k], in the order of k.

    So row k of L @ U is row order[k] of a. The lower factor has ones on its diagonal, which are not
    stored. The pivot is the first of the largest elements of its column.
    """

    a = Operand("matrices")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The shape of a, a pivot for each step, and a number for each row."""
        (a,) = inputs
        steps = min(self.checked(a, is_square=False))
        pivots = LogicalTensor(S32, (*a.plain_dims[:-2], steps))
        order = LogicalTensor(S32, a.plain_dims[:-1])
        return [LogicalTensor(a.dtype, a.plain_dims), pivots, order]

    def solve(self, operands: list[Array], results: list[Array]) -> None:
        """Gaussian elimination, column by column."""
        matrix, chosen, rows = results
        matrix[...], rows[:] = operands[0], np.arange(len(rows))
        for k in range(len(chosen)):
            chosen[k] = best = _largest(np.abs(matrix[k:, k])) + k
            matrix[[k, best]] = matrix[[best, k]]
            rows[[k, best]] = rows[[best, k]]
            matrix[k + 1 :, k] /= matrix[k, k] if matrix[k, k] != 0 else 1
            matrix[k + 1 :, k + 1 :] -= np.outer(matrix[k + 1 :, k], matrix[k, k + 1 :])

    def get_gflop(self) -> float:
        """Two thirds of the cube of the size."""
        return 2 * self.matrices.typical.elements * self.outputs[1].details.plain_dims[-1] / 3e9


def _largest(sizes: Array) -> int:
    """The first of the largest; NaN is never larger, and stays where it is the first."""
    best = 0
    for index, size in enumerate(sizes):
        if size > sizes[best]:
            best = index
    return best
