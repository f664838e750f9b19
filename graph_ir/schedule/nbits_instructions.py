"""Instructions that may multiply packed weights on a target: multiply-adds, dot products, two-dimensional registers."""

from __future__ import annotations

from ...base.dtypes import BF16, S8, S16, U8
from ...targets.isa import Microkernel, Target
from ...targets.microkernels import f32_kernel, microkernel, microkernels
from ..ops.matmul_nbits import MatmulNBits
from ..rewriting.values import constant_value
from .byte_pairs import APART, MAX_S8, dots_of, is_wide, level_bits
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


def kernel_of_use(use: str, target: Target) -> Microkernel:
    """Return the microkernel that a schedule uses for panels of weights."""
    return next((x for x in _tile_kernels(target) if x.instruction == use), f32_kernel(target))


def _tile_kernels(target: Target) -> list[Microkernel]:
    """Return the microkernel of bf16 in two-dimensional registers, where the target has it."""
    return [x for x in microkernels(BF16, BF16, target, tiles=True) if x.uses_tiles]


def takes_tiles(op: MatmulNBits, ctx: LowerContext) -> bool:
    """Return whether rows of bytes may become bf16: their groups are whole steps of two-dimensional registers."""
    known = _tile_kernels(ctx.target) if op.part("x_scale") is not None else []
    return any(x.registers and not op.x_group % (x.registers.row_bytes // x.a.size) for x in known)


def takes_byte_tiles(op: MatmulNBits, ctx: LowerContext) -> bool:
    """Return whether two-dimensional registers may multiply rows of bytes: groups are whole steps of them, and levels,
    less a zero point that serves all, fit s8."""
    shape, step = ctx.target.table.tiles, min(op.group, op.x_group)
    if shape is None or op.part("x_scale") is None:
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


def max_rows(op: MatmulNBits, ctx: LowerContext) -> int:
    """Rows that share an unpacked word: their sums, those of a group and what is unpacked fit the registers."""
    return 4 if ctx.target.table.registers > 16 else 2


def has_digits(op: MatmulNBits, ctx: LowerContext, m: int) -> bool:
    """Return whether `m` rows of f32 may be multiplied as digits: dot products of bytes are that much faster."""
    use = dots_of(level_bits(op), ctx.target)
    fast = (
        microkernel(U8, S8, ctx.target).rate(ctx.target) > DIGITS
        if use == "dot4"
        else m <= MAX_IN_PAIRS
    )
    fits = (
        op.bits <= 8
        and not is_wide(op, ctx)
        and op.group <= MAX_GROUP
        and op.sizes[2] * DIGITS <= max_rows_bytes(ctx)
    )
    given = op.part("x_scale") is None and use != "" and ctx.options.enabled("fixed-point")
    return given and fast and fits and (op.bits < 8 or m > MAX_OF_MEMORY)


def max_rows_bytes(ctx: LowerContext) -> int:
    """Bytes of converted rows in local memory, which tiles and sums share."""
    return ctx.target.machine.max_local_bytes * 3 // 4


def row_bytes(op: MatmulNBits, use: str, ctx: LowerContext) -> int:
    """Bytes that a row takes in local memory: as digits or in 16 bits; 0 where it is read where it lies."""
    k, is_rounded = op.sizes[2], op.part("x_scale") is not None
    if use == "dot2" and is_rounded and is_wide(op, ctx):
        return S16.size * (k + APART)
    return 0 if use == "fma" or is_rounded else DIGITS * k
