"""Derives the arguments of the template of matmuls with packed weights from an op and its epilogue."""

from __future__ import annotations

from functools import reduce
from operator import or_

from ...base.dims import is_known
from ...tensor_ir import builder as t
from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Function, If, Stmt
from ..ir.schedule import Schedule
from ..nest.problem import View, matmul
from ..ops.matmul_nbits import MatmulNBits
from ..rewriting.kernel_group import KernelGroup
from ..schedule.byte_pairs import is_centered
from ..schedule.context import LowerContext
from ..schedule.matmul import blocking_of
from ..schedule.matmul_nbits import NBitsSpace, few_schedules
from ..schedule.matmul_problem import group_memory, matrix_view
from ..schedule.nbits_instructions import kernel_of_use, max_on_byte_tiles
from ..templates.matmul_nbits import NBitsLowering
from ..templates.packed_weights import PackedWeights
from .contraction import as_block
from .matmul import epilogue_names, epilogue_of, sharing_of
from .notes import group_note


def nbits_function(
    op: MatmulNBits, group: KernelGroup, schedule: Schedule, ctx: LowerContext
) -> Function:
    """Lower a matmul with packed weights and the elementwise ops after it; few dynamic rows have separate nests."""
    (output,) = group.outputs
    memory = group_memory(group, op.inputs)
    m, n, k = op.sizes
    parts = {name: memory[one] for name, one in zip(op.part_names, op.others, strict=True)}
    x_scale = parts.pop("x_scale", None)
    words, scale, zero = memory[op.w], memory[op.scale], memory[op.zero_point]
    packed = PackedWeights(
        words, scale, zero, op.bits, op.group, parts, ctx.target.machine.fetch_ahead, op.zero,
        is_centered(op, ctx), ctx.target.table.has_fma,
    )  # fmt: skip
    epilogue = epilogue_of(op, output, memory)
    x, y = (matrix_view(one, memory[one], 0, axes) for one, axes in ((op.x, "mk"), (output, "mn")))
    views = x, View(memory[op.w], {}), y

    def statement(chosen: Schedule, rows: int | None = None) -> Stmt:
        kernel = kernel_of_use(chosen.word("use"), ctx.target)
        problem = matmul((), (m, n, k), views, kernel, epilogue)
        sized = problem if rows is None else problem.of_sizes(m=rows)
        nest = NBitsLowering(
            sized, packed, x_scale, op.x_group, blocking_of(chosen, kernel), sharing_of(ctx), ctx.target,
            chosen.word("unpack"), chosen.word("use"),
        )  # fmt: skip
        return nest.statement()

    body = statement(schedule)
    for several in NBitsSpace(op, group, ctx).on_byte_tiles() if not is_known(m) else ():
        body = If(t.as_expr(m) <= max_on_byte_tiles(op, ctx), statement(several), body)
    for few, chosen in few_schedules(op, group, ctx):
        is_one = reduce(or_, (t.equal(t.as_expr(m), rows) for rows in few))
        body = If(is_one, statement(chosen, few[0] if len(few) == 1 else None), body)
    tile = blocking_of(schedule, kernel_of_use(schedule.word("use"), ctx.target)).tile
    types = f"{op.x.details.dtype}_u{op.bits}g{op.group}"
    name = f"{types}_gemm{epilogue_names(op, group.ops)}_{m}x{n}x{k}_{tile.rows}x{tile.columns(ctx.target)}"
    name = identifier(f"{name}__{ctx.target.isa}", 120)
    in_order = x_scale is not None and schedule.word("use") == "dot2"
    params, note = tuple(memory.values()), group_note(group, schedule)
    return Function(name, params, as_block(body), note, in_order)
