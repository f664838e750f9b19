"""Derives the arguments of the template of attention to a cache."""

from __future__ import annotations

from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Buffer, Module
from ...tensor_ir.sizes import number_or_expr, shape_of
from ..ir.group_values import parameters
from ..ops.cached_attention import CachedAttention
from ..schedule.context import LowerContext
from ..schedule.matmul_problem import flat
from ..schedule.workspaces import workspace_of
from ..templates.cached_attention import cached_attention_function
from ..templates.cached_attention_steps import CachedProblem
from .matmul import sharing_of


def lower_cached_attention(op: CachedAttention, ctx: LowerContext) -> Module:
    """One function: the operands and the result, all flat."""
    named = parameters(op.inputs, op.outputs)
    q, keys, values, lengths, *scales = (flat(named[x]) for x in op.inputs)
    (batch, tokens, heads, size), (_, own, room, _), (*_, width) = (
        x.details.plain_dims for x in op.inputs[:3]
    )
    groups = (x.details.plain_dims[-1] for x in op.inputs[4:])
    work = tuple(
        Buffer(f"work{i}", one.dtype, shape_of(one.plain_dims))
        for i, one in enumerate(workspace_of(op, ctx))
    )
    problem = CachedProblem(
        number_or_expr(batch), number_or_expr(tokens), heads, own, number_or_expr(room), size, width, op.scale, op.cap,
        op.window, q, keys, values, lengths, tuple(zip(scales, groups, strict=True)), flat(named[op.outputs[0]]), work,
    )  # fmt: skip
    name = f"{keys.dtype}_cached_attention_{batch}x{tokens}x{heads}x{own}x{room}x{size}__{ctx.target.isa}"
    name, sharing = identifier(name, 120), sharing_of(ctx)
    return Module((cached_attention_function(name, problem, ctx.target, sharing, op.name),))
