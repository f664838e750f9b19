"""Which ops run as windows over each channel of a channels-last image, and in which layouts."""

from __future__ import annotations

from ...base.dtypes import F32
from ..ir.format import Format, channels_last, plain
from ..ops.convolution_depthwise import DepthwiseConvolution
from ..ops.pool import WindowReduce
from .context import LowerContext
from .format_choice import FormatChoice


def depthwise_formats(op: DepthwiseConvolution, ctx: LowerContext) -> list[FormatChoice]:
    """Channels last everywhere."""
    rank = op.inputs[0].details.rank
    last = channels_last(rank)
    return [FormatChoice((last, taps_first(rank)), (last,))]


def taps_first(rank: int) -> Format:
    """Weights [C, 1, kernel...] with the channels behind the kernel."""
    return Format(plain(rank).axes, (*range(2, rank), 1, 0), (0,) * rank)


def pools_by_channel(op: WindowReduce) -> bool:
    """Whether the template of channel windows runs a pool: f32, channels last, one or two spatial axes."""
    x, y = op.inputs[0].details, op.outputs[0].details
    spatial = x.rank - 2
    if x.dtype != F32 or spatial not in (1, 2) or op.window.rank != spatial:
        return False
    return x.format == y.format == channels_last(x.rank)
