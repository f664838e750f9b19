"""Derives the arguments of the template of row sorts."""

from __future__ import annotations

import math

from ...base.dims import is_known
from ...tensor_ir.nodes import Buffer, Module
from ...tensor_ir.sizes import number_or_expr, shape_of
from ..ir.group_values import parameters
from ..ops.top_k import SortRows
from ..schedule.context import LowerContext
from ..schedule.sort_rows import FEW
from ..schedule.spaces import schedule_of
from ..schedule.workspaces import workspace_of
from ..templates.sort_rows import RowSort, sort_rows_function


def lower_sort_rows(op: SortRows, ctx: LowerContext) -> Module:
    """One function: x, the values and the indices, all flat, and the workspace."""
    (x,), schedule = (y.details for y in op.inputs), schedule_of(op, ctx)
    named = parameters(op.inputs, op.outputs)
    flat = [Buffer(b.name, b.dtype, shape_of((y.details.elements,))) for y, b in named.items()]
    blocks = enumerate(workspace_of(op, ctx))
    workspace = tuple(Buffer(f"work{i}", one.dtype, shape_of(one.plain_dims)) for i, one in blocks)
    *outer, n = x.plain_dims
    rows, size, k = map(number_or_expr, (math.prod(outer), n, op.k))
    groups, tasks = (schedule.number(name) for name in ("groups", "tasks"))
    shape = RowSort(rows, size, k, op.largest, groups, tasks, least=groups * FEW)
    sizes = f"{math.prod(outer)}x{n}_{op.k}" if is_known(*outer, n, op.k) else "open"
    name = f"{x.dtype}_sort_rows_{sizes}__{ctx.target.isa}"
    buffers = (flat[0], flat[1], flat[2])
    return Module((sort_rows_function(name, buffers, workspace, shape, op.name),))
