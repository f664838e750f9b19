"""Scans along an axis: cum_sum and cum_prod."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.computation import Computation, Index, Read, Reduction
from ..ir.graph import Array
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import FusibleOp
from ..ir.reference import narrow, widen
from ..ir.registry import register
from .axes import normal_axis
from .elementwise import NUMBER, kinds_text


class _Cumulative(FusibleOp):
    """attrs: `axis` (default 0), `exclusive` (element i leaves out x[i]), `reverse` (from the back).

    16-bit floats accumulate in f32, integers wrap. Each element is computed by a separate reduction, quadratic in the
    axis: `split_scans` splits long scans into blocks.
    """

    combine: ClassVar[str]

    @property
    def axis(self) -> int:
        """The axis it runs along, not negative."""
        return normal_axis(self, self.attrs.get("axis", 0), self.inputs[0].details.rank)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The input's dtype and shape."""
        if len(inputs) != 1:
            raise self.rule("inputs must be x", f"{len(inputs)} inputs")
        (x,) = inputs
        if x.dtype.kind not in NUMBER:
            raise self.rule(f"input dtype must be {kinds_text(NUMBER)}", str(x.dtype), "cast it")
        normal_axis(self, self.attrs.get("axis", 0), x.rank)
        return [LogicalTensor(x.dtype, x.plain_dims)]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """np.cumsum or np.cumprod, shifted by one where exclusive."""
        axis = self.axis
        function: Any = np.cumsum if self.combine == "add" else np.cumprod
        x = widen(inputs[0])
        x = np.flip(x, axis) if self.attrs.get("reverse") else x
        with np.errstate(all="ignore"):
            total = function(x, axis=axis, dtype=x.dtype)
        if self.attrs.get("exclusive"):
            edge = np.full_like(
                np.take(x, [0] * min(x.shape[axis], 1), axis=axis), self.combine == "mul"
            )
            total = np.concatenate(
                [edge, np.take(total, np.arange(max(x.shape[axis] - 1, 0)), axis=axis)], axis
            )
        total = np.flip(total, axis) if self.attrs.get("reverse") else total
        return [narrow(np.ascontiguousarray(total), self.outputs[0].details.dtype)]

    def computation(self) -> Computation:
        """Over r of the axis: x[r] where r is not beyond i, else the identity."""
        axis, x = self.axis, self.inputs[0].details
        compare = {(False, False): "le", (False, True): "ge", (True, False): "lt", (True, True): "gt"}[
            bool(self.attrs.get("exclusive")), bool(self.attrs.get("reverse"))
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
