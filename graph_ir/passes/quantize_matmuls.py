"""Multiply f32 models as bytes: rows of activations quantized when they are known, weights per output channel."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...base.dtypes import S8, U8
from ..ir.graph import Array, Graph, GraphTensor, Op
from ..ops.compose import Composer
from ..ops.convolution import Convolution
from ..ops.matmul import MatmulCore
from ..rewriting.contractions import MIN_GAIN, replace_contractions
from ..rewriting.quantized_operand import FARTHEST
from ..rewriting.rounded_rows import SMALLEST_SCALE, STEPS, scale_along
from ..rewriting.values import constant_value
from ..schedule.context import LowerContext
from ..schedule.integer_gain import convolution_account, matmul_account

MIDDLE = 128
"""Zero point of unsigned bytes, which are multiplied with signed weights faster than signed bytes are."""

MIN_GROUP_CHANNELS = 16
"""Channels of a group from which on a grouped convolution is taken: with 2 to 8 its bytes take 1.2 to 2.7 times as long
as f32 (measured on Sapphire Rapids; 9 to 15 were not), which the model of the direct form does not see."""

QUANTIZING = 3
"""Number of times activations are read or written to quantize them."""


def quantize_matmuls(graph: Graph, ctx: LowerContext) -> bool:
    """Quantize activations and constant weights of f32 matmuls and convolutions, if int8 was requested.

    %y = matmul_core(%x, %w)
    ->
    %s = max(abs(%x)) / 127 per row
    %y = matmul_core(dequantize(quantize(%x, %s, 128), %s, 128), dequantize(%bytes, %scales))

    `multiply_quantized` makes integer matmuls of these. A matmul has one scale per row, an image of a
    convolution has one; weights have one per output. What the cost model predicts to be slower stays f32.
    Requires: topological order. Ensures: topological order.
    """
    if ctx.options.precision != "int8" or not ctx.options.enabled("quantized"):
        return False
    return replace_contractions(graph, ctx.options.precision, partial(_lowered, graph, ctx))


def _lowered(graph: Graph, ctx: LowerContext, op: Op) -> tuple[GraphTensor | None, str]:
    weights, keeps = constant_value(op.inputs[1]), ctx.options.enabled("keep-f32")
    if weights is None:
        return None, "both operands are computed"
    if not np.all(np.isfinite(weights)):
        return None, "a weight is not finite"
    if isinstance(op, MatmulCore):
        if op.transpose_a or weights.ndim != 2:
            return None, "its rows have no scale of their own"
        axis: tuple[int, ...] = (1 if op.transpose_b else 0,)
        row_axes: tuple[int, ...] = (op.a.details.rank - 1,)
        terms, account = op.sizes[2], matmul_account(op, U8, ctx)
    else:
        assert isinstance(op, Convolution)
        if 1 < weights.shape[1] < MIN_GROUP_CHANNELS and op.groups > 1 and keeps:
            return None, "groups of few channels are slower in integers"
        axis, row_axes = tuple(range(1, weights.ndim)), tuple(range(op.x.details.rank))
        terms, account = weights[0].size, convolution_account(op, U8, ctx)
    if terms * FARTHEST**2 >= 1 << 31:
        return None, "its sums may not fit s32"
    copied = op.inputs[0].details.typical.size_bytes / ctx.target.machine.copy_bytes_per_cycle
    gain = account.floats / (account.integers + QUANTIZING * copied)
    if gain < MIN_GAIN and keeps:
        return None, "integers are predicted to be no faster"
    make = Composer(graph, op)
    x = _dynamic(make, op.inputs[0], row_axes)
    w = _static(make, weights, axis)
    y = make(op.op_name, x, w, **op.attrs)
    return y, "activations are quantized when they are known, weights per output"


def _dynamic(make: Composer, x: GraphTensor, axes: tuple[int, ...]) -> GraphTensor:
    """X as bytes with one scale along `axes`, and back."""
    scale, zero = scale_along(make, x, axes), make.scalar(MIDDLE, U8)
    return make("dequantize", make("quantize", x, scale, zero, dtype=U8.name), scale, zero)


def _static(make: Composer, weights: Array, axes: tuple[int, ...]) -> GraphTensor:
    """Return weights as bytes, with one scale per index of the axes other than `axes`."""
    largest = np.max(np.abs(weights), axis=axes, keepdims=True)
    scale = np.maximum(largest / np.float32(STEPS), np.float32(SMALLEST_SCALE)).astype(np.float32)
    whole = np.clip(np.rint(weights / scale), -STEPS, STEPS).astype(S8.numpy)
    return make("dequantize", make.constant(whole), make.constant(scale))
