"""Derives the arguments of the template of row sorts."""

from __future__ import annotations

from ...tensor_ir.nodes import Buffer, Module
from ..ir.group_values import parameters
from ..ops.sort_rows import SortRows
from ..schedule.context import LowerContext
from ..schedule.spaces import schedule_of
from ..templates.sort_rows import RowSort, sort_rows_function


def lower_sort_rows(op: SortRows, ctx: LowerContext) -> Module:
    """One function: x, then the values and the indices, all flat."""
    (x,) = op.inputs
    named = parameters(op.inputs, op.outputs)
    flat = [Buffer(b.name, b.dtype, (y.details.elements,)) for y, b in named.items()]
    n = x.details.plain_dims[-1]
    schedule = schedule_of(op, ctx)
    rows = x.details.elements // max(n, 1)
    shape = RowSort(rows, n, op.k, op.largest, schedule.number("groups"))
    function = sort_rows_function(
        f"{x.details.dtype}_sort_rows_{shape.rows}x{n}_{op.k}__{ctx.target.isa}",
        (flat[0], flat[1], flat[2]),
        shape,
        schedule.number("tasks") > 1,
        op.name,
    )
    return Module((function,))
