"""grouped_matmul: rows sorted into groups, each multiplied by the matrix of its group, as mixtures of experts do."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...base.dtypes import F32, F64, S32, S64
from ..ir.graph import Array, Op
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand
from ..ir.registry import register


@register("grouped_matmul")
class GroupedMatmul(Op):
    """c[i] = a[i] @ b[g] for the first group g with i < ends[g]; 0 for rows of no group.

    Column j of a matrix of b is column j % width of panel j // width, so that a kernel reads it in one stream.
    """

    kind: ClassVar[str] = "loop"

    a = Operand("f32 or f64 [rows, k]")
    b = Operand("the type of a, [groups, panels, k, width]")
    ends = Operand("s32 or s64 [groups]: the row after the last one of each group")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """[rows, panels * width]."""
        a, b, ends = inputs
        if a.dtype not in (F32, F64) or b.dtype != a.dtype or ends.dtype not in (S32, S64):
            raise self.rule("a and b must be f32 or f64, ends s32 or s64", f"{a}, {b} and {ends}")
        if (a.rank, b.rank, ends.rank) != (2, 4, 1):
            raise self.rule(
                "a must be [rows, k], b [groups, panels, k, width]", f"{a}, {b} and {ends}"
            )
        groups, panels, k, width = b.plain_dims
        if a.plain_dims[1] != k or ends.plain_dims[0] != groups:
            raise self.rule("k and the number of groups must agree", f"{a}, {b} and {ends}")
        if not all(isinstance(size, int) for size in b.plain_dims):
            raise self.rule("the sizes of b must be numbers", f"{b}", "give them with --input")
        return [LogicalTensor(a.dtype, (a.plain_dims[0], panels * width))]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """Group by group, summed in float64."""
        a, b, ends = inputs
        groups, panels, k, width = b.shape
        matrices = b.transpose(0, 2, 1, 3).reshape(groups, k, panels * width)
        result, start = np.zeros((len(a), panels * width), a.dtype), 0
        with np.errstate(all="ignore"):
            for matrix, end in zip(matrices, np.clip(ends, 0, len(a)), strict=True):
                if start < end:
                    rows = a[start:end].astype(np.float64)
                    result[start:end] = rows @ matrix.astype(np.float64)
                    start = int(end)
        return [result]

    def get_gflop(self) -> float:
        """Two operations per multiply-add."""
        return (
            2e-9 * self.outputs[0].details.typical.elements * self.inputs[0].details.plain_dims[1]
        )
