"""Compute convolutions over three spatial axes as ones over two: the depths of a window become channels."""

from __future__ import annotations

from functools import partial

from ..ir.graph import Graph, GraphTensor
from ..ops.compose import Composer
from ..ops.convolution import Convolution
from ..rewriting.rewrite import rewrite
from ..schedule.context import LowerContext
from ..schedule.requested import wanted_by_name


def convolve_planes(graph: Graph, ctx: LowerContext) -> bool:
    """Concatenate the planes that a window spans as channels, and the depths of the result into the batch.

    %y = convolution(%x[1,32,16,16,16], %w[64,32,3,3,3])
    ->
    %c = concat(slice(%x), slice(%x), slice(%x)); %i = reshape(transpose(%c)); %p = convolution(%i[14,96,16,16], %v)
    %y = transpose(reshape(%p))

    An element is copied once per depth of the window, and then multiplied once per row, column and output channel; the
    convolution over two axes has templates, im2col would copy it for each row and column as well. Channels last, the
    transposes move nothing.
    Requires: composites decomposed, plain layouts, topological order.
    Ensures: topological order; no convolution of floats has three spatial axes and one group, unless a schedule was
    requested it.
    """
    return rewrite(graph, {"convolution": (partial(_over_two_axes, ctx),)})


def _over_two_axes(ctx: LowerContext, graph: Graph, op: Convolution) -> GraphTensor | None:
    out, window = op.outputs[0].details, op.window
    if window.rank != 3 or op.groups > 1 or not out.dtype.is_float or out.is_empty:
        return None
    if op.inputs[0].details.is_empty or wanted_by_name(op, ctx) is not None:
        return None
    make = Composer(graph, op)
    planes = _depths_as_channels(make, op)
    batch, channels, depth, *sizes = planes.details.plain_dims
    images = make("transpose", planes, perm=(0, 2, 1, 3, 4))
    images = make("reshape", images, shape=(batch * depth, channels, *sizes))
    flat = {name: getattr(window, name)[1:] for name in ("strides", "dilations", "before", "after")}
    y = make("convolution", images, _weights(make, op.inputs[1]), **op.attrs | flat)
    _, outputs, *results = y.details.plain_dims
    y = make("reshape", y, shape=(batch, depth, outputs, *results))
    return make("transpose", y, perm=(0, 2, 1, 3, 4))


def _depths_as_channels(make: Composer, op: Convolution) -> GraphTensor:
    """[N, depths of the window * C, depths of the result, H, W]."""
    x, window = op.inputs[0], op.window
    depths, step = window.kernel[0], window.strides[0]
    end = window.stored_ends(x.details.plain_dims[2:])[0]
    if window.before[0] or end:
        x = make("pad", x, before=(0, 0, window.before[0], 0, 0), after=(0, 0, end, 0, 0))
    dims = x.details.plain_dims
    sizes = (*dims[:2], op.outputs[0].details.plain_dims[2], *dims[3:])
    parts = []
    for depth in range(depths):
        starts = (0, 0, depth * window.dilations[0], 0, 0)
        part = x
        if sizes != dims or step > 1:
            part = make("slice", x, starts=starts, steps=(1, 1, step, 1, 1), sizes=sizes)
        parts.append(part)
    return parts[0] if depths == 1 else make("concat", *parts, axis=1)


def _weights(make: Composer, w: GraphTensor) -> GraphTensor:
    """w [O, C, depths, rows, columns] as [O, depths * C, rows, columns]; constants stay constants."""
    outputs, channels, depths, *kernel = w.details.plain_dims
    shape, perm = (outputs, depths * channels, *kernel), (0, 2, 1, 3, 4)
    return make.folded("reshape", make.folded("transpose", w, perm=perm), shape=shape)
