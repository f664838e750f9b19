"""copy: the same tensor in other memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ...tensor_ir.nodes import Expr
from ..ir.computation import Index, Read
from ..ir.graph import Array
from ..ir.op_kinds import FusibleOp
from ..ir.operands import Operand
from ..ir.registry import register


@register("copy")
class Copy(FusibleOp):
    """y = x, written to separate memory. Inserted where the caller's buffer must not be shared."""

    elementwise: ClassVar[bool] = True
    x = Operand()

    def reference(self, inputs: list[Array]) -> list[Array]:
        """A copy of the array."""
        return [inputs[0].copy()]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """out[i] = in[i]."""
        return reads[0](index)
