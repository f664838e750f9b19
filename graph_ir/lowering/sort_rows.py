"""Derives the arguments of the template of row sorts."""

from __future__ import annotations

from ...tensor_ir.nodes import Buffer, Module
from ..ir.group_values import parameters
from ..ops.sort_rows import SortRows
from ..schedule.context import LowerContext
from ..schedule.spaces import schedule_of
from ..schedule.workspaces import workspace_of
from ..templates.sort_rows import RowSort, sort_rows_function


def lower_sort_rows(op: SortRows, ctx: LowerContext) -> Module:
    """One function: x, the values and the indices, all flat, and the workspace."""
    (x,), schedule = (y.details for y in op.inputs), schedule_of(op, ctx)
    named = parameters(op.inputs, op.outputs)
    flat = [Buffer(b.name, b.dtype, (y.details.elements,)) for y, b in named.items()]
    blocks = enumerate(workspace_of(op, ctx))
    workspace = tuple(Buffer(f"work{i}", one.dtype, one.plain_dims) for i, one in blocks)
    n = x.plain_dims[-1]
    rows = x.elements // max(n, 1)
    numbers = (schedule.number(name) for name in ("groups", "tasks"))
    shape = RowSort(rows, n, op.k, op.largest, *numbers)
    name = f"{x.dtype}_sort_rows_{rows}x{n}_{op.k}__{ctx.target.isa}"
    buffers = (flat[0], flat[1], flat[2])
    return Module((sort_rows_function(name, buffers, workspace, shape, op.name),))
