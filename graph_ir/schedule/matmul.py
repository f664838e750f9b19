"""How a matrix product may run: the layouts of its operands, and the blockings for the layout they have."""

from __future__ import annotations

import math

from ..ir.format import Format, plain
from ..ops.matmul import MatmulCore
from .context import LowerContext
from .format_choice import FormatChoice
from .matmul_cost import blocking_cycles
from .matmul_tile import MatmulBlocking, candidate_blockings, extra_bytes, ranked_tiles
from .problem import problem_of


def matmul_formats(op: MatmulCore, ctx: LowerContext) -> list[FormatChoice]:
    """Plain everywhere, or B in panels as wide as one of the ISA's register tiles: [..., N / nr][K][nr]."""
    ranks = [x.details.rank for x in (*op.inputs, *op.outputs)]
    a, b, c = (plain(rank) for rank in ranks)
    if not op.is_tuned:
        return [FormatChoice((a, b), (c,))]
    m, n, k = op.sizes
    batch = math.prod(op.outputs[0].details.plain_dims[:-2])
    # Without panels the template copies B once per run, or reads it across pages: as many bytes again.
    copied = float(op.inputs[1].details.size_bytes)
    asked = ctx.blockings.get(problem_of(op))
    tiles = (asked.tile,) if asked else ranked_tiles(m, n, ctx.target)
    widths = {tile.columns(ctx.target): tile for tile in tiles}
    packed = [
        FormatChoice(
            (a, panel_format(op, columns)), (c,), batch * extra_bytes(m, n, k, tile, ctx.target)
        )
        for columns, tile in widths.items()
    ]
    return [FormatChoice((a, b), (c,), copied), *packed]


def panel_format(op: MatmulCore, columns: int) -> Format:
    """B in panels of `columns`: outer n, then k, then n inside the panel, batch axes first."""
    rank = op.inputs[1].details.rank
    n_axis, k_axis = (rank - 2, rank - 1) if op.transpose_b else (rank - 1, rank - 2)
    axes = ("NK" if op.transpose_b else "KN") if rank == 2 else plain(rank).axes
    return Format(axes, (*range(rank - 2), n_axis, k_axis, n_axis), (0,) * rank + (columns,))


def matmul_blockings(op: MatmulCore, ctx: LowerContext) -> list[MatmulBlocking]:
    """Every blocking the template offers for a product, given the layout its B has; the model's pick first."""
    m, n, k = op.sizes
    fmt = op.inputs[1].details.format
    tiles = ranked_tiles(m, n, ctx.target)
    if fmt.is_blocked:
        tiles = [tile for tile in tiles if tile.columns(ctx.target) == fmt.blocks[-1]]
    batch = math.prod(op.outputs[0].details.plain_dims[:-2])
    return [
        blocking
        for tile in tiles
        for blocking in candidate_blockings(batch, m, n, k, tile, ctx.target, ctx.options.threads)
    ]


def matmul_blocking(op: MatmulCore, ctx: LowerContext) -> MatmulBlocking:
    """The blocking a product runs with: the one asked for, else the cost model's."""
    return ctx.blockings.get(problem_of(op)) or matmul_blockings(op, ctx)[0]


def matmul_cycles(op: MatmulCore, blocking: MatmulBlocking, ctx: LowerContext) -> float:
    """What the cost model says a product takes under a blocking, given the layout its B has."""
    batch = math.prod(op.outputs[0].details.plain_dims[:-2])
    packed = op.inputs[1].details.format.is_blocked
    return blocking_cycles(batch, *op.sizes, blocking, ctx.target, ctx.options.threads, packed)
