"""Store constant bytes in 16 bits where they are multiplied in 16 bits by many rows."""

from __future__ import annotations

import math
from functools import partial

from ...base.dtypes import S8, S16, S32
from ...targets.microkernels import find_microkernel
from ..ir.graph import Graph, GraphTensor
from ..ops.compose import Composer
from ..ops.contraction_types import is_byte
from ..ops.convolution import DirectConvolution
from ..ops.matmul import MatmulCore
from ..rewriting.rewrite import rewrite
from ..rewriting.values import constant_value
from ..schedule.context import LowerContext

MIN_ROWS = 32
"""Rows, or pixels, from which on the instruction that widens a vector of weights, once for the rows of a register tile,
costs more than to read twice the bytes from memory while they are multiplied."""


def widen_weights(graph: Graph, ctx: LowerContext) -> bool:
    """Widen constant weights at compile time instead of in registers, for matmuls in pairs of 16 bits.

    %y = matmul_core(%x, %w, dtype=s32)                               x u8, w s8
    ->
    %y = matmul_core(%x, %v, dtype=s32)                               v s16

    Direct convolutions likewise. Where the CPU multiplies bytes, bytes remain.
    Requires: forms of convolutions chosen, plain layouts, topological order. Ensures: topological order.
    """
    rule = partial(_widened, ctx)
    return rewrite(graph, {"matmul_core": [rule], "direct_convolution": [rule]})


def _widened(
    ctx: LowerContext, graph: Graph, op: MatmulCore | DirectConvolution
) -> GraphTensor | None:
    a, b = op.inputs
    types = a.details.dtype, b.details.dtype
    if not is_byte(types[0]) or types[1] != S8 or op.outputs[0].details.dtype != S32:
        return None
    kernel = find_microkernel(*types, ctx.target)
    if kernel is None or kernel.k_group != 2 or _rows(op) < MIN_ROWS:
        return None
    make = Composer(graph, op)
    wide = _wide(make, b)
    return None if wide is None else make(op.op_name, a, wide, **op.attrs)


def _rows(op: MatmulCore | DirectConvolution) -> int:
    """Return the number of rows, or pixels, of typical sizes that each weight is multiplied with."""
    dims = op.outputs[0].details.typical.plain_dims
    if isinstance(op, DirectConvolution):
        return dims[0] * math.prod(dims[2:])
    shared = op.inputs[1].details.rank == 2
    return math.prod(dims[:-1]) if shared else dims[-2]


def _wide(make: Composer, tensor: GraphTensor) -> GraphTensor | None:
    """A constant, which may be moved, in 16 bits; None for any other tensor."""
    op, value = tensor.producer_owner, constant_value(tensor)
    if value is not None:
        return make.constant(value.astype(S16.numpy))
    if op.op_name not in ("reshape", "transpose"):
        return None
    wide = _wide(make, op.inputs[0])
    return None if wide is None else make(op.op_name, wide, **op.attrs)
