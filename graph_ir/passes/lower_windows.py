"""Bring windows into the forms that have fast loops: padding stored once, convolution as a matrix product."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...dtypes import F32
from ..context import LowerContext
from ..graph import Graph, GraphTensor, Op
from ..ops.compose import Composer
from ..ops.convolution import Convolution
from ..ops.pool import WindowReduce
from ..ops.window import Window
from ..rewrite import rewrite

LEAST_ROWS = 8
"""Results per group below which a product leaves most of its register tile empty, and a loop is faster."""


def lower_windows(graph: Graph, ctx: LowerContext) -> bool:
    """Store padding, so that windows read memory in order, and multiply the weights by what the windows see.

    %y = convolution(%x, %w, before=(1, 1), after=(1, 1))
    ->
    %p = patches(pad(%x)); %y = reshape(matmul_core(reshape(%w), reshape(%p)))

    Requires: composites decomposed, plain layouts, topological order.
    Ensures: topological order; no window is padded; f32 convolutions of `LEAST_ROWS` results a group are products.
    """
    rules = {"convolution": [_product, _without_padding]}
    rules.update((f"{kind}_pool", [_without_padding]) for kind in ("max", "min", "sum", "prod"))
    return rewrite(graph, rules)


def _without_padding(graph: Graph, op: Op) -> GraphTensor | None:
    if not isinstance(op, (Convolution, WindowReduce)) or not op.window.is_padded:
        return None
    fill = op.fill if isinstance(op, WindowReduce) else 0
    make = Composer(graph, op)
    stored = _padded(make, op.inputs[0], op.window, fill)
    attrs = {**op.attrs, "before": None, "after": None, "ceil_mode": False}
    attrs = {name: value for name, value in attrs.items() if value not in (None, False)}
    return make(op.op_name, stored, *op.inputs[1:], **attrs)


def _padded(
    make: Composer, x: GraphTensor, window: Window, fill: int | float | bool
) -> GraphTensor:
    """x with the padding that windows read."""
    dims = x.details.plain_dims
    lead = (0,) * (len(dims) - window.rank)
    after = tuple(max(end, 0) for end in window.ends(dims[len(lead) :]))
    if not any((*window.before, *after)):
        return x
    return make("pad", x, before=(*lead, *window.before), after=(*lead, *after), value=fill)


def _product(graph: Graph, op: Op) -> GraphTensor | None:
    """Weights [groups, O / groups, C / groups * kernel] times patches [N, groups, C / groups * kernel, places]."""
    if not isinstance(op, Convolution) or op.inputs[0].details.dtype != F32:
        return None
    x, w = op.inputs
    groups, window = op.groups, op.window
    rows, terms = w.details.plain_dims[0] // groups, math.prod(w.details.plain_dims[1:])
    batch, channels, *sizes = x.details.plain_dims
    out = op.outputs[0].details.plain_dims
    if rows < LEAST_ROWS or not terms or not math.prod(out):
        return None
    make = Composer(graph, op)
    patches = _padded(make, x, window, 0)
    if not _reads_all(window, sizes):
        geometry = {"strides": window.strides, "dilations": window.dilations}
        patches = make("patches", patches, kernel=window.kernel, **geometry)
    place = (groups,) if groups > 1 else ()
    columns = make("reshape", patches, shape=(batch, *place, terms, math.prod(out[2:])))
    matrix = make("reshape", w, shape=(*place, rows, terms))
    return make("reshape", make("matmul_core", matrix, columns), shape=out)


def _reads_all(window: Window, sizes: Sequence[int]) -> bool:
    """Whether the windows are the elements themselves, in order."""
    single = all(k == 1 for k in window.kernel) and all(s == 1 for s in window.strides)
    return single and not window.is_padded
