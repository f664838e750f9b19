"""How a direct convolution may run: the layouts of its operands, and bands and blockings for the layouts they have."""

from __future__ import annotations

from dataclasses import replace

from ...base.target import Target
from ..ir.format import Format, channels_last, plain
from ..ops.convolution import Convolution
from ..ops.convolution_direct import DirectConvolution
from .context import LowerContext
from .convolution_blocking import (
    ConvolutionChoice,
    blocking_cycles,
    candidate_choices,
    ranked_choices,
    ranked_products,
)
from .convolution_geometry import ConvolutionGeometry
from .convolution_sizes import geometry_of
from .format_choice import FormatChoice
from .matmul_tile import MatmulBlocking
from .problem import problem_of

LAST_BANDS = ("image", "rows", "im2col")
"""Bands for an image channels last."""
PLAIN_BANDS = ("planes", "product")


def convolution_formats(op: DirectConvolution, ctx: LowerContext) -> list[FormatChoice]:
    """Channels last with the weights in panels; the image may be plain if it has few channels, and everything if it
    is a product of weights and image."""
    rank = op.inputs[0].details.rank
    last = channels_last(rank)
    cycles: dict[tuple[Format, Format, Format], float] = {}
    for choice in offered(geometry_of(op), ctx, problem_of(op)):
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
    g: ConvolutionGeometry, ctx: LowerContext, problem: str = ""
) -> list[ConvolutionChoice]:
    """Every choice the template offers, predicted fastest first for each layout of the image.

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


def convolution_choices(op: DirectConvolution, ctx: LowerContext) -> list[ConvolutionChoice]:
    """Every band and blocking the template offers for the layouts its operands have; the model's pick first."""
    x, w = (i.details.format for i in op.inputs)
    choices = offered(geometry_of(op), ctx, problem_of(op))
    if op.outputs[0].details.format.is_plain:
        return [c for c in choices if c.band == "product"]
    bands = ("planes",) if x.is_plain else LAST_BANDS
    return [
        c
        for c in choices
        if c.band in bands and c.blocking.tile.columns(ctx.target) == w.blocks[-1]
    ]


def convolution_candidates(op: DirectConvolution, ctx: LowerContext) -> list[ConvolutionChoice]:
    """The choices worth trying for the layouts a convolution has, with predicted cycles; the model's pick first."""
    picks = convolution_choices(op, ctx)
    if picks[0].band == "product":
        return picks
    bands = tuple(dict.fromkeys(choice.band for choice in picks))
    tiles = tuple(dict.fromkeys(choice.blocking.tile for choice in picks))
    found = candidate_choices(geometry_of(op), ctx.target, ctx.options.threads, bands, tiles)
    # A blocking asked for runs with the best band of its tile, so only that one can be tried.
    band_of = {choice.blocking.tile: choice.band for choice in reversed(picks)}
    return [c for c in found if c.band == band_of[c.blocking.tile]]


def convolution_choice(op: DirectConvolution, ctx: LowerContext) -> ConvolutionChoice:
    """How a convolution runs: under the blocking asked for, else by the cost model."""
    choices = convolution_choices(op, ctx)
    asked = ctx.blockings.get(problem_of(op))
    same = [c for c in choices if asked and c.blocking.tile == asked.tile]
    return replace(same[0], blocking=asked) if asked and same else choices[0]


def convolution_cycles(op: DirectConvolution, blocking: MatmulBlocking, ctx: LowerContext) -> float:
    """What the cost model says a convolution takes under a blocking, in the layouts it has."""
    choice = convolution_choice(op, replace(ctx, blockings={problem_of(op): blocking}))
    if choice.band == "product":
        return choice.cycles
    return blocking_cycles(geometry_of(op), choice.band, blocking, ctx.target, ctx.options.threads)
