"""Split scans (cumulative sums and products) along long axes into blocks."""

from __future__ import annotations

import math

from ..ir.graph import Graph, GraphTensor, Op
from ..ops.compose import Composer
from ..rewriting.rewrite import rewrite
from ..schedule.context import LowerContext

LONGEST = 64
"""Longest axis on which each result is computed by its own reduction, which takes quadratic work."""


def split_scans(graph: Graph, ctx: LowerContext) -> bool:
    """Split an axis of n elements into about sqrt(n) blocks: scan within each block, then add the scan of block totals.

    %y = cum_sum(%x)                                             f32[1000]
    ->
    %b = reshape(pad(%x))                                        f32[32,32]
    %o = cum_sum(reduce_sum(%b), exclusive)                      f32[32,1]
    %y = slice(reshape(add(cum_sum(%b, axis=1), %o)))            f32[1000]

    2 n sqrt(n) additions instead of n * n; blocks that are still long are split again. Floats are added in a different
    order than sequentially, which is more accurate.
    Requires: plain formats. Ensures: no scan along more than LONGEST elements.
    """
    return rewrite(graph, {"cum_sum": (_split,), "cum_prod": (_split,)})


def _split(graph: Graph, op: Op) -> GraphTensor | None:
    (x,) = op.inputs
    dims = x.details.plain_dims
    axis = op.attr("axis")
    n = dims[axis]
    if n <= LONGEST:
        return None
    block = math.isqrt(n - 1) + 1
    blocks = -(-n // block)
    is_sum = op.op_name == "cum_sum"
    reverse, exclusive = op.attr("reverse"), op.attr("exclusive")
    make = Composer(graph, op)
    none = [0] * len(dims)
    rest = [*none[:axis], blocks * block - n, *none[axis + 1 :]]
    wide = make.widened(x)
    if any(rest):
        neutral = 0 if is_sum else 1
        wide = make(
            "pad", wide, before=tuple(none), after=tuple(rest), mode="constant", value=neutral
        )
    cut = make("reshape", wide, shape=(*dims[:axis], blocks, block, *dims[axis + 1 :]))
    inner = make(op.op_name, cut, axis=axis + 1, reverse=reverse, exclusive=exclusive)
    total = make("reduce_sum" if is_sum else "reduce_prod", cut, axes=(axis + 1,), keep_dims=True)
    before = make(op.op_name, total, axis=axis, reverse=reverse, exclusive=True)
    joined = make("add" if is_sum else "mul", inner, before)
    whole = make("reshape", joined, shape=(*dims[:axis], blocks * block, *dims[axis + 1 :]))
    if any(rest):
        ones = (1,) * len(dims)
        whole = make("slice", whole, starts=tuple(none), steps=ones, sizes=dims)
    return make.to(whole, x.details.dtype)
