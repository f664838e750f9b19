"""direct_convolution: a convolution that reads the image tap by tap, the result channels last."""

from __future__ import annotations

from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import TunableOp
from ..ir.registry import register
from .convolution import Convolution


@register("direct_convolution")
class DirectConvolution(Convolution, TunableOp):
    """A `convolution` over one or two spatial axes, run by `templates.convolution`: floats, or bytes by signed bytes.

    With more than one group w is [groups, O / groups, C / groups, kernel...], so that each has its own panels.
    """

    def weight_dims(self, w: LogicalTensor) -> tuple[int, ...]:
        """[O, C / groups, kernel...], the groups joined."""
        if self.groups == 1:
            return w.plain_dims
        groups, outputs, *rest = w.plain_dims
        return (groups * outputs, *rest)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """[N, O, positions...]."""
        if self.groups == 1 or len(inputs) != 2:
            return super().infer(inputs)
        x, w = inputs
        if w.rank != x.rank + 1 or w.plain_dims[0] != self.groups:
            raise self.rule(
                "w of several groups must be [groups, O / groups, C / groups, kernel...]",
                f"{w} for {self.groups} groups and x {x}",
                "reshape it",
            )
        return super().infer([x, LogicalTensor(w.dtype, self.weight_dims(w))])

    @property
    def result_holds_sums(self) -> bool:
        """Partial sums are kept in the result, where its type is that of the operands and of their sums."""
        return self.contraction.a == self.contraction.accumulator
