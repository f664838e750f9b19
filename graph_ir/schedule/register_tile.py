"""Register tiles and blocks as parameters of schedules, shared by matmuls and convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from ...targets.isa import GemmTile, Microkernel, Target
from ...targets.microkernels import rows_that_fit
from ..ir.schedule import Schedule
from .cost import Gemm

BLOCKING_MEANINGS = {
    "mr": "rows of a register tile",
    "nv": "vectors of a register tile",
    "mc": "rows of a block",
    "kc": "terms summed per block",
    "ng": "groups of panels that are tasks of their own",
}

MAX_ACCUMULATORS = 4
"""Times the registers that a tile may ask for: it would spill, but can be looked at."""


MAX_VECTORS = 6
"""Maximum number of vectors of a register tile in a sweep."""


def tile_of(rows: int, vectors: int, kernel: Microkernel) -> GemmTile:
    """The tile of the microkernel's table, with its efficiency, or one that it does not have."""
    known = (tile for tile in kernel.tiles if (tile.rows, tile.vectors) == (rows, vectors))
    return next(known, GemmTile(rows, vectors))


def highest_tile(
    vectors: int, kernel: Microkernel, target: Target, most: int = 1 << 30
) -> GemmTile:
    """Return the highest register tile of some width, of at most `most` rows."""
    heights = [tile.rows for tile in kernel.tiles if tile.vectors == vectors]
    highest = max(*heights, rows_that_fit(vectors, target), 1)
    return tile_of(min(highest, most), vectors, kernel)


def tiles_that_fit(gemm: Gemm) -> list[GemmTile]:
    """Every register tile that leaves registers for B and A, and half of them at most unused."""
    registers, lanes = gemm.target.table.registers, gemm.columns(GemmTile(1, 1))
    return [
        tile_of(rows, vectors, gemm.kernel)
        for vectors in range(1, MAX_VECTORS + 1)
        for rows in range(1, registers)
        if registers // 2 <= rows * vectors <= registers - vectors - 1
        and (vectors - 1) * lanes < gemm.n
        and rows < gemm.m + 4
    ]


def unsupported_tile_reason(schedule: Schedule, target: Target) -> str:
    """Return the reason why a tile is not supported, "" if it is."""
    most = MAX_ACCUMULATORS * target.table.registers
    needed = schedule.number("mr") * schedule.number("nv")
    return f"mr x nv must be at most {most} on {target.isa}" if needed > most else ""


def widths_requested(
    requested: Schedule, tiles: Sequence[GemmTile], target: Target, kernel: Microkernel
) -> dict[int, GemmTile]:
    """Widths of panels, in columns, that suit what was requested, each with a tile of that width: the best first."""
    rows, vectors = requested.settings.get("mr"), requested.settings.get("nv")
    if isinstance(vectors, int) and 0 < vectors <= target.table.registers:
        height = rows if isinstance(rows, int) and rows > 0 else 1
        wide = tile_of(height, vectors, kernel)
        tiles = [next((x for x in tiles if x.vectors == vectors), wide)]
    elif isinstance(rows, int):
        tiles = [x for x in tiles if x.rows == rows] or tiles
    widths: dict[int, GemmTile] = {}
    for tile in tiles:
        widths.setdefault(tile.columns(target, kernel.accumulator), tile)
    return widths
