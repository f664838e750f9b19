"""The loops of ops whose results have sizes that depend on data."""

from __future__ import annotations

from ...base.dtypes import S64
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Module
from ...tensor_ir.sizes import shape_of
from ..ops.dynamic_sizes import Count, TrueIndices
from ..schedule.context import LowerContext


def lower_true_indices(op: TrueIndices, ctx: LowerContext) -> Module:
    """Each index is written where the next true one belongs, which is never behind it."""
    (size,) = shape_of(op.inputs[0].details.physical_dims)
    x = Buffer("x", op.inputs[0].details.dtype, (size,))
    indices, total = Buffer("y", S64, (size,)), Buffer("total", S64, (1,))
    b = t.LoopBuilder(buffer.name for buffer in (x, indices, total))
    found = b.allocate("found", S64, (1,))
    b.store(found, (0,), t.as_expr(0))
    with b.loop("i", 0, size) as i:
        at = b.let("at", found[0])
        b.store(indices, (at,), i)
        b.store(found, (0,), at + t.cast(x[i], S64))
    last = b.let("last", found[0])
    b.store(total, (0,), last)
    with b.loop("rest", last, size, "vector") as rest:
        b.store(indices, (rest,), t.as_expr(0))
    name = f"true_indices__{ctx.target.isa}"
    return Module((b.function(name, (x, indices, total), op.name),))


def lower_count(op: Count, ctx: LowerContext) -> Module:
    """One number, within its ends. An unlimited one is not clamped: callers compare it with the room that they gave."""
    x, y = Buffer("x", S64, (1,)), Buffer("y", S64, (1,))
    b = t.LoopBuilder(("x", "y"))
    number = x[0]
    within = t.minimum(t.maximum(number, t.ZERO), t.as_expr(op.limit))
    b.store(y, (0,), number if op.unlimited else within)
    return Module((b.function(f"count__{ctx.target.isa}", (x, y), op.name),))
