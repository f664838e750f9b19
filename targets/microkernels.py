"""The microkernels of a target: which instruction multiplies a pair of types, in which register tiles.

Templates get the register tiles and the number of neighboring k per instruction from `microkernel`.
"""

from __future__ import annotations

import math

from ..base.dtypes import F32, DType
from ..base.errors import InternalError
from .isa import GemmTile, Microkernel, Target, TileShape


def microkernels(
    a: DType, b: DType, target: Target, tiles: bool = False
) -> tuple[Microkernel, ...]:
    """Return the rows for two operand types that the target can use, one per instruction, preferred first.

    It can use those whose features it has, but none that groups k where `fma` on the same types is faster. `tiles`:
    also those on two-dimensional registers, for callers whose loops can run them.
    """
    found: dict[str, Microkernel] = {}
    for row in target.table.microkernels:
        if row.uses_tiles and not tiles:
            continue
        if (row.a, row.b) == (a, b) and target.has(*row.needs):
            found.setdefault(row.instruction, row)
    floor = found["fma"].rate(target) if "fma" in found else 0.0
    return tuple(row for row in found.values() if row.rate(target) >= floor)


def find_microkernel(
    a: DType, b: DType, target: Target, grouped: bool = True
) -> Microkernel | None:
    """The preferred row for two operand types; None when there is none.

    Not `grouped`: of those that take one k at a time, which read B in any layout.
    """
    rows = microkernels(a, b, target)
    return next((x for x in rows if grouped or x.k_group == 1), None)


def microkernel(a: DType, b: DType, target: Target, grouped: bool = True) -> Microkernel:
    """`find_microkernel` for types that are known to have a row. Raise InternalError if there is none."""
    found = find_microkernel(a, b, target, grouped)
    if found is None:
        raise InternalError(f"no microkernel multiplies {a} by {b} on {target.isa}")
    return found


def f32_kernel(target: Target) -> Microkernel:
    """Return the f32 microkernel, which most templates use."""
    return microkernel(F32, F32, target)


def f32_tiles(target: Target) -> tuple[GemmTile, ...]:
    """Return the register tiles of f32 matmuls."""
    return f32_kernel(target).tiles


def matmul_rates(target: Target) -> dict[str, str]:
    """Return the instruction of each pair of types on a target: `{"u8xs8": "dot4, 3.6 x f32"}`."""
    pairs = dict.fromkeys((row.a, row.b) for row in target.table.microkernels)
    rows = [microkernel(a, b, target) for a, b in pairs]
    return {f"{x.a}x{x.b}": f"{x.instruction}, {x.rate(target):g} x f32" for x in rows}


def rows_for(columns: int, tile: GemmTile, target: Target, kernel: Microkernel) -> int:
    """Tile height for a panel of which only `columns` are used: narrower tiles of the table are taller.

    A last panel of one vector with four rows at a time would have too few accumulators.
    """
    vectors = math.ceil(columns / target.lanes(kernel.accumulator))
    if vectors >= tile.vectors:
        return tile.rows
    heights = [other.rows for other in kernel.tiles if other.vectors == vectors]
    return max([tile.rows, *heights])


def rows_that_fit(vectors: int, target: Target) -> int:
    """Return the height of the highest tile of `vectors` vectors that leaves registers for a row of B and
    a broadcast."""
    return (target.table.registers - vectors - 1) // vectors


def register_rows(tile: GemmTile, shape: TileShape) -> int:
    """Return the rows of a two-dimensional register in a tile of one or two of them."""
    return tile.rows if tile.rows <= shape.rows else math.ceil(tile.rows / 2)
