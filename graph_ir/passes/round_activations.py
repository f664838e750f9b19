"""Round activations to 8 bits where they are multiplied by packed weights, if that was requested."""

from __future__ import annotations

from ...base.dtypes import S8
from ..ir.graph import Graph, GraphTensor, Op
from ..ops.compose import Composer
from ..ops.matmul_nbits import FLOAT_BITS, MatmulNBits
from ..rewriting.decisions import record
from ..rewriting.rewrite import rewrite
from ..rewriting.rounded_rows import rounded_rows
from ..schedule.context import LowerContext

GROUP = 32
"""Neighboring activations that share a scale, as in llama.cpp's Q8_0."""


def round_activations(graph: Graph, ctx: LowerContext) -> bool:
    """Round the rows of matmuls with packed weights, once for all matmuls that share them.

    %y = matmul_nbits(%x, %words, %scale, %zero)
    ->
    %q, %s = x as bytes, with a scale for each 32 of a row
    %y = matmul_nbits(%q, %words, %scale, %zero, %s, parts=x_scale)

    Requires: `activations` is q8. Ensures: the formula with rounded rows.
    """
    if ctx.options.activations != "q8":
        return False
    rows: dict[tuple[GraphTensor, int], tuple[GraphTensor, GraphTensor]] = {}

    def rounded(graph: Graph, op: Op) -> GraphTensor | None:
        assert isinstance(op, MatmulNBits)
        if op.x.details.dtype == S8 or op.bits == FLOAT_BITS:
            return None
        make, group = Composer(graph, op), _group(op)
        if (op.x, group) not in rows:
            rows[op.x, group] = rounded_rows(make, op.x, group)
        x, scale = rows[op.x, group]
        parts = ",".join([*op.part_names, "x_scale"])
        y = make(op.op_name, x, *op.inputs[1:], scale, **op.attrs | {"parts": parts})
        record(graph, "form", [op.name], [y.producer_owner.name], "rows are rounded to 8 bits")
        return y

    return rewrite(graph, {"matmul_nbits": (rounded,)})


def _group(op: MatmulNBits) -> int:
    """Return 32, or the group of the weights where 32 neither divides it nor is a multiple."""
    fits = op.sizes[2] % GROUP == 0 and (GROUP % op.group == 0 or op.group % GROUP == 0)
    return GROUP if fits else op.group
