"""The grouped matmul: runs of rows of one expert times the panels of its matrix."""

from __future__ import annotations

from dataclasses import replace

from ...targets.microkernels import microkernel
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Function, Module, Stmt
from ..ir.group_values import parameters
from ..nest.lower import Lowering
from ..nest.position import Position
from ..nest.problem import View, matmul
from ..ops.matmul import GroupedMatmul
from ..schedule.context import LowerContext
from ..schedule.matmul_problem import flat
from ..schedule.matmul_steps import inner_nest
from ..templates.expert_runs import ExpertRows, Run


def lower_grouped_matmul(op: GroupedMatmul, ctx: LowerContext) -> Module:
    """One function: parameters a, b, expert, then the result."""
    params = [flat(one) for one in parameters(op.inputs, op.outputs).values()]
    a, b, expert, result = params
    rows, dtype = op.inputs[0].details.plain_dims[0], op.inputs[0].details.dtype
    experts, panels, k, width = op.inputs[1].details.plain_dims
    kernel = microkernel(dtype, dtype, ctx.target)
    tile, columns = kernel.tiles[0], panels * width
    views = (
        View(a, {"m": k, "k": 1}),
        View(b, {"k": width, "n": 1}),
        View(result, {"m": columns, "n": 1}),
    )
    panel = matmul((), (rows, width, k), views, kernel, None)

    def multiply(run: Run) -> Stmt:
        body = t.LoopBuilder()
        with body.loop("panel", run.panels.begin, run.panels.end) as number:
            matrix = panel.b.at((run.expert * panels + number) * (k * width))
            here = replace(panel, b=matrix, c=panel.c.at(number * width))
            position = Position.outermost(here).enter("m", run.first, 1, run.rows)
            # The height of tiles says how sums are split: the same for any number of rows.
            nest = inner_nest("group", here, tile, ctx.target, exact=True)
            body.emit(Lowering(nest, ctx.target).task(0, position))
        return body.body()

    chunks = min(ctx.threads_for(op.inputs[1].details.elements), max(panels, 1))
    whole = panel.of_sizes(n=columns)
    body = t.LoopBuilder(one.name for one in params)
    body.emit(*ExpertRows(whole, expert, experts, panels, panels, chunks).statements(multiply))
    sizes = f"{experts}x{k}x{columns}_{tile.rows}x{width}"
    name = f"{dtype}_grouped_gemm_{sizes}__{ctx.target.isa}"
    return Module((Function(name, tuple(params), body.body(), op.name),))
