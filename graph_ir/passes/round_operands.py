"""Multiply operands of f32 models as bf16 or f16, with sums in f32."""

from __future__ import annotations

from ...base.dtypes import F16, F32, DType, by_name
from ...base.size_queries import typical
from ...targets.microkernels import find_microkernel
from ..ir.graph import Graph, GraphTensor, Op
from ..ops.compose import Composer
from ..ops.convolution import Convolution
from ..ops.matmul import MatmulCore
from ..rewriting.contractions import HALVES, MIN_GAIN, replace_contractions
from ..rewriting.values import constant_value
from ..schedule.context import LowerContext
from ..schedule.integer_gain import best_form_cycles, matmul_cycles

WIDENING = 0.3
"""Time to widen a vector of 16-bit weights in registers over that of the multiply-adds with one row: each vector meets
as many rows as a register tile has (measured: 1.04 of the time of f32 with 8 rows of 512 bits on Sapphire Rapids, 1.03
to 1.05 with 6 of 256 bits on Zen 5)."""


def round_operands(graph: Graph, ctx: LowerContext) -> bool:
    """Round both operands of every f32 matmul and convolution, if that precision was requested.

    %y = matmul_core(%x, %w)
    ->
    %y = matmul_core(cast(%x), cast(%w), dtype=f32)     casts to bf16

    Everything else stays f32, so a result differs by the rounding of operands alone. What the cost model predicts to
    be no faster stays f32 too.
    Requires: topological order. Ensures: topological order.
    """
    if ctx.options.precision not in HALVES:
        return False
    dtype = by_name(ctx.options.precision)

    def lowered(op: Op) -> tuple[GraphTensor | None, str]:
        if ctx.options.enabled("keep-f32") and not _is_faster(op, dtype, ctx):
            return None, f"{dtype} is predicted to be no faster"
        make = Composer(graph, op)
        operands = [make.folded("cast", x, dtype=dtype) for x in op.inputs]
        y = make(op.op_name, *operands, **op.attrs | {"dtype": F32.name})
        return y, f"operands are rounded to {dtype}, sums stay f32"

    return replace_contractions(graph, ctx.options.precision, lowered)


def _is_faster(op: Op, dtype: DType, ctx: LowerContext) -> bool:
    """Return whether a matmul or convolution of f32 takes fewer cycles with operands of `dtype`."""
    kernel = find_microkernel(dtype, dtype, ctx.target)
    if kernel is None or (dtype == F16 and not ctx.target.table.has_half_conversion):
        return False
    if isinstance(op, MatmulCore):
        narrow, wide = (matmul_cycles(op, x, x, ctx) for x in (dtype, F32))
        rows = typical(op.sizes[0])
    else:
        assert isinstance(op, Convolution)  # transposed ones have been decomposed
        narrow, wide = (best_form_cycles(op, x, x, ctx) for x in (dtype, F32))
        rows = op.outputs[0].details.typical.elements
    if kernel.converts_a:
        narrow *= 1 + WIDENING / max(min(rows, kernel.tiles[0].rows), 1)
    rounded = sum(x.details.typical.elements for x in op.inputs if constant_value(x) is None)
    copied = rounded * (F32.size + dtype.size) / ctx.target.machine.copy_bytes_per_cycle
    return narrow * MIN_GAIN + copied < wide
