"""grouped_matmul: rows of several experts, each multiplied by the matrix of its expert."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...base.dtypes import F32, F64, S64
from ..ir.graph import Array, Op
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand
from ..ir.registry import register


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
