"""Elements of another type, cast by value and bitcast; copy: the same tensor in other memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ...base.dtypes import BOOL
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


@register("bitcast")
class Bitcast(FusibleOp):
    """The bits of x as a dtype of the same number of bits, except bool.

    A NaN of a float of 16 bits or less may lose its payload on the way.
    """

    elementwise: ClassVar[bool] = True

    x = Operand()
    dtype = DTypeAttr("dtype of the result")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The input's shape in the new dtype."""
        source, target = inputs[0].dtype, self.dtype
        if BOOL in (source, target) or source.bits != target.bits:
            raise self.rule("dtype must have as many bits as x", f"{source} and {target}")
        return [LogicalTensor(target, inputs[0].plain_dims)]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """A NumPy view, copied."""
        return [inputs[0].view(self.dtype.numpy).copy()]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The element's bits."""
        source, target = self.inputs[0].details.dtype, self.dtype
        # 16-bit floats arrive as f32, which holds each of them exactly.
        return t.bitcast(t.cast(reads[0](index), source), target)


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
