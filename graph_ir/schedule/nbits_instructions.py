"""Instructions that may multiply packed weights on a target: multiply-adds, dot products, two-dimensional registers."""

from __future__ import annotations

from ...base.dtypes import BF16, S8, S16, U8
from ...base.packed_words import WORD_BYTES
from ...targets.isa import Microkernel, Target
from ...targets.microkernels import f32_kernel, microkernel, microkernels
from ..ops.matmul_nbits import MatmulNBits
from ..rewriting.values import constant_value
from .context import LowerContext

DIGITS = 3
"""Bytes that a number of f32 is multiplied as by dot products."""

MAX_ON_BYTE_TILES = 32
"""Rows of bytes up to which two-dimensional registers multiply bytes in groups of 32 rather than bf16, half as many in
groups of 16: vectors scale the sums of each group of a row, while making bf16 of weights takes as long for any number
of rows. 5-bit weights 2048x640 take 0.54 of the time of bf16 for 16 rows, 0.82 for 32 and 1.07 for 48."""

MAX_GROUP = 1 << 14
"""Maximum number of terms of a group of byte dot products that fits s32, zero points included."""

MAX_IN_PAIRS = 4
"""Rows of f32 that are multiplied two bytes at a time: for more, panels of floats are faster."""

MAX_OF_MEMORY = 2
"""Rows of f32 that memory, not multiplication, makes wait for weights of 8 bits."""

SCALED = 4
"""Rows of which the sums of a group are scaled together."""

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


def is_rounded(op: MatmulNBits) -> bool:
    """Return whether rows are bytes."""
    return op.part("x_scale") is not None


def is_wide(op: MatmulNBits, ctx: LowerContext) -> bool:
    """Return whether 16 bits do not hold the sum of two levels times bytes: both are widened, on a CPU that does so."""
    bits = level_bits(op)
    return is_rounded(op) and not words_in_pairs(bits) and dots_of(bits, ctx.target) == "dot2"


def is_centered(op: MatmulNBits, ctx: LowerContext) -> bool:
    """Return whether 16 bits hold the sum of a group less the zero point of all levels, on a CPU that sums so."""
    if not is_rounded(op) or op.zero < 0 or op.part("book"):
        return False
    fits = fits_centered(op.bits, op.zero, min(op.group, op.x_group))
    return fits and dots_of(op.bits, ctx.target) == "dot2"


def kernel_of_use(use: str, target: Target) -> Microkernel:
    """Return the microkernel that a schedule uses for panels of weights."""
    return next((x for x in _tile_kernels(target) if x.instruction == use), f32_kernel(target))


def _tile_kernels(target: Target) -> list[Microkernel]:
    """Return the microkernel of bf16 in two-dimensional registers, where the target has it."""
    return [x for x in microkernels(BF16, BF16, target, tiles=True) if x.uses_tiles]


def takes_tiles(op: MatmulNBits, ctx: LowerContext) -> bool:
    """Return whether rows of bytes may become bf16: their groups are whole steps of two-dimensional registers."""
    known = _tile_kernels(ctx.target) if is_rounded(op) else []
    return any(x.registers and not op.x_group % (x.registers.row_bytes // x.a.size) for x in known)


def takes_byte_tiles(op: MatmulNBits, ctx: LowerContext) -> bool:
    """Return whether two-dimensional registers may multiply rows of bytes: groups are whole steps of them, and levels,
    less a zero point that serves all, fit s8."""
    shape, step = ctx.target.table.tiles, min(op.group, op.x_group)
    if shape is None or not is_rounded(op):
        return False
    zero, book = constant_value(op.zero_point), op.part("book")
    levels = None if book is None else constant_value(book)
    largest = (1 << level_bits(op)) - 1 if levels is None else int(levels.max())
    middle = zero.item() if zero is not None and zero.size == 1 else 0
    fits = 0 <= middle <= MAX_S8 + 1 and largest - middle <= MAX_S8
    whole = max(step, shape.row_bytes)
    return fits and not (whole % step or whole % shape.row_bytes or op.sizes[2] % whole)


def max_on_byte_tiles(op: MatmulNBits, ctx: LowerContext) -> int:
    """Return the rows of bytes up to which two-dimensional registers multiply bytes, 0 if they cannot."""
    shape, step = ctx.target.table.tiles, min(op.group, op.x_group)
    if shape is None or not takes_byte_tiles(op, ctx):
        return 0
    return MAX_ON_BYTE_TILES * min(2 * step, shape.row_bytes) // shape.row_bytes


def max_rows(ctx: LowerContext) -> int:
    """Rows that share an unpacked word: their sums, those of a group and what is unpacked fit the registers."""
    return 4 if ctx.target.table.registers > 16 else 2


def has_digits(op: MatmulNBits, ctx: LowerContext, m: int) -> bool:
    """Return whether `m` rows of f32 may be multiplied as digits: dot products of bytes are that much faster."""
    bits = level_bits(op)
    use, fast = dots_of(bits, ctx.target), m <= MAX_IN_PAIRS and words_in_pairs(bits) > 0
    if use == "dot4":
        fast = microkernel(U8, S8, ctx.target).rate(ctx.target) > DIGITS
    fits = op.group <= MAX_GROUP and op.sizes[2] * DIGITS <= max_rows_bytes(ctx)
    few_bits = op.bits < 8 or (op.bits == 8 and m > MAX_OF_MEMORY)
    given = not is_rounded(op) and use != "" and ctx.options.enabled("fixed-point")
    return given and fast and fits and few_bits


def max_rows_bytes(ctx: LowerContext) -> int:
    """Bytes of converted rows in local memory, which tiles and sums share."""
    return ctx.target.machine.max_local_bytes * 3 // 4


def row_bytes(op: MatmulNBits, use: str, ctx: LowerContext) -> int:
    """Bytes that a row takes in local memory: as digits or in 16 bits; 0 where it is read where it lies."""
    if use == "dot2" and is_wide(op, ctx):
        return S16.size * (op.sizes[2] + APART)
    return 0 if use == "fma" or is_rounded(op) else DIGITS * op.sizes[2]
