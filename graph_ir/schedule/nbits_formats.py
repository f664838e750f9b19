"""Layouts of the operands of a matmul with packed weights: panels as wide as its register tile."""

from __future__ import annotations

import math

from ...base.dims import bounds
from ...base.dtypes import F16
from ...base.packed_words import WORD_BYTES
from ...targets.microkernels import f32_kernel
from ..ir.format import Format, plain
from ..ops.matmul_nbits import MatmulNBits
from .context import LowerContext
from .format_choice import FormatChoice
from .matmul import MAX_ROWS
from .matmul_tile import pick_tile
from .nbits_instructions import dots_of, has_digits, is_rounded, is_wide, level_bits, max_rows
from .problem import problem_of
from .requested import requested_settings

MAX_IN_REGISTERS = 8
"""Rows of bytes for which words are unpacked several times rather than copied."""


def nbits_formats(op: MatmulNBits, ctx: LowerContext) -> list[FormatChoice]:
    """Words, scales and zero points in panels as wide as the register tile, the rest plain."""
    requested = requested_settings(op, problem_of(op), ctx).settings.get("nv")
    vectors = requested if isinstance(requested, int) and 0 < requested <= 6 else _vectors(op, ctx)
    columns = vectors * ctx.target.lanes(f32_kernel(ctx.target).accumulator)
    axes, outer = ("GNK", (0, 1, 2)) if op.experts else ("NK", (0, 1))
    n, k = outer[-2:]
    each, sizes = WORD_BYTES // op.w.details.dtype.size, (0,) * len(outer)
    words = Format(axes, (*outer, n, k), (*sizes, columns, each))
    scales = Format(axes, (*outer, n), (*sizes, columns))
    if op.w.details.dtype == F16:  # which are converted a vector at a time
        words = scales
    zero = plain(2) if op.zero_point.details.elements == 1 else scales
    others = {"high": words, "book": plain(1), "expert": plain(1), "x_scale": plain(2, "MK")}
    given = (plain(2, "MK"), words, scales, zero, *(others.get(x, scales) for x in op.part_names))
    return [FormatChoice(given, (plain(2, "MN"),))]


def _vectors(op: MatmulNBits, ctx: LowerContext) -> int:
    """Return wide panels if weights are dequantized in registers, or else the panels of float matmuls."""
    m, n = rows_of(op), op.sizes[1]
    kernel, lanes = f32_kernel(ctx.target), ctx.target.lanes(f32_kernel(ctx.target).accumulator)
    if has_digits(op, ctx, m):
        wide = m == 1 and dots_of(level_bits(op), ctx.target) == "dot4"
        return min(4 if wide else 2, math.ceil(n / lanes))
    if m > max_rows(ctx) and not is_rounded(op):
        return pick_tile(m, n, ctx.target, kernel).vectors
    if is_rounded(op) and m > (2 if is_wide(op, ctx) else MAX_IN_REGISTERS):
        return min(2, math.ceil(n / lanes))
    return min(4 if m <= 2 else 3, math.ceil(n / lanes))


def rows_of(op: MatmulNBits) -> int:
    """Return the number of rows, or the largest that blocks are chosen for if it is dynamic."""
    m = op.sizes[0]
    return m if isinstance(m, int) else min(bounds(m)[1], MAX_ROWS)
