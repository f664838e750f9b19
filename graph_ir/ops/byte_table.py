"""byte_table: any function from bytes to bytes, as its 256 values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...base.dtypes import S64, U8
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.computation import Index, Read
from ..ir.graph import Array
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import FusibleOp
from ..ir.operands import Operand
from ..ir.registry import register

ENTRIES = 256


@register("byte_table")
class ByteTable(FusibleOp):
    """The entry of the table for each byte of x: that of byte b, taken as unsigned, is at b.

    A separate kernel, not part of the epilogue that makes x: whole vectors of bytes are looked up at once.
    """

    x = Operand("u8 or s8")
    table = Operand("256 of u8 or s8")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """x's shape in the table's type."""
        x, table = inputs
        for name, details in (("x", x), ("table", table)):
            if details.dtype.bits != 8 or details.dtype.kind not in ("int", "uint"):
                raise self.rule(f"{name} must be u8 or s8", str(details.dtype), "insert a cast")
        if table.plain_dims != (ENTRIES,):
            raise self.rule("table must have 256 entries", str(table))
        return [LogicalTensor(table.dtype, x.plain_dims)]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The entries."""
        x, table = inputs
        return [table[np.ascontiguousarray(x).view(np.uint8).reshape(x.shape)]]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """A load whose index is a byte."""
        byte = t.bitcast(reads[0](index), U8)
        return reads[1]((t.cast(byte, S64),))
