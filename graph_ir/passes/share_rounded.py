"""Let all readers of a tensor read it rounded, if matmuls of a lower precision do."""

from __future__ import annotations

from ...base.dtypes import F32, DType, by_name
from ..ir.graph import Graph, GraphTensor, Op
from ..ops.compose import Composer
from ..rewriting.contractions import CONTRACTIONS, HALVES
from ..rewriting.groups import is_elementwise
from ..schedule.context import LowerContext


def share_rounded(graph: Graph, ctx: LowerContext) -> bool:
    """Store what matmuls and convolutions read rounded to 16 bits in 16 bits only.

    %r = cast(%x, dtype=bf16); %y = matmul_core(%r, %w); %z = add(%x, %b)
    ->
    %r = cast(%x, dtype=bf16); %y = matmul_core(%r, %w); %z = add(cast(%r, dtype=f32), %b)

    A maximum is rounded before it is taken, which changes no bit. Requires: operands rounded, topological order.
    Ensures: topological order.
    """
    if ctx.options.precision not in HALVES:
        return False
    dtype = by_name(ctx.options.precision)
    changed = False
    for x in [y for op in graph.ops for y in op.outputs if _is_multiplied(y, dtype)]:
        changed |= _share(graph, x, dtype) or _before_maximum(graph, x, dtype)
    if changed:
        graph.sort()
    return changed


def _is_multiplied(x: GraphTensor, dtype: DType) -> bool:
    """Return whether some matmul or convolution reads a tensor rounded to a type."""
    casts = [user for _, user in x.uses if _rounds(user, dtype)]
    users = [user for cast in casts for _, user in cast.outputs[0].uses]
    return x.details.dtype == F32 and any(user.op_name in CONTRACTIONS for user in users)


def _rounds(op: Op, dtype: DType) -> bool:
    return op.op_name == "cast" and op.outputs[0].details.dtype == dtype


def _share(graph: Graph, x: GraphTensor, dtype: DType) -> bool:
    """Give the other readers of a tensor the rounded one, if each of them reads elements in plain loops."""
    others = [(i, user) for i, user in x.uses if not _rounds(user, dtype)]
    if x.producer_owner.kind == "source" or not others:
        return False
    if not all(is_elementwise(user) for _, user in others):
        return False
    rounded = next(user for _, user in x.uses if _rounds(user, dtype)).outputs[0]
    for i, user in others:
        user.set_input(i, Composer(graph, user).to(rounded, F32))
    return True


def _before_maximum(graph: Graph, x: GraphTensor, dtype: DType) -> bool:
    """Round the operand of a maximum instead of the result, if nothing else reads this."""
    pool, casts = x.producer_owner, [user for _, user in x.uses]
    if pool.op_name != "max_pool" or not all(_rounds(user, dtype) for user in casts):
        return False
    make = Composer(graph, pool)
    found = make(pool.op_name, make.to(pool.inputs[0], dtype), **pool.attrs)
    for cast in casts:
        cast.outputs[0].replace_uses(found)
    graph.remove([*casts, pool])
    return True
