"""depthwise_convolution: an f32 convolution of each channel on its own, channels last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.format import Format, plain
from ..ir.graph import FormatChoice
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import TunableOp
from ..ir.registry import register
from .convolution import Convolution
from .convolution_direct import channels_last

if TYPE_CHECKING:
    from ..schedule.context import LowerContext


@register("depthwise_convolution")
class DepthwiseConvolution(Convolution, TunableOp):
    """A `convolution` of f32 over one or two spatial axes, one result per channel: `templates.channel_windows`."""

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """[N, C, places...]."""
        found = super().infer(inputs)
        x, w = inputs
        if not self.groups == x.plain_dims[1] == w.plain_dims[0]:
            raise self.rule(
                "there must be as many groups as channels and results",
                f"{self.groups} groups of {x.plain_dims[1]} and {w.plain_dims[0]} channels",
            )
        return found

    def query_format(self, ctx: LowerContext) -> list[FormatChoice]:
        """Channels last everywhere."""
        rank = self.inputs[0].details.rank
        last = channels_last(rank)
        return [FormatChoice((last, taps_first(rank)), (last,))]


def taps_first(rank: int) -> Format:
    """Weights [C, 1, kernel...] with the channels behind the kernel."""
    return Format(plain(rank).axes, (*range(2, rank), 1, 0), (0,) * rank)
