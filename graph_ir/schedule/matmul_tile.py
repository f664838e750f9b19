"""Choice of the register tile and blocks of a matmul."""

from __future__ import annotations

import math
from dataclasses import replace

from ...targets.isa import GemmTile, Microkernel, Target
from ...tensor_ir.tiling import k_splits
from ..nest.row_tiles import MAX_TILE_ROWS
from ..ops.matmul import MAX_FEW
from .cost import (
    Gemm,
    MatmulBlocking,
    blocking_cycles,
    gemm_cycles,
    height_with,
    panel_cycles,
    slowness,
)
from .two_dimensional import blocks_worth_trying, pick_blocks, tiles_of


def ranked_tiles(m: int, n: int, target: Target, kernel: Microkernel) -> list[GemmTile]:
    """Return the tiles of a microkernel, least waste on an m x n matmul first; of equal ones the narrowest panel."""

    def cost(tile: GemmTile) -> tuple[float, int]:
        return gemm_cycles(m, n, tile, target, kernel), tile.vectors

    return sorted(tiles_of(kernel, m), key=cost)


def pick_tile(m: int, n: int, target: Target, kernel: Microkernel) -> GemmTile:
    """Return the tile with the least waste on an m x n matmul."""
    return ranked_tiles(m, n, target, kernel)[0]


def extra_bytes(gemm: Gemm, tile: GemmTile) -> float:
    """Return the time a tile loses against the best one on the whole batch, as bytes that could be moved meanwhile."""
    m, n, target, kernel = gemm.m, gemm.n, gemm.target, gemm.kernel
    best = gemm_cycles(m, n, pick_tile(m, n, target, kernel), target, kernel)
    more = gemm_cycles(m, n, tile, target, kernel) - best
    groups = math.ceil(gemm.k / kernel.k_group)
    return gemm.batch * (groups * more * target.machine.shared_bytes_per_cycle)


def tile_of_plain(gemm: Gemm, is_row_major: bool) -> GemmTile:
    """Return the tile for a computed B: panels as wide as a row-major B are B itself, and need no packing."""
    copied = gemm.batch * gemm.k * gemm.n * gemm.kernel.b.size
    for tile in tiles_of(gemm.kernel, gemm.m) if is_row_major else ():
        if gemm.columns(tile) == gemm.n and extra_bytes(gemm, tile) < copied:
            return tile
    return pick_tile(gemm.m, gemm.n, gemm.target, gemm.kernel)


