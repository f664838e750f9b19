"""How a Winograd convolution may run: the layouts of its operands, and the blocking for the layout they have."""

from __future__ import annotations

from ...base.contraction import f32_tiles
from ..ir.format import Format, channels_last, plain
from ..ops.winograd import WinogradConvolution
from .context import LowerContext
from .convolution_sizes import winograd_geometry
from .format_choice import FormatChoice
from .winograd_tile import WinogradBlocking, pick_blocking, ranked_tiles


def winograd_formats(op: WinogradConvolution, ctx: LowerContext) -> list[FormatChoice]:
    """Channels last, u in panels as wide as one of the ISA's register tiles: [points, O / nr][C][nr].

    A choice costs what its tile loses against the best one, as the bytes that could move meanwhile.
    """
    last = channels_last(4)
    ranked = ranked_tiles(winograd_geometry(op), op.form, ctx.target)
    best = ranked[0][1]
    return [
        FormatChoice(
            (last, panel_format(tile.columns(ctx.target))),
            (last,),
            (cycles - best) * ctx.target.machine.shared_bytes_per_cycle,
        )
        for tile, cycles in ranked
    ]


def panel_format(columns: int) -> Format:
    """u in panels of `columns` channels of the result."""
    return Format(plain(3).axes, (0, 2, 1, 2), (0, 0, 0, columns))


def winograd_blocking(op: WinogradConvolution, ctx: LowerContext) -> WinogradBlocking:
    """The cost model's blocking for the panels that u lies in."""
    columns = op.inputs[1].details.format.blocks[-1]
    tile = next(x for x in f32_tiles(ctx.target) if x.columns(ctx.target) == columns)
    return pick_blocking(winograd_geometry(op), op.form, tile, ctx.target, ctx.options.threads)
