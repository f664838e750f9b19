"""Tiles and blocks of matmuls on two-dimensional registers: heights, and what stays in which cache."""

from __future__ import annotations

import math
from dataclasses import replace

from ...base.dims import Size
from ...targets.isa import GemmTile, Microkernel
from .cost import Gemm

MAX_TOGETHER = 2
"""Registers of rows that are multiplied together (`tensor_ir.tile_registers`)."""


def tiles_of(kernel: Microkernel, m: int) -> list[GemmTile]:
    """Return the register tiles of a microkernel worth using for m rows.

    Two-dimensional registers have one height in a whole kernel, which divides m into as few of them as there can be,
    or one more where that makes pairs of lower ones.
    """
    if kernel.registers is None:
        return list(kernel.tiles)
    number = math.ceil(max(m, 1) / kernel.registers.rows)
    if number > 2 and math.ceil(m / (number + number % 2)) < kernel.registers.rows:
        number += number % 2
    height = math.ceil(max(m, 1) / number)
    return [replace(tile, rows=min(number, 2) * height) for tile in kernel.tiles]


def joins_lines(
    kernel: Microkernel,
    tile: GemmTile,
    rows: int,
    result: tuple[Size, Size],
    is_dense: bool = False,
) -> bool:
    """Return whether `rows` lines of pixels are one GEMM: lines that are `is_dense`, or each of them a register, so
    that pairs of lines share each load of weights."""
    shape, (lines, pixels) = kernel.registers, result
    if not isinstance(lines, int) or not isinstance(pixels, int) or rows < 2 or lines % rows:
        return False
    fills = shape and shape.rows < tile.rows == MAX_TOGETHER * pixels <= MAX_TOGETHER * shape.rows
    return is_dense or bool(fills)


def pick_blocks(gemm: Gemm, tile: GemmTile) -> tuple[int, int]:
    """Return (rows of a block, groups of panels): all of k at once.

    The rows of a tile stay in L1 while all panels of a group pass them from L2. Where the rows are too long for L1,
    or B too large for L2, more rows stay in L2 while a panel passes them. Measured on Sapphire Rapids with
    1024x1024x1024: 2,800 Gop/s with 32 rows, 1,900 with 1024; 128x768x3072 (B of 2.3 MB): 2,200 with 32 rows and 3
    groups, 2,600 with 128 rows.
    """
    target, depth = gemm.target, gemm.row_bytes
    panels, tiles = math.ceil(gemm.n / gemm.columns(tile)), math.ceil(gemm.m / tile.rows)
    in_l1 = tile.rows * depth <= target.l1_bytes * 3 // 4
    b_in_l2 = gemm.n * depth <= target.l2_bytes * 3 // 4
    in_l2 = max(1, target.l2_bytes // 2 // (tile.rows * depth))
    evenly = math.ceil(tiles / math.ceil(tiles / in_l2))
    together = 1 if in_l1 and (b_in_l2 or tiles > in_l2) else evenly
    strips = (
        1
        if b_in_l2 or not in_l1 or together > 1
        else math.ceil(2 * gemm.n * depth / target.l2_bytes)
    )
    groups = min(panels, strips)
    if gemm.batch % gemm.cores:
        tasks = gemm.batch * math.ceil(tiles / together) * groups
        together = max(1, min(together, math.ceil(tiles / gemm.cores)))
        if tasks < gemm.cores:
            groups = min(panels, math.ceil(gemm.cores / math.ceil(tiles / together)))
    return together * tile.rows, groups


def blocks_worth_trying(gemm: Gemm, tile: GemmTile) -> list[tuple[int, int]]:
    """Return the pick, then other numbers of rows and of groups of panels."""
    pick, panels = pick_blocks(gemm, tile), math.ceil(gemm.n / gemm.columns(tile))
    rows = dict.fromkeys((pick[0], *(min(x * tile.rows, gemm.m) for x in (1, 2, 4, 32))))
    groups = dict.fromkeys((pick[1], *(min(x * gemm.cores, panels) for x in (1, 2, 4))))
    return list(dict.fromkeys((pick, *((m, n) for m in rows for n in groups))))