def pick_blocking(gemm: Gemm, tile: GemmTile) -> MatmulBlocking:
    """Blocks from the cache sizes: the widest panel of B takes an eighth of L2 at most; a block of A may fill it.

    Sums are the same in every tile, as blocks of k do not depend on its width.
    Threads split the rows, or the panels if B is the larger side: the other operand is read by each of them.
    """
    m, n, k, threads = gemm.m, gemm.n, gemm.k, gemm.cores
    if gemm.kernel.uses_tiles:
        rows, groups = pick_blocks(gemm, tile)
        return MatmulBlocking(tile, rows, k, groups)
    kernel, l2_bytes = gemm.kernel, gemm.target.l2_bytes
    widest = max(gemm.columns(one) for one in kernel.tiles)
    deepest = max(64, l2_bytes // 8 // (widest * kernel.b.size))
    k_block = _round_up(math.ceil(k / math.ceil(k / deepest)), kernel.k_group)
    # What is converted is converted once for all panels, so that a block of A is as deep as k.
    a_bytes = (k if kernel.converts_a else k_block) * kernel.copied_a.size
    max_rows = max(1, l2_bytes // (a_bytes * tile.rows)) * tile.rows
    wanted = math.ceil(m / max_rows)
    panels = math.ceil(n / gemm.columns(tile))
    n_groups = 1
    if gemm.batch % threads:
        if m < n and panels >= 4 * threads:
            n_groups = threads
        else:  # equally many blocks per thread, unless tiles would become too low
            wanted = max(wanted, min(_round_up(wanted, threads), math.ceil(m / (2 * tile.rows))))
    m_block = math.ceil(m / wanted)
    tasks = gemm.batch * wanted * n_groups
    if tasks < threads:
        n_groups = min(panels, math.ceil(threads / tasks))
    return MatmulBlocking(tile, m_block, k_block, n_groups)


def candidate_blockings(gemm: Gemm, tile: GemmTile) -> list[MatmulBlocking]:
    """Blockings worth trying for one tile: the model's pick first, then other block sizes of k and m."""
    if gemm.kernel.uses_tiles:
        blocks = blocks_worth_trying(gemm, tile)
        return [MatmulBlocking(tile, rows, gemm.k, groups) for rows, groups in blocks]
    pick, threads, m = pick_blocking(gemm, tile), gemm.cores, gemm.m
    k_blocks = {pick.k_block, *(min(gemm.k, size) for size in (128, 256, 512, 1024))}
    m_blocks = {pick.m_block, *(min(m, tile.rows * tiles) for tiles in (1, 4, 16, 32))}
    groups = [pick.n_groups]
    if threads > 1:
        m_blocks |= {math.ceil(m / threads), math.ceil(m / (2 * threads))}
        groups += [1, min(threads, math.ceil(gemm.n / gemm.columns(tile)))]
    others = [
        MatmulBlocking(tile, m_block, k_block, n_groups)
        for n_groups in dict.fromkeys(groups)
        for k_block in sorted(k_blocks)
        for m_block in sorted(m_blocks)
    ]
    return list(dict.fromkeys([pick, *others]))


def splits_of_few(gemm: Gemm, rows: int) -> int:
    """Return the accumulator sets of each element of the matmul if it had `rows` rows."""
    tile = pick_tile(rows, gemm.n, gemm.target, gemm.kernel)
    return k_splits(min(rows, tile.rows), tile.vectors)


def few_rows(gemm: Gemm, tile: GemmTile) -> dict[int, MatmulBlocking]:
    """Return the blockings, with panels as wide as `tile`, of matmuls of few rows with the accumulation of their
    static model.

    Only of those whose accumulation differs from that of many rows.
    """
    found: dict[int, MatmulBlocking] = {}
    if gemm.kernel.uses_tiles:  # sums do not depend on the number of rows
        return found
    for rows in range(1, MAX_FEW + 1):
        splits = splits_of_few(gemm, rows)
        height = height_with(splits, tile.vectors)
        if splits > 1 and height:
            low = GemmTile(height, tile.vectors)
            found[rows] = replace(pick_blocking(replace(gemm, m=rows), low), m_block=rows)
    return found


def kernel_cycles(gemm: Gemm) -> float:
    """Return the cycles of the best blocking of a matmul, corrected by the measured rate of its microkernel."""
    if not gemm.multiply_adds:
        return 0.0
    tile = pick_tile(gemm.m, gemm.n, gemm.target, gemm.kernel)
    cycles = blocking_cycles(gemm, pick_blocking(gemm, tile))
    return cycles * slowness(gemm.kernel, gemm.target)


def tiles_for_any_rows(gemm: Gemm) -> list[GemmTile]:
    """The register tiles for a number of rows that is known at run time, the best first.

    A few rows must have the sums that they have when compiled alone: wide tiles cannot split theirs as often. Of the
    others, that one is best which loses least where it loses most, with few rows or a typical number, against the tile
    for each.
    """
    n, target, kernel = gemm.n, gemm.target, gemm.kernel
    if kernel.uses_tiles:
        return list(kernel.tiles)
    splits = {rows: splits_of_few(gemm, rows) for rows in range(1, MAX_FEW + 1)}
    fitting = [
        tile
        for tile in ranked_tiles(gemm.m, n, target, kernel)
        if all(height_with(one, tile.vectors) for one in set(splits.values()) - {1})
    ]
    best = {
        m: gemm_cycles(m, n, pick_tile(m, n, target, kernel), target, kernel)
        for m in (*splits, gemm.m)
    }

    def loss(tile: GemmTile) -> float:
        """The most cycles of this tile over those of the best one."""
        typical = gemm_cycles(gemm.m, n, tile, target, kernel) / best[gemm.m]
        few = (few_cycles(m, gemm, tile, one) / best[m] for m, one in splits.items())
        return max(typical, *few)

    return [replace(tile, rows=min(tile.rows, MAX_TILE_ROWS)) for tile in sorted(fitting, key=loss)]


def few_cycles(rows: int, gemm: Gemm, tile: GemmTile, splits: int) -> float:
    """Return the cycles of one k of a matmul of a few rows with `splits` accumulator sets, in panels as wide as
    a tile."""
    own = (rows, gemm.n, tile, gemm.target, gemm.kernel)
    has_tile = splits > 1 and height_with(splits, tile.vectors)
    return panel_cycles(*own, splits) if has_tile else gemm_cycles(*own)


def _round_up(value: int, multiple: int) -> int:
    return math.ceil(value / multiple) * multiple
