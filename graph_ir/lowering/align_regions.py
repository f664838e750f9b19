"""Derives the arguments of the template that resamples regions."""

from __future__ import annotations

from ...tensor_ir.nodes import Buffer, Module
from ...tensor_ir.sizes import number_or_expr, shape_of
from ..ir.group_values import parameters
from ..ops.regions import AlignRegions
from ..schedule.context import LowerContext
from ..templates.align_regions import RegionBuffers, Regions, align_regions_function


def lower_align_regions(op: AlignRegions, ctx: LowerContext) -> Module:
    """One function: the operands and the cells, all flat."""
    named = parameters(op.inputs, op.outputs)
    flat = [
        Buffer(named[x].name, named[x].dtype, shape_of((x.details.elements,)))
        for x in (*op.inputs, *op.outputs)
    ]
    images, height, width, channels = map(number_or_expr, op.images.details.plain_dims)
    regions = number_or_expr(op.boxes.details.plain_dims[0])
    rows, columns = map(int, op.cells)
    how = (op.samples, op.scale, op.half_pixel, op.largest)
    shape = Regions(images, (height, width), channels, regions, (rows, columns), *how)
    tasks = ctx.threads_for(op.outputs[0].details.elements)
    buffers = RegionBuffers(flat[0], flat[1], flat[2], flat[3])
    name = f"align_regions_{rows}x{columns}__{ctx.target.isa}"
    return Module((align_regions_function(name, buffers, shape, tasks, op.name),))
