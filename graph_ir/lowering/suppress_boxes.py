"""Derives the arguments of the template of non-maximum suppression."""

from __future__ import annotations

from ...tensor_ir.nodes import Buffer, Module
from ...tensor_ir.sizes import number_or_expr, shape_of
from ..ir.group_values import parameters
from ..ops.regions import SuppressBoxes
from ..schedule.context import LowerContext
from ..schedule.workspaces import suppression_tasks, workspace_of
from ..templates.suppress_boxes import Suppression, SuppressionBuffers, suppress_function


def lower_suppress_boxes(op: SuppressBoxes, ctx: LowerContext) -> Module:
    """One function: the operands and the numbers, all flat, and the workspace."""
    named = parameters(op.inputs, op.outputs)
    flat = {x: Buffer(b.name, b.dtype, shape_of((x.details.elements,))) for x, b in named.items()}
    ends, scores, most, overlap, *least = (flat[x] for x in op.inputs)
    words, kept = (
        Buffer(f"work{i}", x.dtype, shape_of(x.plain_dims))
        for i, x in enumerate(workspace_of(op, ctx))
    )
    buffers = SuppressionBuffers(
        ends, scores, most, overlap, least[0] if least else None, flat[op.outputs[0]], words, kept
    )
    images, classes, boxes, room = map(number_or_expr, (*op.scores.details.plain_dims, op.limit))
    shape = Suppression(images, classes, boxes, room, suppression_tasks(op, ctx))
    name = f"suppress_boxes__{ctx.target.isa}"
    return Module((suppress_function(name, buffers, shape, op.name),))
