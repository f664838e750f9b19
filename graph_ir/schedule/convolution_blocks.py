"""Convolutions whose channels lie in blocks: `NCHW16c, OIHW16i16o -> NCHW16c`, or 8 of them.

They lose against channels last, as the rows of every block are copied and a panel is one block wide, so that they are
taken only where they are requested (`-X layout=blocked`, `band=blocks`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...targets.isa import GemmTile, Microkernel, Target
from ..ir.format import Format, channels_last, plain
from ..nest.convolution_geometry import ConvolutionGeometry
from ..ops.convolution import Convolution
from .context import LowerContext
from .convolution_blocking import fits, ranked_choices
from .convolution_gemm import ConvolutionGemm
from .format_choice import FormatChoice
from .register_tile import highest_tile

BLOCKS = (16, 8)
"""Channels of a block."""


def blocked_choices(
    op: Convolution,
    problems: Sequence[ConvolutionGemm],
    best: float,
    rate: float,
    requested: bool,
) -> list[FormatChoice]:
    """The blocked layouts that a convolution can run in; `best`: cycles of the best other choice, each `rate` bytes.

    `requested`: somebody requested them by the name of the op.
    """
    rank = op.inputs[0].details.rank
    return [
        FormatChoice(
            (channel_blocks(rank, size), weight_blocks(rank, size)),
            (channel_blocks(rank, size),),
            max(0.0, ranked_choices(p, ("blocks",), (block_tile(p, size),))[0].cycles - best)
            * rate,
            not requested,
        )
        for p in problems
        for size in block_sizes(p.geometry, p.kernel, p.target)
        if fits(p, "blocks")
    ]


def block_sizes(g: ConvolutionGeometry, kernel: Microkernel, target: Target) -> list[int]:
    """The blocks that channels may lie in: whole ones, of whole vectors of results."""
    if g.groups > 1 or kernel.k_group > 1:
        return []
    lanes = target.lanes(kernel.accumulator)
    return [size for size in BLOCKS if size % lanes == 0 == g.channels % size]


def block_tile(p: ConvolutionGemm, size: int) -> GemmTile:
    """The highest register tile that is one block wide."""
    return highest_tile(size // p.target.lanes(p.kernel.accumulator), p.kernel, p.target)


def channel_blocks(rank: int, size: int) -> Format:
    """NCHW16c and similar."""
    return Format(channels_last(rank).axes, (*range(rank), 1), (0,) * rank + (size,))


def weight_blocks(rank: int, size: int) -> Format:
    """OIHW16i16o and similar."""
    axes = plain(rank, "OI" + "DHW"[5 - rank :]).axes
    return Format(axes, (*range(rank), 1, 0), (0,) * rank + (size, size))


def may_be_blocked(
    kernels: Sequence[Microkernel], g: ConvolutionGeometry, ctx: LowerContext
) -> bool:
    """Return whether the options ask for blocks, and a convolution can have them."""
    wanted = ctx.options.layout == "blocked"
    return wanted and any(block_sizes(g, kernel, ctx.target) for kernel in kernels)
