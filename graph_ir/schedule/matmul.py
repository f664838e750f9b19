"""How a matrix product may run: the layouts of its operands, and the blockings for the layout they have."""

from __future__ import annotations

import math

from ...base.contraction import Microkernel, microkernel
from ...base.dtypes import F16
from ..ir.format import Format, plain
from ..ops.matmul import MatmulCore
from .context import LowerContext
from .format_choice import FormatChoice
from .matmul_cost import blocking_cycles
from .matmul_tile import (
    MatmulBlocking,
    candidate_blockings,
    extra_bytes,
    ranked_tiles,
    reads_in_place,
)
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
    kernel = panel_kernel(op, ctx)
    if kernel is None:
        return [FormatChoice((a, b), (c,), copied)]
    tiles = (asked.tile,) if asked else ranked_tiles(m, n, ctx.target, kernel)
    widths = {tile.columns(ctx.target, kernel.accumulator): tile for tile in tiles}
    packed = [
        FormatChoice(
            (a, panel_format(op, columns, kernel.k_group)),
            (c,),
            batch * extra_bytes(m, n, k, tile, ctx.target, kernel),
        )
        for columns, tile in widths.items()
    ]
    return [FormatChoice((a, b), (c,), copied), *packed]


def panel_kernel(op: MatmulCore, ctx: LowerContext) -> Microkernel | None:
    """The microkernel for a B in panels; None where its elements are better converted while they are packed.

    Groups of k must come out even, as padding may hold anything and NaN times zero is no zero.
    """
    types = op.contraction
    grouped = microkernel(types.a, types.b, ctx.target)
    even = op.sizes[2] % grouped.k_group == 0 and not op.transpose_a
    kernel = grouped if even else microkernel(types.a, types.b, ctx.target, grouped=False)
    is_cheap = kernel.b != F16 or ctx.target.table.has_half_conversion
    return kernel if is_cheap or kernel.k_group > 1 else None


def matmul_kernel(op: MatmulCore, ctx: LowerContext) -> Microkernel:
    """The microkernel of a product, given the layout its B has: groups of k if B has them, or gets them when packed."""
    fmt, types = op.inputs[1].details.format, op.contraction
    best = microkernel(types.a, types.b, ctx.target)
    if fmt.is_blocked:
        grouped = len(fmt.blocks) - fmt.rank == 2
    else:
        is_packed = op.transpose_b or not reads_in_place(op.sizes[0], best.tiles[0])
        grouped = is_packed and not op.transpose_a
    return best if grouped else microkernel(types.a, types.b, ctx.target, grouped=False)


def panel_format(op: MatmulCore, columns: int, k_group: int = 1) -> Format:
    """B in panels of `columns`: outer n, then k, then n inside the panel, batch axes first; groups of k innermost."""
    rank = op.inputs[1].details.rank
    n_axis, k_axis = (rank - 2, rank - 1) if op.transpose_b else (rank - 1, rank - 2)
    axes = ("NK" if op.transpose_b else "KN") if rank == 2 else plain(rank).axes
    order, blocks = (*range(rank - 2), n_axis, k_axis, n_axis), (0,) * rank + (columns,)
    if k_group > 1:
        return Format(axes, (*order, k_axis), (*blocks, k_group))
    return Format(axes, order, blocks)


def matmul_blockings(op: MatmulCore, ctx: LowerContext) -> list[MatmulBlocking]:
    """Every blocking the template offers for a product, given the layout its B has; the model's pick first."""
    m, n, k = op.sizes
    fmt = op.inputs[1].details.format
    kernel, threads = matmul_kernel(op, ctx), ctx.options.threads
    tiles = ranked_tiles(m, n, ctx.target, kernel)
    if fmt.is_blocked:
        width = fmt.blocks[fmt.rank]
        tiles = [x for x in tiles if x.columns(ctx.target, kernel.accumulator) == width]
    batch = math.prod(op.outputs[0].details.plain_dims[:-2])
    return [
        blocking
        for tile in tiles
        for blocking in candidate_blockings(batch, m, n, k, tile, ctx.target, threads, kernel)
    ]


def matmul_blocking(op: MatmulCore, ctx: LowerContext) -> MatmulBlocking:
    """The blocking a product runs with: the one asked for, else the cost model's."""
    return ctx.blockings.get(problem_of(op)) or matmul_blockings(op, ctx)[0]


def matmul_cycles(op: MatmulCore, blocking: MatmulBlocking, ctx: LowerContext) -> float:
    """What the cost model says a product takes under a blocking, given the layout its B has."""
    batch = math.prod(op.outputs[0].details.plain_dims[:-2])
    packed = op.inputs[1].details.format.is_blocked
    kernel, threads = matmul_kernel(op, ctx), ctx.options.threads
    return blocking_cycles(batch, *op.sizes, blocking, ctx.target, threads, packed, kernel)
