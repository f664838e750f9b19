"""Byte dot products whose sums stay in 16 bits: how many terms fit."""

from __future__ import annotations

from ...base.dtypes import S8, U8
from ...base.packed_words import WORD_BYTES
from ...targets.isa import Target
from ...targets.microkernels import microkernel
from ..ops.matmul_nbits import MatmulNBits
from .context import LowerContext

MAX_S8 = 127
"""The largest s8, and the largest magnitude of a rounded activation."""

APART = 4
"""Elements between rows of 16 bits: they begin at different offsets of cache lines, so that loads do not conflict."""

MAX_S16 = (1 << 15) - 1
"""The largest s16."""


def words_in_pairs(bits: int) -> int:
    """Return how many groups of four levels of `bits` bits times s8 are summed in two lanes of 16 bits."""
    return MAX_S16 // (((1 << bits) - 1) * 2 * (MAX_S8 + 1))


def fits_centered(bits: int, zero: int, terms: int) -> bool:
    """Return whether two lanes of 16 bits hold the sum of `terms` levels less `zero`, times rounded activations.

    Sums of levels may wrap before the zero point is subtracted; those of two terms may not saturate.
    """
    largest = max(zero, (1 << bits) - 1 - zero)
    in_lane = terms // WORD_BYTES * 2
    return words_in_pairs(bits) > 0 and largest * MAX_S8 * in_lane <= MAX_S16


def level_bits(op: MatmulNBits) -> int:
    """Return the bits of the levels that are multiplied: entries of a book have 8."""
    return 8 if op.part("book") is not None else op.bits


def dots_of(bits: int, target: Target) -> str:
    """Return the dot product for levels of `bits` bits: of four, or of two, as bytes if 16 bits hold the sum of these.

    "" if the CPU has none.
    """
    if microkernel(U8, S8, target).k_group == WORD_BYTES:
        return "dot4"
    return "dot2" if target.table.has_fma else ""


def is_wide(op: MatmulNBits, ctx: LowerContext) -> bool:
    """Return whether 16 bits do not hold the sum of two levels times s8: both are widened, on a CPU that does so."""
    bits = level_bits(op)
    return not words_in_pairs(bits) and dots_of(bits, ctx.target) == "dot2"


def is_centered(op: MatmulNBits, ctx: LowerContext) -> bool:
    """Return whether 16 bits hold the sum of a group less the zero point of all levels, on a CPU that sums so."""
    if op.part("x_scale") is None or op.zero < 0 or op.part("book"):
        return False
    fits = fits_centered(op.bits, op.zero, min(op.group, op.x_group))
    return fits and dots_of(op.bits, ctx.target) == "dot2"
