"""matmul_core: the batched matmul, tuned for floats and bytes, a vectorized reduction for every other type;
grouped_matmul: rows of several experts, each multiplied by the matrix of its expert."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...base.contraction import Contraction, accumulator_of
from ...base.dims import Size, bounds, is_known
from ...base.dtypes import F32, F64, S8, S16, S32, S64
from ...base.size_limits import broadcast_sizes, check_equal
from ...base.size_queries import typical
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Cast, Expr
from ..ir.attributes import BoolAttr, IntAttr
from ..ir.computation import Computation, Index, Read, Reduction
from ..ir.graph import Array, Op
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import TunableOp
from ..ir.operands import Operand
from ..ir.registry import register
from .contraction_types import contraction_dtype, result_dtype_attr

MAX_USES = 4
"""Batches that may share a computed matrix which one row is multiplied by: beyond that, one packed copy costs less than
a reduction per batch."""

MAX_FEW = 4
"""Maximum number of rows whose accumulators are split (`k_splits`): more rows have enough accumulators."""

MAX_WEIGHED = 256
"""Columns of a computed matrix whose rows are added up in place: longer rows lie too far apart."""


@register("matmul_core")
class MatmulCore(TunableOp):
    """C[..., m, n] = sum over k of A[..., m, k] * B[..., k, n]; batch axes broadcast as in NumPy.

    16-bit floats accumulate in f32, integers wrap in their own type; with dtype=s32, 8-bit operands in s32; with
    dtype=f32, the result of 16-bit floats is f32.
    """

    a = Operand("[..., m, k]")
    b = Operand("[..., k, n]")
    dtype = result_dtype_attr()
    transpose_a = BoolAttr("A is [..., k, m]")
    transpose_b = BoolAttr("B is [..., n, k]")
    activation_bits = IntAttr(
        "8: A may be rounded to s8 with a scale per row and group of B's weights; 0: it may not",
        default=0,
    )

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(m, n, k)."""
        a, b = (x.details.plain_dims for x in self.inputs)
        m, k = (a[-1], a[-2]) if self.transpose_a else (a[-2], a[-1])
        return m, b[-2] if self.transpose_b else b[-1], k

    @property
    def is_tuned(self) -> bool:
        """Return whether the register-tiled template runs this matmul (floats, or dot products of bytes;
        nothing empty).

        Dynamic numbers of columns and terms are for f32 and f64 matmuls without layouts.
        """
        return self.is_tuned_with(self.sizes[0])

    def is_tuned_with(self, rows: Size) -> bool:
        """Return whether `is_tuned` would hold with `rows` rows, as if rows of several matrices were merged."""
        if not is_known(*self.sizes[1:]) and not self._may_be_dynamic(rows):
            return False
        if any(x.details.is_empty for x in self.inputs):
            return False
        if self._is_row_of_dot_products or self.weighs_rows:
            return False
        # Four neighboring k of a transposed A do not lie together.
        bytes_ = self.dtype == S32 and self.inputs[1].details.dtype in (S8, S16)
        return self.inputs[0].details.dtype.is_float or (bytes_ and not self.transpose_a)

    def _may_be_dynamic(self, rows: Size) -> bool:
        """Return whether a matmul with a dynamic number of columns or terms has a template.

        The template reads B in place if the number of its rows is dynamic, and packs it into panels if the number of
        columns is. A few static rows have a split accumulation that depends on the number of columns.
        """
        _, n, k = self.sizes
        wide = all(x.details.dtype.bits >= 32 and x.details.dtype.is_float for x in self.inputs)
        by_rows = is_known(k) or (is_known(n) and not self.transpose_b)
        several = not is_known(rows) or bool(rows > MAX_FEW)
        return wide and several and by_rows and not self.transpose_a

    @property
    def _is_row_of_dot_products(self) -> bool:
        """One row times the rows of a computed matrix in another type than f32: a reduction reads both in place.

        In f32, `matvec_to_reduction` makes that of it.
        """
        return not self.inputs[1].is_constant and self.could_dot_rows

    @property
    def could_dot_rows(self) -> bool:
        """The same of a matrix that may be a constant, which ops inside a group do not see of what they read."""
        w = self.inputs[1].details
        reads_rows = self.sizes[0] == 1 and self.transpose_b and not self.transpose_a
        return reads_rows and w.format.is_plain and w.dtype != F32

    @property
    def weighs_rows(self) -> bool:
        """One row times a computed matrix of short rows: their sum, weighed, which a reduction reads in place.

        So it is with the values of attention for one query, as many as there are keys.
        """
        return not self.inputs[1].is_constant and self.could_weigh_rows

    @property
    def could_weigh_rows(self) -> bool:
        """The same of a matrix that may be a constant, which ops inside a group do not see of what they read."""
        m, n, _ = self.sizes
        w = self.inputs[1]
        if m != 1 or self.transpose_a or self.transpose_b or w.details.dtype != F32:
            return False
        used = math.prod(self.outputs[0].details.plain_dims[:-2])
        own = math.prod(w.details.plain_dims[:-2])
        is_short = w.details.format.is_plain and bounds(n)[1] <= MAX_WEIGHED
        return is_short and bounds(MAX_USES * own - used)[0] >= 0

    @property
    def contraction(self) -> Contraction:
        """The types of A, B, their sums and the result."""
        a, b, c = (x.details.dtype for x in (*self.inputs, *self.outputs))
        return Contraction(a, b, accumulator_of(a, b) if c.is_float else c, c)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """[..., m, n] of the common dtype, or s32."""
        a, b = inputs
        dtype = contraction_dtype(self, a, b, self.dtype)
        if a.rank < 2 or b.rank < 2:
            raise self.rule("inputs must have rank 2 or more", f"{a} and {b}", "reshape vectors")
        m, k = a.plain_dims[-2:][:: -1 if self.transpose_a else 1]
        k2, n = b.plain_dims[-2:][:: -1 if self.transpose_b else 1]
        if k != k2:
            check_equal(k, k2)
            raise self.rule(
                "inner sizes must match", f"K={k} and K={k2}", "transpose B?" if k == n else ""
            )
        try:
            batch = broadcast_sizes(a.plain_dims[:-2], b.plain_dims[:-2])
        except ValueError:
            raise self.rule("batch sizes must broadcast", f"{a} and {b}") from None
        return [LogicalTensor(dtype, (*batch, m, n))]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """np.matmul, in float64 for floats, rounded once, and for 8-bit integers, where it is exact."""
        a, b = inputs
        dtype = self.outputs[0].details.dtype.numpy
        if self.inputs[0].details.dtype.is_float or self.dtype is not None:
            a, b = a.astype(np.float64), b.astype(np.float64)
        elif dtype == np.bool_:
            a, b = a.astype(np.int64), b.astype(np.int64)
        a = a.swapaxes(-1, -2) if self.transpose_a else a
        b = b.swapaxes(-1, -2) if self.transpose_b else b
        with np.errstate(all="ignore"):
            result = np.asarray(np.matmul(a, b))
            wraps = self.dtype == S32  # through s64, as sums of many terms may leave s32
            return [(result.astype(np.int64) if wraps else result).astype(dtype)]

    def get_gflop(self) -> float:
        """Two operations per multiply-add."""
        return 2.0 * self.outputs[0].details.typical.elements * typical(self.sizes[2]) / 1e9

    def computation(self) -> Computation:
        """Return the matmul as a reduction over k: the form of untuned dtypes."""
        a, b = (x.details for x in self.inputs)
        dtype = self.dtype or a.dtype.accumulator

        def element(reads: Sequence[Read], index: Index, r: Index) -> Expr:
            m, n, (k,) = index[-2], index[-1], r
            left = reads[0](_batch(index, a.plain_dims) + ((k, m) if self.transpose_a else (m, k)))
            right = reads[1](_batch(index, b.plain_dims) + ((n, k) if self.transpose_b else (k, n)))
            left, right = t.cast(left, dtype), t.cast(right, dtype)
            return t.binary("and" if dtype.kind == "bool" else "mul", left, right)

        def finish(acc: Expr) -> Expr:
            return acc if acc.dtype == dtype else Cast(acc, dtype)

        combine = "or" if dtype.kind == "bool" else "add"
        return Reduction(
            (self.sizes[2],), combine, False if combine == "or" else 0, element, finish
        )


