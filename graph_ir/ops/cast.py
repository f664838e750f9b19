"""cast: conversion of the element type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.attributes import DTypeAttr
from ..ir.computation import Index, Read
from ..ir.graph import Array
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import FusibleOp
from ..ir.operands import Operand
from ..ir.reference import convert
from ..ir.registry import register


@register("cast")
class Cast(FusibleOp):
    """x converted by value.

    Float to integer truncates and saturates, NaN becomes 0; integers wrap; to bool tests for != 0.
    """

    elementwise: ClassVar[bool] = True

    x = Operand()
    dtype = DTypeAttr("dtype of the result")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The input's shape in the new dtype."""
        return [LogicalTensor(self.dtype, inputs[0].plain_dims)]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """NumPy's conversion, saturating where a float becomes an integer."""
        return [convert(inputs[0], self.dtype)]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The converted element."""
        dtype = self.dtype
        # A 16-bit result is rounded here and now: fused consumers must see what memory would hold.
        return t.cast(reads[0](index), dtype)
