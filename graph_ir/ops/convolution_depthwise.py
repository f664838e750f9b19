"""depthwise_convolution: a convolution of each channel separately."""

from __future__ import annotations

from ...base.dtypes import F32, DType
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import TunableOp
from ..ir.registry import register
from .contraction_types import is_byte
from .convolution import Convolution


@register("depthwise_convolution")
class DepthwiseConvolution(Convolution, TunableOp):
    """A `convolution` over one or two spatial axes, one result per channel, run by `templates.channel_windows`
    or `templates.row_windows`.

    Floats, or bytes with s32 sums; with dtype=f32 also bytes by f32.
    """

    def result_dtype(self, x: LogicalTensor, w: LogicalTensor) -> DType:
        """f32 for bytes by f32, if that is requested; else as of every convolution."""
        if self.dtype == w.dtype == F32 and is_byte(x.dtype):
            return F32
        return super().result_dtype(x, w)

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
