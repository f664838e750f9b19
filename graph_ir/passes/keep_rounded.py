"""Keep what is quantized and dequantized inside one kernel in floats."""

from __future__ import annotations

from ...base.dtypes import F32
from ..ir.graph import Graph, GraphTensor, Op
from ..ops.compose import Composer
from ..ops.round_saturate import RoundSaturate
from ..rewriting.rewrite import rewrite
from ..rewriting.values import uniform_value
from ..schedule.context import LowerContext


def keep_rounded(graph: Graph, ctx: LowerContext) -> bool:
    """Give f32 what reads a rounded number as f32, without the way through an integer.

    %y = fused { %q = round_saturate(%x, zero=3, dtype=u8); %r = mul(sub(cast(%q), 3), %scale) }
    ->
    %y = fused { %q = round_saturate(%x, low=-3, high=252, dtype=f32); %r = mul(%q, %scale) }

    Between kernels numbers stay integers. Requires: groups made. Ensures: topological order in groups.
    """
    changed = False
    for op in graph.ops:
        if op.kind == "fused":
            changed |= _in_group(op)
    return changed


def _in_group(group: Op) -> bool:
    inner: Graph = group.attr("graph")
    known = {
        y.outputs[0]: uniform_value(x) for x, y in zip(group.inputs, inner.inputs, strict=True)
    }

    def shifted(graph: Graph, op: Op) -> GraphTensor | None:
        """The zero point is subtracted from the bounds instead."""
        rounded, zero = op.inputs[0].producer_owner, known.get(op.inputs[1])
        if zero is None or not isinstance(rounded, RoundSaturate) or rounded.dtype != F32:
            return None
        if rounded.outputs[0].details.plain_dims != op.outputs[0].details.plain_dims:
            return None
        by = int(zero)
        if by != zero or len(rounded.outputs[0].uses) > 1:
            return None
        moved = {key: rounded.attr(key) - by for key in ("zero", "low", "high", "nan")}
        return _rounded(graph, rounded, op, **moved)

    return rewrite(inner, {"cast": (_as_float,), "sub": (shifted,)})


def _as_float(graph: Graph, op: Op) -> GraphTensor | None:
    rounded = op.inputs[0].producer_owner
    if not isinstance(rounded, RoundSaturate) or op.outputs[0].details.dtype != F32:
        return None
    return _rounded(graph, rounded, op)


def _rounded(graph: Graph, rounded: RoundSaturate, op: Op, **attrs: int) -> GraphTensor:
    made = Composer(graph, op)(
        "round_saturate", rounded.x, **{**rounded.attrs, **attrs, "dtype": F32}
    )
    made.details = op.outputs[0].details
    return made
