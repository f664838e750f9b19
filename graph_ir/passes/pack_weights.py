"""Keep weights of 4 and 8 bits packed until they are multiplied."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ...base.dims import is_known
from ...base.dtypes import F32
from ...base.packed_words import WORD_BYTES, packed_words
from ..ir.graph import Array, Graph, GraphTensor
from ..ops.compose import Composer
from ..ops.matmul import MatmulCore
from ..ops.matmul_nbits import known_zero
from ..rewriting.decisions import record
from ..rewriting.group_scales import GroupedWeights, grouped_weights
from ..rewriting.rewrite import rewrite
from ..rewriting.rounded_rows import rounded_rows
from ..schedule.context import LowerContext
from ..schedule.nbits_instructions import dots_of

FEWEST_COLUMNS, FEWEST_TERMS = 16, 32
"""Smaller weights are in cache anyway."""

MAX_ROUNDED_ROWS = 8
"""Rows that are rounded to bytes where a model allows that: for more, panels of floats are faster, unless the CPU has
dot products of bytes."""


def pack_weights(graph: Graph, ctx: LowerContext) -> bool:
    """Replace matmuls of floats with dequantized constants by matmuls with packed weights.

    %w = dequantize(%constant, %scale, %zero); %y = matmul_core(%x, %w)
    ->
    %y = matmul_nbits(%x, %words, %scale, %zero, bits=4, group=32)

    Scales are one per column and group of k, or per column. Where the model allows A to be rounded, its rows are
    quantized to s8 with a scale per group, so that sums of groups are exact and nothing but memory takes time.
    Requires: integer matmuls have been made. Ensures: the same formula; dequantized weights are not rounded.
    """
    return rewrite(graph, {"matmul_core": (partial(_pack, ctx),)})


def _pack(ctx: LowerContext, graph: Graph, op: MatmulCore) -> GraphTensor | None:
    a, b = op.inputs
    if not is_known(a.details.plain_dims[-1], *b.details.plain_dims):
        return None
    m, n, k = math.prod(a.details.plain_dims[:-1]), *op.sizes[1:]
    if b.details.rank != 2 or a.details.dtype != F32 or op.transpose_a or m == 0:
        return None
    if n < FEWEST_COLUMNS or k < FEWEST_TERMS:
        return None
    weights = grouped_weights(b, op.transpose_b)
    if weights is None:
        return None
    make = Composer(graph, op)
    numbers = 8 * WORD_BYTES // weights.bits
    group = -(-weights.group // numbers) * numbers
    padded = -(-k // group) * group
    x = a if a.details.rank == 2 else make("reshape", a, shape=(m, k))
    if padded > k:
        x = make("pad", x, before=(0, 0), after=(0, padded - k))
    fast = dots_of(weights.bits, ctx.target) != ""
    rounded = op.activation_bits == 8 and is_known(m) and (fast or m <= MAX_ROUNDED_ROWS)
    rows = rounded_rows(make, x, group) if rounded else (x,)
    words = packed_words(_widened(weights.numbers, padded), weights.bits)
    constants = (words, weights.scale, weights.zero)
    operands = [rows[0], *map(make.constant, constants), *rows[1:]]
    parts = "x_scale" if len(rows) > 1 else ""
    attrs = {"bits": weights.bits, "group": group, "parts": parts, "zero": known_zero(weights.zero)}
    y = make("matmul_nbits", *operands, **attrs)
    record(graph, "form", [op.name], [y.producer_owner.name], _reason(weights, rounded))
    return make("reshape", y, shape=op.outputs[0].details.plain_dims) if a.details.rank > 2 else y


def _widened(numbers: Array, k: int) -> Array:
    return np.pad(numbers, ((0, 0), (0, k - numbers.shape[1])))


def _reason(weights: GroupedWeights, rounded: bool) -> str:
    text = f"weights stay packed in {weights.bits} bits, {weights.group} per scale"
    return f"{text}; rows are rounded to 8 bits, as the model allows" if rounded else text
