"""Reduce large windows in a few passes over the elements instead of reading each window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from ...base.dims import is_known
from ...base.size_queries import typical
from ..ir.graph import Graph, GraphTensor
from ..ops.compose import Composer
from ..ops.doubling import axis_sliced, joined_runs, positions_of
from ..ops.pool import WindowReduce
from ..ops.window import padded
from ..rewriting.rewrite import rewrite
from ..schedule.context import LowerContext

TAP_CYCLES = {"max": 2.5, "min": 2.5, "add": 1.5, "mul": 1.5}
"""Cycles for a vector of results and an element of the window: a load and an operation, more of those that keep NaN.
These and the next two: measured on Sapphire Rapids, 64 x 1000 elements, windows of 16 to 64."""

STEP_CYCLES = 6.0
"""Cycles for a vector of elements of a pass: two loads, one of which crosses cache lines, an operation and a store."""

KERNEL_CYCLES = 600.0
"""Cycles to begin a pass, which is a separate kernel: 11 of them take 1.4 us of a row of 2,048 elements."""


MARGIN = 1.2
"""Minimum speedup of the passes, which keep windows from fusing with neighboring ops."""


def double_windows(graph: Graph, ctx: LowerContext) -> bool:
    """Combine runs of 1, 2, 4, ... elements along each axis of large windows.

    %y = max_pool(%x, kernel=(5,))                                           f32[100]
    ->
    %a = slice(%x, 0, 99); %b = slice(%x, 1, 99); %two = max(%a, %b)
    %c = slice(%two, 0, 97); %d = slice(%two, 2, 97); %four = max(%c, %d)
    %e = slice(%four, 0, 96); %f = slice(%four, 1, 96); %y = max(%e, %f)

    Sums take the runs that the bits of the window's size name, so that no element counts twice. Windows over axes of
    dynamic size are left as they are, and so are those that are read faster than they are combined.
    Requires: plain formats. Ensures: topological order.
    """
    kinds = ("max", "min", "sum", "prod")
    return rewrite(graph, {f"{kind}_pool": [partial(_doubled, ctx)] for kind in kinds})


def _doubled(ctx: LowerContext, graph: Graph, op: WindowReduce) -> GraphTensor | None:
    x, y = op.inputs[0].details, op.outputs[0].details
    lead = x.rank - op.window.rank
    if not is_known(*x.plain_dims[lead:]) or y.is_empty or not _pays(op, ctx):
        return None
    make, is_sum = Composer(graph, op), op.combine in ("add", "mul")
    value = make.widened(op.inputs[0]) if is_sum else op.inputs[0]
    value = padded(make, value, op.window, op.fill)

    def combine(left: Sequence[GraphTensor], right: Sequence[GraphTensor]) -> list[GraphTensor]:
        return [make(op.combination, a, b) for a, b in zip(left, right, strict=True)]

    for axis, windows in enumerate(positions_of(op.window, y.plain_dims[lead:]), lead):
        sliced = partial(axis_sliced, make, axis)
        (value,) = joined_runs([value], windows, combine, sliced, idempotent=not is_sum)
    return make.to(value, y.dtype)


def _pays(op: WindowReduce, ctx: LowerContext) -> bool:
    """Return whether the passes take fewer cycles than reading all windows."""
    x, y = op.inputs[0].details, op.outputs[0].details
    lanes, sizes = ctx.target.lanes(x.dtype.accumulator), list(x.typical.plain_dims)
    direct = TAP_CYCLES[op.combine] * _elements_read(op) / lanes
    passes = 0.0
    lead = x.rank - op.window.rank
    for axis, one in enumerate(positions_of(op.window, y.plain_dims[lead:]), lead):
        full, bits = one.size.bit_length() - 1, one.size.bit_count()
        extra = (bits - 1 if op.combine in ("add", "mul") else bits > 1) if one.size > 1 else 0
        size = typical(math.prod(sizes[:axis]) * math.prod(sizes[axis + 1 :]))
        steps = full * max(sizes[axis], one.count) + extra * one.count
        passes += STEP_CYCLES * size * steps / lanes + KERNEL_CYCLES * (full + extra)
        sizes[axis] = one.count
    return MARGIN * passes < direct


def _elements_read(op: WindowReduce) -> int:
    """Elements that a kernel of all windows reads: each window, or its rows and then one column after another."""
    x, y, kernel = op.inputs[0].details, op.outputs[0].details, op.window.kernel
    if len(kernel) != 2 or x.rank != 4:
        return y.typical.elements * math.prod(kernel)
    # Images (`templates.row_windows`, `templates.channel_windows`): rows are combined over all columns of the image.
    columns = typical(x.plain_dims[-1]) * y.typical.elements // typical(y.plain_dims[-1])
    return columns * kernel[0] + y.typical.elements * kernel[1]
