"""Keep the weights of f32 models in 4 bits, in groups that share a scale."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..ir.graph import Array, Graph, GraphTensor, Op
from ..ops.compose import Composer
from ..ops.matmul import MatmulCore
from ..rewriting.contractions import replace_contractions
from ..rewriting.values import constant_value
from ..schedule.context import LowerContext

GROUP = 32
"""Neighboring k that share a scale."""

FEWEST_COLUMNS, FEWEST_TERMS = 16, GROUP
"""Smaller weights are in cache anyway."""

LOWEST, HIGHEST = -8, 7


def quantize_weights(graph: Graph, ctx: LowerContext) -> bool:
    """Round the constant weights of f32 matmuls to 4 bits, if int4 was requested.

    %y = matmul_core(%x, %w)
    ->
    %y = matmul_core(%x, reshape(dequantize(%numbers, %scales)), transpose_b=true)

    The number of largest magnitude in a group of 32 becomes -8, so that every integer is used. Activations stay f32;
    `pack_weights` keeps the weights packed.
    Requires: topological order. Ensures: topological order.
    """
    if ctx.options.precision != "int4" or not ctx.options.enabled("packed-weights"):
        return False
    return replace_contractions(graph, ctx.options.precision, partial(_lowered, graph))


def _lowered(graph: Graph, op: Op) -> tuple[GraphTensor | None, str]:
    weights = constant_value(op.inputs[1])
    if not isinstance(op, MatmulCore):
        return None, "convolutions have no 4-bit form"
    if weights is None:
        return None, "both operands are computed"
    if weights.ndim != 2 or op.transpose_a or not np.all(np.isfinite(weights)):
        return None, "its weights are not one finite matrix"
    rows = weights if op.transpose_b else weights.T
    if rows.shape[0] < FEWEST_COLUMNS or rows.shape[1] < FEWEST_TERMS:
        return None, "too small to gain"
    make = Composer(graph, op)
    numbers, scales = grouped(rows)
    w = make("dequantize", make.constant(numbers), make.constant(scales))
    w = make("reshape", w, shape=(rows.shape[0], numbers.shape[1] * GROUP))
    if numbers.shape[1] * GROUP > rows.shape[1]:
        w = make("slice", w, starts=(0, 0), steps=(1, 1), sizes=rows.shape)
    y = make("matmul_core", op.a, w, transpose_b=True)
    return y, f"weights are rounded to 4 bits in groups of {GROUP}"


def grouped(rows: Array) -> tuple[Array, Array]:
    """[n, groups, 32] numbers from -8 to 7 and their scales [n, groups, 1], for weights [n, k]."""
    n, k = rows.shape
    padded = np.pad(rows, ((0, 0), (0, -k % GROUP))).reshape(n, -1, GROUP)
    at = np.argmax(np.abs(padded), axis=2, keepdims=True)
    scale = (np.take_along_axis(padded, at, 2) / np.float32(LOWEST)).astype(np.float32)
    divisor = np.where(scale == 0, np.float32(1), scale)
    return np.clip(np.rint(padded / divisor), LOWEST, HIGHEST).astype(np.int8), scale
