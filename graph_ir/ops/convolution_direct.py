"""direct_convolution: an f32 convolution that reads the image tap by tap, the result channels last."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..ir.format import Format, plain
from ..ir.graph import FormatChoice
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import TunableOp
from ..ir.registry import register
from ..schedule.convolution_blocking import ConvolutionChoice, ranked_choices, ranked_products
from ..schedule.convolution_geometry import ConvolutionGeometry
from ..schedule.matmul_tile import BYTES_PER_CYCLE
from .convolution import Convolution

if TYPE_CHECKING:
    from ...base.target import Target
    from ..schedule.context import LowerContext

LAST_BANDS = ("place", "rows", "patches")
"""Bands for an image channels last."""
PLAIN_BANDS = ("planes", "product")


@register("direct_convolution")
class DirectConvolution(Convolution, TunableOp):
    """A `convolution` of f32 over one or two spatial axes, run by `templates.convolution`.

    With more than one group w is [groups, O / groups, C / groups, kernel...], so that each has panels of its own.
    """

    def weight_dims(self, w: LogicalTensor) -> tuple[int, ...]:
        """[O, C / groups, kernel...], the groups joined."""
        if self.groups == 1:
            return w.plain_dims
        groups, outputs, *rest = w.plain_dims
        return (groups * outputs, *rest)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """[N, O, places...]."""
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
    def geometry(self) -> ConvolutionGeometry:
        """Its numbers."""
        return geometry_of(self)

    @property
    def problem(self) -> str:
        """The name of the convolution in profiles and tuning files: `conv c64i56x56o64r56x56k3x3p1x1 f32`."""
        return f"conv {self.geometry} {self.inputs[0].details.dtype}"

    @property
    def result_holds_sums(self) -> bool:
        """Steps of the sum wait in the result."""
        return True

    def query_format(self, ctx: LowerContext) -> list[FormatChoice]:
        """Channels last with the weights in panels; the image may be plain if it has few channels, and everything if it
        is a product of weights and image."""
        g, rank = self.geometry, self.inputs[0].details.rank
        last = channels_last(rank)
        cycles: dict[tuple[Format, Format, Format], float] = {}
        for choice in offered(g, ctx, self.problem):
            image = plain(rank) if choice.band in PLAIN_BANDS else last
            formats = (image, panel_format(self, choice, ctx.target), last)
            if choice.band == "product":
                formats = (plain(rank), plain(self.inputs[1].details.rank), plain(rank))
            cycles.setdefault(formats, choice.cycles)
        best = min(cycles.values())
        return [
            FormatChoice((image, panels), (result,), (found - best) * BYTES_PER_CYCLE)
            for (image, panels, result), found in cycles.items()
        ]


def offered(
    g: ConvolutionGeometry, ctx: LowerContext, problem: str = ""
) -> list[ConvolutionChoice]:
    """Every way the template offers, the fastest foreseen first for each layout of the image.

    Of the tile only that is asked for under the name of the problem, if any is and it can run.
    """
    target, threads = ctx.target, ctx.options.threads
    asked = ctx.blockings.get(problem)
    for tiles in [(asked.tile,), ()] if asked else [()]:
        found = [
            *ranked_choices(g, target, threads, LAST_BANDS, tiles),
            *ranked_choices(g, target, threads, ("planes",), tiles),
            *ranked_products(g, target, threads, tiles),
        ]
        if found:
            break
    return found


def geometry_of(op: Convolution) -> ConvolutionGeometry:
    """The numbers of a convolution; of more than two spatial axes all but the last count as rows."""
    x, w = op.inputs[0].details.plain_dims, op.weight_dims(op.inputs[1].details)
    window, groups = op.window, op.groups
    places = op.outputs[0].details.plain_dims[2:]
    return ConvolutionGeometry(
        x[0], groups, w[1], w[0] // groups, _pair(x[2:]), _pair(places), _pair(window.kernel),
        _pair(window.strides), _pair(window.dilations), _pair(window.before, 0),
    )  # fmt: skip


def _pair(sizes: tuple[int, ...], missing: int = 1) -> tuple[int, int]:
    *outer, last = sizes
    return (math.prod(outer) if outer else missing), last


def channels_last(rank: int) -> Format:
    """NHWC and its like: the second axis behind all others."""
    return Format("NC" + "DHW"[5 - rank :], (0, *range(2, rank), 1), (0,) * rank)


def panel_format(op: Convolution, choice: ConvolutionChoice, target: Target) -> Format:
    """Weights [O, C, kernel...] in panels of outputs: kernel then channels inside, for "planes" the channels before the
    last axis of the kernel. Groups, if w has them as an axis, come first."""
    rank = op.inputs[0].details.rank
    groups = (0,) * (op.inputs[1].details.rank - rank)
    first = len(groups)
    kernel = range(first + 2, first + rank)
    planes = choice.band == "planes"
    inner = (*kernel[:-1], first + 1, kernel[-1]) if planes else (*kernel, first + 1)
    columns = choice.blocking.tile.columns(target)
    order = (*groups, first, *inner, first)
    axes = "G" * first + "OI" + "DHW"[5 - rank :]
    return Format(axes, order, (0,) * (first + rank) + (columns,))
