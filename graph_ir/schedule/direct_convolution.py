"""How a direct convolution may run: the layouts of its operands, and bands and blockings for the layouts they have."""

from __future__ import annotations

from functools import cached_property

from ...base.contraction import f32_kernel
from ...base.dtypes import F32
from ...base.target import Target
from ..ir.format import Format, channels_last, plain
from ..ir.schedule import Parameter, Schedule
from ..ops.convolution import Convolution
from ..ops.convolution_direct import DirectConvolution
from ..rewriting.kernel_group import KernelGroup
from .asked import asked_settings, wanted_by_name
from .context import LowerContext
from .convolution_blocking import (
    FLAT_BANDS,
    ConvolutionChoice,
    blocking_cycles,
    candidate_choices,
    fits,
    fits_stack,
    product_of,
    ranked_choices,
    ranked_products,
)
from .convolution_geometry import ConvolutionGeometry
from .convolution_sizes import geometry_of
from .format_choice import FormatChoice
from .matmul import blocking_of
from .matmul_cost import blocking_cycles as product_cycles
from .problem import problem_of
from .register_tile import BLOCKING_MEANINGS, tile_fault, widths_asked
from .space import ScheduleSpace

LAST_BANDS = ("image", "rows", "im2col")
"""Bands for an image channels last."""
PLAIN_BANDS = ("planes", "product")
NOTHING = Schedule("")


def convolution_formats(op: DirectConvolution, ctx: LowerContext) -> list[FormatChoice]:
    """Channels last with the weights in panels; the image may be plain if it has few channels, and everything if it
    is a product of weights and image."""
    rank = op.inputs[0].details.rank
    last = channels_last(rank)
    cycles: dict[tuple[Format, Format, Format], float] = {}
    asked = asked_settings(op, problem_of(op), ctx)
    band = asked.settings.get("band") if wanted_by_name(op, ctx) else None
    choices = offered(geometry_of(op), ctx, asked)
    for choice in [c for c in choices if c.band == band] or choices:
        image = plain(rank) if choice.band in PLAIN_BANDS else last
        formats = (image, panel_format(op, choice, ctx.target), last)
        if choice.band == "product":
            formats = (plain(rank), plain(op.inputs[1].details.rank), plain(rank))
        cycles.setdefault(formats, choice.cycles)
    best = min(cycles.values())
    return [
        FormatChoice(
            (image, panels), (result,), (found - best) * ctx.target.machine.shared_bytes_per_cycle
        )
        for (image, panels, result), found in cycles.items()
    ]


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


def offered(
    g: ConvolutionGeometry, ctx: LowerContext, asked: Schedule = NOTHING
) -> list[ConvolutionChoice]:
    """Every choice the template offers, predicted fastest first for each layout of the image.

    Only with panels of the width that is asked for, if any is and it can run.
    """
    target, threads, kernel = ctx.target, ctx.options.threads, f32_kernel(ctx.target)
    tiles = tuple(widths_asked(asked, kernel.tiles, target, kernel).values())
    for some in [tiles, ()] if "nv" in asked.settings else [()]:
        found = [
            *ranked_choices(g, target, threads, LAST_BANDS, some),
            *ranked_choices(g, target, threads, ("planes",), some),
            *ranked_products(g, target, threads, some),
        ]
        if found:
            break
    return found


def convolution_schedule(choice: ConvolutionChoice) -> Schedule:
    """A band and a blocking as a schedule."""
    blocking = choice.blocking
    return Schedule.of(
        "direct", band=choice.band, mr=blocking.tile.rows, nv=blocking.tile.vectors,
        mc=blocking.m_block, kc=blocking.k_block, ng=blocking.n_groups,
    )  # fmt: skip


class DirectSpace(ScheduleSpace):
    """Bands and blockings of a direct convolution."""

    algorithm = "direct"
    meanings = {
        "band": "where the image is read: in place, or from a copy of rows, planes or patches",
        **BLOCKING_MEANINGS,
        "mc": "rows of the result per band",
    }

    words = ("band",)
    leading = ("band", "mr", "nv")

    def __init__(self, op: DirectConvolution, group: KernelGroup, ctx: LowerContext) -> None:
        super().__init__(op.name, problem_of(op))
        self.op = op
        self.ctx = ctx
        self.geometry = geometry_of(op)

    @cached_property
    def picks(self) -> list[ConvolutionChoice]:
        """The best blocking of each band and tile that suit the layouts, the model's pick first."""
        panels = Schedule("direct", tuple(self.fixed().items()))
        return [c for c in offered(self.geometry, self.ctx, panels) if c.band in self._bands()]

    def _bands(self) -> tuple[str, ...]:
        """The bands that suit the layouts."""
        if self.op.outputs[0].details.format.is_plain:
            return ("product",)
        bands = ("planes",) if self.op.inputs[0].details.format.is_plain else LAST_BANDS
        return tuple(band for band in bands if fits(self.geometry, band))

    @property
    def pick(self) -> Schedule:
        """The cost model's choice."""
        return convolution_schedule(self.picks[0])

    def ranked(self) -> list[Schedule]:
        """The picks, then other bands of rows, steps of the sum and groups of panels."""
        if self.picks[0].band == "product":
            return [convolution_schedule(choice) for choice in self.picks]
        bands = tuple(dict.fromkeys(choice.band for choice in self.picks))
        tiles = tuple(dict.fromkeys(choice.blocking.tile for choice in self.picks))
        threads = self.ctx.options.threads
        found = candidate_choices(self.geometry, self.ctx.target, threads, bands, tiles)
        return [convolution_schedule(choice) for choice in found]

    def cycles(self, schedule: Schedule) -> float:
        """What the cost model says, in the layouts the convolution has."""
        blocking = blocking_of(schedule, f32_kernel(self.ctx.target))
        if schedule.word("band") == "product":
            product = product_of(self.geometry, self.ctx.target, self.ctx.options.threads)
            return product_cycles(product, blocking, False)
        threads = self.ctx.options.threads
        band = schedule.word("band")
        return blocking_cycles(self.geometry, band, blocking, self.ctx.target, threads)

    def fixed(self) -> dict[str, Parameter]:
        """The width of the panels that the weights lie in."""
        w = self.op.inputs[1].details.format
        return {"nv": w.blocks[-1] // self.ctx.target.lanes(F32)} if w.is_blocked else {}

    def tuned(self, found: Schedule | None) -> Schedule:
        """As measured; with another band where the layouts around do not suit the one that was."""
        if found is not None and found.settings.get("band") not in self._bands():
            found = found.replaced(band=self.pick.word("band"))
        return super().tuned(found)

    def fault(self, schedule: Schedule) -> str:
        """A band that suits the layouts, and rows that fit on the stack."""
        band, height = schedule.word("band"), schedule.number("mc")
        if band not in self._bands():
            return f"band must be {' or '.join(self._bands())} in the layouts chosen"
        rows = self.geometry.result[0]
        if band in FLAT_BANDS and height != rows:
            return f"mc must be all {rows} rows of the result with band={band}"
        if band != "product" and not fits_stack(self.geometry, band, height, self.ctx.target):
            return "mc is too large: the band would not fit on the stack"
        return tile_fault(schedule, self.ctx.target)
