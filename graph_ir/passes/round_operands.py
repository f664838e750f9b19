"""Multiply operands of f32 models as bf16 or f16, with sums in f32."""

from __future__ import annotations

import numpy as np

from ...base.dtypes import F32, DType, by_name
from ..ir.graph import Graph, GraphTensor, Op
from ..ops.compose import Composer
from ..ops.convolution import Convolution
from ..rewriting.lowered_products import replace_products
from ..rewriting.values import constant_value
from ..schedule.context import LowerContext
from ..schedule.integer_gain import best_form_cycles

HALVES = ("bf16", "f16")


def round_operands(graph: Graph, ctx: LowerContext) -> bool:
    """Round both operands of every f32 product and convolution, if that precision was asked for.

    %y = matmul_core(%x, %w)
    ->
    %y = matmul_core(cast(%x), cast(%w), dtype=f32)     casts to bf16

    Everything else stays f32, so a result differs by the rounding of operands alone.
    Requires: topological order. Ensures: topological order.
    """
    if ctx.options.precision not in HALVES:
        return False
    dtype = by_name(ctx.options.precision)

    def lowered(op: Op) -> tuple[GraphTensor | None, str]:
        if isinstance(op, Convolution):
            narrow, wide = (best_form_cycles(op, x, x, ctx) for x in (dtype, F32))
            if narrow > wide:
                return None, f"{dtype} is predicted to be slower"
        make = Composer(graph, op)
        operands = [_rounded(make, x, dtype) for x in op.inputs]
        y = make(op.op_name, *operands, **op.attrs | {"dtype": F32.name})
        return y, f"operands are rounded to {dtype}, sums stay f32"

    return replace_products(graph, ctx.options.precision, lowered)


def _rounded(make: Composer, x: GraphTensor, dtype: DType) -> GraphTensor:
    known = constant_value(x)
    if known is None:
        return make.to(x, dtype)
    with np.errstate(over="ignore"):
        return make.constant(known.astype(dtype.numpy))
