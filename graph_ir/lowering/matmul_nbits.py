"""Derives the arguments of the template of matmuls with packed weights from an op and its epilogue."""

from __future__ import annotations

from functools import reduce
from operator import or_

from ...base.dims import Size, is_known
from ...tensor_ir import builder as t
from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Expr, Function, If, Stmt
from ..ir.schedule import Schedule
from ..nest.problem import Contraction, View, matmul
from ..ops.matmul_nbits import MatmulNBits
from ..rewriting.kernel_group import KernelGroup
from ..schedule.context import LowerContext
from ..schedule.matmul import blocking_of
from ..schedule.matmul_nbits import NBitsSpace, few_schedules
from ..schedule.matmul_problem import group_memory, matrix_view
from ..schedule.nbits_instructions import is_centered, kernel_of_use, max_on_byte_tiles
from ..templates.expert_runs import ExpertRows, Run
from ..templates.matmul_nbits import NBitsLowering
from ..templates.packed_weights import PackedWeights
from .contraction import as_block
from .matmul import epilogue_names, epilogue_of, sharing_of
from .notes import group_note


def nbits_function(
    op: MatmulNBits, group: KernelGroup, schedule: Schedule, ctx: LowerContext
) -> Function:
    """Lower a matmul with packed weights and the elementwise ops after it; few dynamic rows have separate nests."""
    kernel = _Kernel(op, group, schedule, ctx)
    body, (m, n, k) = t.block_of(kernel.statements()), op.sizes
    tile = blocking_of(schedule, kernel_of_use(schedule.word("use"), ctx.target)).tile
    types = f"{op.x.details.dtype}_u{op.bits}g{op.group}"
    experts = f"{op.experts}x" if op.experts else ""
    sizes = f"{experts}{m}x{n}x{k}_{tile.rows}x{tile.columns(ctx.target)}"
    name = f"{types}_gemm{epilogue_names(op, group.ops)}_{sizes}"
    name = identifier(f"{name}__{ctx.target.isa}", 120)
    in_order = kernel.x_scale is not None and schedule.word("use") == "dot2"
    params, note = tuple(kernel.memory.values()), group_note(group, schedule)
    return Function(name, params, as_block(body), note, in_order)


class _Kernel:
    """The operands of a matmul in memory, and its nests by the number of rows."""

    def __init__(
        self, op: MatmulNBits, group: KernelGroup, schedule: Schedule, ctx: LowerContext
    ) -> None:
        self.op, self.group, self.schedule, self.ctx = op, group, schedule, ctx
        (self.output,) = group.outputs
        self.memory = group_memory(group, op.inputs)
        parts = {name: self.memory[x] for name, x in zip(op.part_names, op.others, strict=True)}
        self.x_scale, self.expert = parts.pop("x_scale", None), parts.pop("expert", None)
        words, scale, zero = (self.memory[x] for x in (op.w, op.scale, op.zero_point))
        self.weights = PackedWeights(
            words, scale, zero, op.bits, op.group, parts, ctx.target.machine.fetch_ahead, op.zero,
            is_centered(op, ctx), ctx.target.table.has_fma,
        )  # fmt: skip

    def statements(self) -> list[Stmt]:
        """Return the nests of all rows, of experts in loops over the runs of each."""
        op = self.op
        if self.expert is None:
            return [self._of_rows(t.as_expr(op.sizes[0]))]
        rows = self._problem(self.schedule, op.x.details.plain_dims[0])
        tile = blocking_of(self.schedule, rows.kernel).tile
        full, rest = divmod(op.sizes[1], tile.columns(self.ctx.target))
        panels = full + bool(rest)
        chunks = min(self.ctx.threads_for(op.w.details.elements), panels)
        runs = ExpertRows(rows, self.expert, op.experts, full, panels, chunks)
        return runs.statements(lambda run: self._of_rows(run.rows, run))

    def _of_rows(self, count: Expr, run: Run | None = None) -> Stmt:
        """The nest of `count` rows."""
        op, group, ctx, is_dynamic = self.op, self.group, self.ctx, not is_known(self.op.sizes[0])
        body = self._nest(self.schedule, run)
        for several in NBitsSpace(op, group, ctx).on_byte_tiles if is_dynamic else ():
            body = If(count <= max_on_byte_tiles(op, ctx), self._nest(several, run), body)
        for few, chosen in few_schedules(op, group, ctx):
            is_one = reduce(or_, (t.equal(count, rows) for rows in few))
            nest = self._nest(chosen, run, few[0] if len(few) == 1 else None)
            body = If(is_one, nest, body)
        return body

    def _nest(self, chosen: Schedule, run: Run | None, rows: int | None = None) -> Stmt:
        """The nest of a schedule, for any number of rows or for `rows`."""
        problem = self._problem(chosen, self.op.sizes[0] if rows is None else rows)
        nest = NBitsLowering(
            problem, self.weights, self.x_scale, self.op.x_group, blocking_of(chosen, problem.kernel),
            sharing_of(self.ctx), self.ctx.target, chosen.word("unpack"), chosen.word("use"), run,
        )  # fmt: skip
        return nest.statement()

    def _problem(self, chosen: Schedule, rows: Size) -> Contraction:
        op, output = self.op, self.output
        x, y = (
            matrix_view(one, self.memory[one], 0, axes)
            for one, axes in ((op.x, "mk"), (output, "mn"))
        )
        kernel = kernel_of_use(chosen.word("use"), self.ctx.target)
        epilogue = epilogue_of(op, output, self.memory)
        views = x, View(self.memory[op.w], {}), y
        return matmul((), (rows, *op.sizes[1:]), views, kernel, epilogue)
