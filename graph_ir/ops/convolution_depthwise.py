"""depthwise_convolution: a convolution of each channel separately."""

from __future__ import annotations

from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import TunableOp
from ..ir.registry import register
from .convolution import Convolution


@register("depthwise_convolution")
class DepthwiseConvolution(Convolution, TunableOp):
    """A `convolution` over one or two spatial axes, one result per channel, run by `templates.channel_windows` or
    `templates.row_windows`.

    Floats, or bytes with s32 sums.
    """

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """[N, C, positions...]."""
        found = super().infer(inputs)
        x, w = inputs
        if not self.groups == x.plain_dims[1] == w.plain_dims[0]:
            raise self.rule(
                "there must be as many groups as channels and results",
                f"{self.groups} groups of {x.plain_dims[1]} and {w.plain_dims[0]} channels",
            )
        return found
