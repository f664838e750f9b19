"""Schedules of a direct convolution: the layouts of its operands, and bands and blockings for given layouts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property

from ...base.contraction import accumulator_of
from ...targets.isa import Microkernel, Target
from ...targets.microkernels import microkernels
from ..ir.format import Format, channels_last, plain
from ..ir.schedule import Parameter, Schedule
from ..nest.problem import Contraction
from ..ops.convolution import Convolution, DirectConvolution
from ..rewriting.kernel_group import KernelGroup
from .context import LowerContext
from .contraction_space import ContractionSpace
from .convolution_blocking import (
    ConvolutionChoice,
    blocking_cycles,
    candidate_choices,
    fits,
    fits_stack,
    ranked_choices,
)
from .convolution_blocks import block_tile, blocked_choices
from .convolution_gemm import ConvolutionGemm
from .convolution_problem import ConvolutionCase
from .convolution_sizes import geometry_of
from .convolution_steps import band_of, terms_of
from .format_choice import FormatChoice
from .matmul import USE_MEANING, blocking_of, kernel_of
from .problem import problem_of
from .register_tile import BLOCKING_MEANINGS, unsupported_tile_reason, widths_requested
from .requested import requested_settings, wanted_by_name

LAST_BANDS = ("image", "rows")
"""Bands for an image channels last."""
NOTHING = Schedule("")


def convolution_formats(op: DirectConvolution, ctx: LowerContext) -> list[FormatChoice]:
    """Channels last with the weights in panels, or everything plain where weights meet patches of few channels."""
    rank = op.inputs[0].details.rank
    last = channels_last(rank)
    first = plain(rank, last.axes)
    cycles: dict[tuple[Format, Format, Format], float] = {}
    requested = requested_settings(op, problem_of(op), ctx)
    band = band_of(requested) if wanted_by_name(op, ctx) else None
    problems = ConvolutionGemm.of_kernels(geometry_of(op), convolution_kernels(op, ctx), ctx)
    choices = offered(problems, requested)
    for choice in [c for c in choices if c.band == band] or choices:
        panels = panel_format(op, choice, ctx.target)
        formats = (last, panels, last)
        if choice.band == "patches":
            formats = (first, plain(panels.rank, panels.axes), first)
        cycles.setdefault(formats, choice.cycles)
    best, rate = min(cycles.values()), ctx.target.machine.shared_bytes_per_cycle
    blocked = blocked_choices(op, problems, best, rate, band == "blocks")
    if band == "blocks" and blocked:
        return blocked
    found = [FormatChoice(x[:2], x[2:], (n - best) * rate) for x, n in cycles.items()]
    return [*found, *blocked]


def convolution_kernels(op: Convolution, ctx: LowerContext) -> tuple[Microkernel, ...]:
    """The microkernels that can multiply the image by the weights, preferred first.

    Groups of floats must come out even, as padding may hold anything and NaN times zero is not zero; that of constants,
    which are packed at compile time, is zero.
    """
    types, w = op.contraction, op.inputs[1].producer_owner
    while w.op_name in ("reshape", "reorder"):
        w = w.inputs[0].producer_owner
    clean = not types.b.is_float or (w.is_constant and ctx.options.enabled("fold"))
    depth = geometry_of(op).channels
    known = microkernels(types.a, types.b, ctx.target, tiles=True)
    return tuple(x for x in known if clean or depth % x.k_group == 0)


def panel_format(op: Convolution, choice: ConvolutionChoice, target: Target) -> Format:
    """Weights [O, C, kernel...] in panels of outputs: kernel then channels inside, groups of channels innermost.
    Groups, if w has them as an axis, come first."""
    rank = op.inputs[0].details.rank
    groups = (0,) * (op.inputs[1].details.rank - rank)
    first = len(groups)
    kernel = range(first + 2, first + rank)
    blocks = {first: choice.blocking.tile.columns(target, choice.kernel.accumulator)}
    if choice.kernel.k_group > 1:
        blocks[first + 1] = choice.kernel.k_group
    axes = "G" * first + "OI" + "DHW"[5 - rank :]
    order = (*groups, first, *kernel, first + 1, *blocks)
    return Format(axes, order, (0,) * (first + rank) + tuple(blocks.values()))


def offered(
    problems: Sequence[ConvolutionGemm], requested: Schedule = NOTHING
) -> list[ConvolutionChoice]:
    """Every choice the template offers, predicted fastest first for each layout of the image.

    Only with the instruction and with panels of the width that are requested, if any are and can run.
    """
    wanted = requested.settings.get("use")
    problems = [p for p in problems if p.kernel.instruction == wanted] or problems
    tiles = [widths_requested(requested, p.kernel.tiles, p.target, p.kernel) for p in problems]
    found: list[ConvolutionChoice] = []
    for is_requested in (True, False) if "nv" in requested.settings else (False,):
        for bands in (LAST_BANDS, ("patches",)):
            choices = (
                ranked_choices(p, bands, tuple(some.values()) if is_requested else ())
                for p, some in zip(problems, tiles, strict=True)
            )
            found += sorted(itertools.chain(*choices), key=lambda choice: choice.cycles)
        if found:
            break
    return found


def convolution_schedule(choice: ConvolutionChoice) -> Schedule:
    """A band and a blocking for a microkernel as a schedule."""
    use = choice.kernel.instruction
    return Schedule.of("direct", band=choice.band, **choice.blocking.settings, use=use)


class DirectSpace(ContractionSpace):
    """Bands and blockings of a direct convolution."""

    algorithm = "direct"
    meanings = {
        "band": "where the image is read: in place, or from a copy of rows, blocks or patches",
        **BLOCKING_MEANINGS,
        "mc": "rows of the result per band",
        "use": USE_MEANING,
    }

    words = ("band", "use")
    leading = ("band", "use", "mr", "nv")

    def __init__(self, op: DirectConvolution, group: KernelGroup, ctx: LowerContext) -> None:
        super().__init__(op.name, problem_of(op))
        self.op, self.group, self.ctx = op, group, ctx
        self.geometry = geometry_of(op)
        self.problems = ConvolutionGemm.of_kernels(self.geometry, self._layout_kernels(), ctx)

    def _layout_kernels(self) -> tuple[Microkernel, ...]:
        """The microkernels that suit the layout of the weights: panels have the groups of one."""
        w, types = self.op.inputs[1].details.format, self.op.contraction
        known = microkernels(types.a, types.b, self.ctx.target, tiles=True)
        if not w.is_blocked:
            return known
        if self._is_blocked:
            return tuple(x for x in known if x.k_group == 1)
        group = w.blocks[-1] if len(w.blocks) - w.rank == 2 else 1
        return tuple(x for x in known if x.k_group == group and x.takes_vectors(self._vectors))

    @cached_property
    def picks(self) -> list[ConvolutionChoice]:
        """The best blocking of each band and tile that suit the layouts, the model's pick first."""
        if self._is_blocked:
            (problem,) = self.problems
            return list(ranked_choices(problem, ("blocks",), (block_tile(problem, self._width),)))
        panels = Schedule("direct", tuple(self.fixed().items()))
        return [c for c in offered(self.problems, panels) if c.band in self._bands()]

    def _bands(self) -> tuple[str, ...]:
        """The bands that suit the layouts."""
        if self._is_blocked:
            return ("blocks",)
        if self.op.outputs[0].details.format.is_plain:
            return ("patches",)
        return tuple(band for band in LAST_BANDS if any(fits(p, band) for p in self.problems))

    def _problem_of(self, schedule: Schedule) -> ConvolutionGemm:
        kernel = kernel_of(schedule, self.op, self.ctx.target)
        return ConvolutionGemm.of_kernels(self.geometry, [kernel], self.ctx)[0]

    def case(self, point: Schedule) -> ConvolutionCase:
        """Return the convolution with some settings."""
        kernel = kernel_of(point, self.op, self.ctx.target)
        blocking, band = blocking_of(point, kernel), point.word("band")
        return ConvolutionCase(self.op, self.group, band, blocking, kernel, self.ctx)

    def contraction(self, point: Schedule) -> Contraction | None:
        """Return the convolution as a contraction; None for patches, which have a template."""
        return None if point.word("band") == "patches" else self.case(point).problem

    def steps(self, point: Schedule, problem: Contraction) -> str:
        """Return the steps of a band and a blocking."""
        return self.case(point).steps

    def defaults(self) -> dict[str, Parameter]:
        """Return one band with all terms, read in place."""
        return {"band": "image", "mc": self.geometry.result[0], "kc": self.geometry.terms}

    def point(self, schedule: Schedule) -> Schedule:
        """Return the settings that steps stand for."""
        if not schedule.steps:
            return schedule
        g, band = self.geometry, band_of(schedule)
        settings: dict[str, Parameter] = {"band": band}
        if "ky" in schedule.steps or not self._problem_of(schedule).result_holds_sums:
            settings["kc"] = self._terms_at_once(schedule)
        elif not g.is_dynamic and "mc" in schedule.settings:
            settings["mc"] = max(1, schedule.number("mc") // g.result[1])
        return super().point(schedule).replaced(**settings)

    def _terms_at_once(self, schedule: Schedule) -> int:
        """Return the terms of a block: all, in several tiles, where the result cannot hold partial sums."""
        g = self.geometry
        if not self._problem_of(schedule).result_holds_sums:
            return g.terms
        return terms_of(schedule.steps, g.kernel[1], g.channels, g.terms)

    @property
    def pick(self) -> Schedule:
        """The cost model's choice."""
        return self.offer(convolution_schedule(self.picks[0]))

    def ranked(self) -> list[Schedule]:
        """The picks, then other bands of rows, steps of the sum and groups of panels."""
        if self.picks[0].band in ("patches", "blocks"):
            return [self.offer(convolution_schedule(choice)) for choice in self.picks]
        found: list[ConvolutionChoice] = []
        for problem in self.problems:
            picks = [choice for choice in self.picks if choice.kernel == problem.kernel]
            bands = tuple(dict.fromkeys(choice.band for choice in picks))
            tiles = tuple(dict.fromkeys(choice.blocking.tile for choice in picks))
            found += candidate_choices(problem, bands, tiles) if picks else []
        return list(dict.fromkeys(self.offer(convolution_schedule(one)) for one in found))

    def cycles(self, schedule: Schedule) -> float:
        """Return the predicted cycles of a schedule in the layouts of the convolution."""
        schedule = self.point(schedule)
        problem = self._problem_of(schedule)
        blocking = blocking_of(schedule, problem.kernel)
        return blocking_cycles(problem, schedule.word("band"), blocking)

    def fixed(self) -> dict[str, Parameter]:
        """The width of the panels that the weights lie in, and the instruction that takes them."""
        w = self.op.inputs[1].details.format
        if not w.is_blocked:
            return {}
        uses = [p.kernel.instruction for p in self.problems]
        return {"nv": self._vectors, **({"use": uses[0]} if len(uses) == 1 else {})}

    @property
    def _vectors(self) -> int:
        """Vectors of a panel of weights."""
        types = self.op.contraction
        return self._width // self.ctx.target.lanes(accumulator_of(types.a, types.b))

    @property
    def _width(self) -> int:
        """Columns of a panel of weights."""
        w = self.op.inputs[1].details.format
        return w.blocks[w.rank]

    @property
    def _is_blocked(self) -> bool:
        """Return whether image and result have their channels in blocks."""
        return self.op.outputs[0].details.format.is_blocked

    def tuned(self, found: Schedule | None) -> Schedule:
        """Return the measured schedule, with another band if the surrounding layouts do not suit its band."""
        if found is not None and band_of(found) not in self._bands():
            found = found.replaced(band=band_of(self.pick))
        return super().tuned(found)

    def invalid_reason(self, schedule: Schedule) -> str:
        """Require a band that suits the layouts, and rows that fit on the stack."""
        band, height = schedule.word("band"), schedule.number("mc")
        if band not in self._bands():
            return f"band must be {' or '.join(self._bands())} in the layouts chosen"
        problem = self._problem_of(schedule)
        if not fits(problem, band):
            return f"use must not be {schedule.word('use')} with band={band}"
        if not fits_stack(problem, band, height):
            return "mc is too large: the band would not fit in local memory"
        terms, kc, is_patches = self.geometry.terms, schedule.number("kc"), band == "patches"
        if is_patches and (kc, schedule.number("ng")) != (terms, 1):
            return f"kc must be all {terms} terms and ng 1 with band=patches"
        if not problem.result_holds_sums and kc < terms:
            return f"kc must be all {terms} terms: the result cannot hold partial sums"
        return unsupported_tile_reason(schedule, self.ctx.target)
