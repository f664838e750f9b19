"""Derives the arguments of the grouped-matmul template from the op."""

from __future__ import annotations

from ...targets.microkernels import microkernel
from ...tensor_ir.nodes import Module
from ..ir.group_values import parameters
from ..nest.problem import View, matmul
from ..ops.grouped_matmul import GroupedMatmul
from ..schedule.context import LowerContext
from ..schedule.matmul_problem import flat
from ..templates.grouped_matmul import GroupedProblem, grouped_matmul_function


def lower_grouped_matmul(op: GroupedMatmul, ctx: LowerContext) -> Module:
    """One function: parameters a, b, ends, then the result."""
    rows, b_panels, ends, result = map(flat, parameters(op.inputs, op.outputs).values())
    a, b = (x.details for x in op.inputs[:2])
    groups, panels, k, width = b.plain_dims
    kernel = microkernel(a.dtype, b.dtype, ctx.target)
    tile, columns = kernel.tiles[0], panels * width
    views = (
        View(rows, {"m": k, "k": 1}),
        View(b_panels, {"k": width, "n": 1}),
        View(result, {"m": columns, "n": 1}),
    )
    panel = matmul((), (a.plain_dims[0], width, k), views, kernel, None)
    function = grouped_matmul_function(
        f"{a.dtype}_grouped_gemm_{groups}x{k}x{columns}_{tile.rows}x{width}__{ctx.target.isa}",
        GroupedProblem(panel, ends, groups, panels),
        tile,
        ctx.target,
        ctx.threads_for(b.elements),
        op.name,
    )
    return Module((function,))
