"""Rows of the microkernel tables that all instruction sets share."""

from __future__ import annotations

from ..base.dtypes import BF16, F16, F32, F64, S8, S16, U8
from .isa import GemmTile, Microkernel


def floats(
    tiles: tuple[GemmTile, ...], converting: tuple[GemmTile, ...]
) -> tuple[Microkernel, ...]:
    """Return the rows of floats multiplied in the accumulator dtype; `converting`: tiles where B is converted."""
    return (
        Microkernel(F32, F32, "fma", tiles),
        Microkernel(F64, F64, "fma", tiles, rate_name="f64_fma"),
        Microkernel(F16, F16, "fma", converting),
        Microkernel(BF16, BF16, "fma", converting),
    )


def pairs(tiles: tuple[GemmTile, ...]) -> tuple[Microkernel, ...]:
    """Return the rows of integers that are multiplied in pairs of 16 bits, which never saturate."""
    return tuple(
        Microkernel(a, b, "dot2", tiles, (), "s16_dot2")
        for a, b in ((S16, S16), (U8, S8), (S8, S8), (U8, S16), (S8, S16))
    )
