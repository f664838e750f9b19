"""Tiles and blocks of matmuls on two-dimensional registers: heights, predicted cycles, what stays in which cache."""

from __future__ import annotations

import math
from dataclasses import replace

from ...base.dims import Size
from ...targets.isa import GemmTile, Microkernel, TileShape, tile_depth
from ...targets.machines import Machine
from ...targets.microkernels import register_rows
from .convolution_gemm import ConvolutionGemm
from .gemm import Gemm

MAX_TOGETHER = 2
"""Registers of rows that are multiplied together (`tensor_ir.tile_registers`)."""

UNIT_CYCLES, SHORTEST_CYCLES = 240, 60
"""Cycles between the multiplications of two tiles of 2 x 2 registers, by rows and at least: they are stored, pass the
epilogue, and the next ones start (fitted to matmuls of bytes with k from 64 to 768 on Sapphire Rapids)."""


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


def cycles_per_group(m: int, n: int, tile: GemmTile, machine: Machine, shape: TileShape) -> float:
    """Return the cycles of one group of k of an m x n matmul.

    A multiplication takes a cycle for each row of A in its register, a load half a cycle for each row.
    """
    lanes, height = shape.row_bytes // 4, register_rows(tile, shape)
    rows, columns = math.ceil(m / height), math.ceil(n / lanes)
    left = rows * height * math.ceil(columns / tile.vectors)
    right = columns * lanes * math.ceil(rows * height / tile.rows)
    loads = (left + right) / machine.loads_per_cycle
    efficiency = tile.efficiency if n > lanes else 1.0
    return max(rows * height * columns, loads) / lanes / efficiency


def cycles_between(m: int, n: int, columns: int, tile: GemmTile, shape: TileShape) -> float:
    """Return the cycles of an m x n matmul in which no tile is multiplied, of panels of `columns`."""
    units = math.ceil(m / tile.rows) * math.ceil(n / columns)
    return units * (SHORTEST_CYCLES + UNIT_CYCLES * tile.rows / (2 * shape.rows))


def block_cycles(rows: int, gemm: Gemm, tile: GemmTile, groups: int, packed: bool) -> float:
    """Return the cycles of one block of rows times all of B: work and traffic of caches run at the same time."""
    kernel, target = gemm.kernel, gemm.target
    machine, shape = target.machine, kernel.registers
    assert shape is not None
    n, depth = gemm.n, kernel.padded_groups(gemm.k) * kernel.k_group * kernel.a.size
    steps = tile_depth(gemm.k, kernel.k_group, shape).steps
    work = cycles_per_group(rows, n, tile, machine, shape) * steps * shape.row_bytes / 4
    columns = gemm.columns(tile)
    panels = math.ceil(n / columns)
    b_near = n * depth // groups <= target.l2_bytes * 3 // 4
    b_rate = machine.l2_bytes_per_cycle if b_near else machine.shared_bytes_per_cycle
    traffic = n * depth / b_rate
    if rows > tile.rows:
        traffic += rows * depth * panels / machine.l2_bytes_per_cycle
    extra = cycles_between(rows, n, columns, tile, shape)
    if not packed:
        extra += n * depth / machine.copy_bytes_per_cycle
    return max(work, traffic) + machine.unhidden * min(work, traffic) + extra


def line_cycles(p: ConvolutionGemm, pixels: int, columns: int, tile: GemmTile) -> float:
    """Return the cycles of one group of k of a line of pixels and a panel of weights, its share of the rest
    included."""
    kernel, machine, shape = p.kernel, p.target.machine, p.kernel.registers
    assert shape is not None
    depth = tile_depth(p.geometry.channels * p.geometry.kernel[1], kernel.k_group, shape)
    steps = depth.steps * shape.row_bytes / 4 / depth.groups
    between = cycles_between(pixels, columns, columns, tile, shape) / p.steps
    return cycles_per_group(pixels, columns, tile, machine, shape) * steps + between


def pick_blocks(gemm: Gemm, tile: GemmTile) -> tuple[int, int]:
    """Return (rows of a block, groups of panels): all of k at once.

    The rows of a tile stay in L1 while all panels of a group pass them from L2. Where the rows are too long for L1,
    or B too large for L2, more rows stay in L2 while a panel passes them. Measured on Sapphire Rapids with
    1024x1024x1024: 2,800 Gop/s with 32 rows, 1,900 with 1024; 128x768x3072 (B of 2.3 MB): 2,200 with 32 rows and 3
    groups, 2,600 with 128 rows.
    """
    kernel, target = gemm.kernel, gemm.target
    depth = kernel.padded_groups(gemm.k) * kernel.k_group * kernel.a.size
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