def _batch(index: Index, dims: Sequence[int]) -> Index:
    """Batch part of `index` for an input of shape `dims`: aligned right, 0 where the input broadcasts."""
    count = len(dims) - 2
    batch = index[len(index) - 2 - count : len(index) - 2]
    return tuple(t.as_expr(0) if dims[i] == 1 else batch[i] for i in range(count))


@register("grouped_matmul")
class GroupedMatmul(Op):
    """c[i] = a[i] @ b[expert[i]]; 0 for rows of no expert. Neighboring rows of one expert are multiplied together.

    Column j of a matrix of b is column j % width of panel j // width, so that a kernel reads it in one stream.
    """

    kind: ClassVar[str] = "loop"

    a = Operand("f32 or f64 [rows, k]")
    b = Operand("the type of a, [experts, panels, k, width]")
    expert = Operand("s64 [rows]")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """[rows, panels * width]."""
        a, b, expert = inputs
        if a.dtype not in (F32, F64) or b.dtype != a.dtype or expert.dtype != S64:
            raise self.rule("a and b must be f32 or f64, expert s64", f"{a}, {b} and {expert}")
        if (a.rank, b.rank, expert.rank) != (2, 4, 1):
            rule = "a must be [rows, k], b [experts, panels, k, width]"
            raise self.rule(rule, f"{a}, {b} and {expert}")
        _, panels, k, width = b.plain_dims
        if a.plain_dims[1] != k or expert.plain_dims[0] != a.plain_dims[0]:
            raise self.rule("k and the number of rows must agree", f"{a}, {b} and {expert}")
        if not all(isinstance(size, int) for size in b.plain_dims):
            raise self.rule("the sizes of b must be numbers", f"{b}", "give them with --input")
        return [LogicalTensor(a.dtype, (a.plain_dims[0], panels * width))]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """Expert by expert, summed in float64."""
        a, b, expert = inputs
        experts, panels, k, width = b.shape
        matrices = b.transpose(0, 2, 1, 3).reshape(experts, k, panels * width)
        result = np.zeros((len(a), panels * width), a.dtype)
        with np.errstate(all="ignore"):
            for number, matrix in enumerate(matrices):
                mine = expert == number
                result[mine] = a[mine].astype(np.float64) @ matrix.astype(np.float64)
        return [result]

    def get_gflop(self) -> float:
        """Two operations per multiply-add."""
        return (
            2e-9 * self.outputs[0].details.typical.elements * self.inputs[0].details.plain_dims[1]
        )
