"""cast: conversion of the element type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ...base.dtypes import DType, by_name
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.computation import Computation, Index, Pointwise, Read
from ..ir.graph import Array
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import FusibleOp
from ..ir.reference import convert
from ..ir.registry import register


@register("cast")
class Cast(FusibleOp):
    """x converted by value. attrs: `dtype`, a name such as "f32" (or a DType).

    Float to integer truncates and saturates, NaN becomes 0; integers wrap; to bool tests for != 0.
    """

    elementwise: ClassVar[bool] = True

    @property
    def dtype(self) -> DType:
        """The output's element type."""
        given = self.attrs.get("dtype")
        if isinstance(given, DType):
            return given
        if not isinstance(given, str):
            raise self.rule("attribute 'dtype' must name a dtype", repr(given))
        return by_name(given)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The input's shape in the new dtype."""
        if len(inputs) != 1:
            raise self.rule("inputs must be x", f"{len(inputs)} inputs")
        return [LogicalTensor(self.dtype, inputs[0].plain_dims)]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """NumPy's conversion, saturating where a float becomes an integer."""
        return [convert(inputs[0], self.dtype)]

    def computation(self) -> Computation:
        """The converted element."""
        dtype = self.dtype

        def element(reads: Sequence[Read], index: Index) -> Expr:
            # A 16-bit result is rounded here and now: fused consumers must see what memory would hold.
            return t.cast(reads[0](index), dtype)

        return Pointwise(element)
