"""Accumulate byte convolutions in f32 if a depthwise convolution is faster so and f32 holds every sum."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...base.dtypes import F32, S32
from ..ir.graph import Array, Graph, GraphTensor, Op
from ..ops.compose import Composer
from ..ops.contraction_types import is_byte
from ..ops.convolution import DepthwiseConvolution
from ..rewriting.known_values import Known
from ..rewriting.rewrite import rewrite
from ..rewriting.values import constant_value
from ..schedule.channel_windows import dot_kernel
from ..schedule.context import LowerContext

MOST = 1 << 24
"""All integers up to it are f32."""


def sum_bytes_in_floats(graph: Graph, ctx: LowerContext) -> bool:
    """Multiply bytes as floats in depthwise convolutions, exactly, where the CPU has no dot products of four bytes.

    %f = cast(add(depthwise_convolution(%x, %w, dtype=s32), %bias), f32)          x u8, w s8
    ->
    %f = add(depthwise_convolution(%x, cast(%w, f32), dtype=f32), cast(%bias, f32))

    Pairs of rows save a third of the multiplications, but have to be made, and consumers read f32 sums. Only
    where weights and bias are known, and so small that no sum can pass 2^24. Requires: forms of convolutions chosen,
    topological order. Ensures: topological order.
    """
    if not ctx.target.table.has_fma:
        return False
    return rewrite(graph, {"cast": (partial(_in_floats, ctx),)})


def _in_floats(ctx: LowerContext, graph: Graph, op: Op) -> GraphTensor | None:
    sums, bias = op.inputs[0], None
    if op.outputs[0].details.dtype != F32:
        return None
    if sums.producer_owner.op_name == "add":
        if len(sums.uses) > 1:
            return None
        sums, bias = sums.producer_owner.inputs
    conv = sums.producer_owner
    if not isinstance(conv, DepthwiseConvolution) or conv.dtype != S32 or len(sums.uses) > 1:
        return None
    kernel = dot_kernel(conv, ctx.target)
    if not is_byte(conv.x.details.dtype) or (kernel is not None and kernel.k_group > 2):
        return None
    weights, added = constant_value(conv.w), None if bias is None else Known()(bias)
    if weights is None or (bias is not None and added is None):
        return None
    if not _is_exact(conv, weights, added):
        return None
    make = Composer(graph, op)
    wide = make.constant(weights.astype(F32.numpy))
    total = make("depthwise_convolution", conv.x, wide, **{**conv.attrs, "dtype": F32})
    if added is None:
        return total
    return make("add", total, make.constant(added.astype(F32.numpy)))


def _is_exact(conv: DepthwiseConvolution, weights: Array, bias: Array | None) -> bool:
    """Return whether no partial sum, with the bias or without it, passes `MOST`."""
    largest = max(map(abs, conv.x.details.dtype.limits))
    most = np.abs(weights.astype(np.int64)).sum(axis=tuple(range(1, weights.ndim))) * largest
    added = 0 if bias is None else int(np.abs(bias.astype(np.int64)).max(initial=0))
    return int(most.max(initial=0)) + added <= MOST
