"""Scans along an axis: cum_sum and cum_prod."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.attributes import BoolAttr
from ..ir.axis_attributes import AxisAttr
from ..ir.computation import Computation, Index, Read, Reduction
from ..ir.graph import Array
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import FusibleOp
from ..ir.operands import Operand
from ..ir.reference import narrow, widen
from ..ir.registry import register
from .elementwise import NUMBER, kinds_text


class _Cumulative(FusibleOp):
    """16-bit floats accumulate in f32, integers wrap. Each element is a reduction of its own, quadratic in the axis:
    `split_scans` cuts long ones into blocks.
    """

    combine: ClassVar[str]
    x = Operand()
    axis = AxisAttr("the axis it runs along", default=0)
    exclusive = BoolAttr("whether element i leaves out x[i]")
    reverse = BoolAttr("whether it runs from the back")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The input's dtype and shape."""
        (x,) = inputs
        if x.dtype.kind not in NUMBER:
            raise self.rule(f"input dtype must be {kinds_text(NUMBER)}", str(x.dtype), "cast it")
        return [LogicalTensor(x.dtype, x.plain_dims)]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """np.cumsum or np.cumprod, shifted by one where exclusive."""
        axis = self.axis
        function: Any = np.cumsum if self.combine == "add" else np.cumprod
        x = widen(inputs[0])
        x = np.flip(x, axis) if self.reverse else x
        with np.errstate(all="ignore"):
            total = function(x, axis=axis, dtype=x.dtype)
        if self.exclusive:
            edge = np.full_like(
                np.take(x, [0] * min(x.shape[axis], 1), axis=axis), self.combine == "mul"
            )
            total = np.concatenate(
                [edge, np.take(total, np.arange(max(x.shape[axis] - 1, 0)), axis=axis)], axis
            )
        total = np.flip(total, axis) if self.reverse else total
        return [narrow(np.ascontiguousarray(total), self.outputs[0].details.dtype)]

    def computation(self) -> Computation:
        """Over r of the axis: x[r] where r is not beyond i, else the identity."""
        axis, x = self.axis, self.inputs[0].details
        compare = {(False, False): "le", (False, True): "ge", (True, False): "lt", (True, True): "gt"}[
            self.exclusive, self.reverse
        ]  # fmt: skip
        dtype = x.dtype.accumulator
        neutral = 1 if self.combine == "mul" else 0

        def element(reads: Sequence[Read], index: Index, r: Index) -> Expr:
            value = reads[0]((*index[:axis], r[0], *index[axis + 1 :]))
            taken = t.compare(compare, r[0], index[axis])
            return t.select(taken, value, t.const(neutral, value.dtype))

        return Reduction(
            (x.plain_dims[axis],), self.combine, neutral, element, lambda acc: t.cast(acc, dtype)
        )


@register("cum_sum")
class CumSum(_Cumulative):
    """Sum of the elements up to each one."""

    combine: ClassVar[str] = "add"


@register("cum_prod")
class CumProd(_Cumulative):
    """Product of the elements up to each one."""

    combine: ClassVar[str] = "mul"
