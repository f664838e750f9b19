"""Derives the arguments of the template of matmuls with packed weights from an op and its epilogue."""

from __future__ import annotations

from ...targets.microkernels import f32_kernel
from ...tensor_ir.nodes import Function
from ..ir.group_values import parameters
from ..ir.schedule import Schedule
from ..nest.operand import matrix_view
from ..nest.problem import View, matmul
from ..ops.matmul_nbits import MatmulNBits
from ..rewriting.kernel_group import KernelGroup
from ..schedule.context import LowerContext
from ..schedule.matmul import blocking_of
from ..templates.matmul_nbits import NBitsLowering
from ..templates.packed_weights import PackedWeights
from .contraction import as_block
from .matmul import epilogue_names, epilogue_value, flat, operand_of
from .notes import group_note


def nbits_function(
    op: MatmulNBits, group: KernelGroup, schedule: Schedule, ctx: LowerContext
) -> Function:
    """Lower a matmul with packed weights and the elementwise ops after it."""
    (output,) = group.outputs
    buffers = parameters(group.inputs, group.outputs)
    memory = {x: flat(b) if x in (*op.inputs, output) else b for x, b in buffers.items()}
    kernel, (m, n, k) = f32_kernel(ctx.target), op.sizes
    blocking, unpack = blocking_of(schedule, kernel), schedule.word("unpack")
    columns = blocking.tile.columns(ctx.target)
    x, y = (operand_of(one, memory[one], 0, False) for one in (op.x, output))
    packed = PackedWeights(memory[op.w], memory[op.scale], memory[op.zero_point], op.bits, op.group)
    x_scale = None if op.x_scale is None else memory[op.x_scale]
    epilogue = None if output is op.outputs[0] else epilogue_value(op.outputs[0], output, memory)
    types = f"{op.x.details.dtype}_u{op.bits}g{op.group}"
    tile = f"{blocking.tile.rows}x{columns}"
    name = f"{types}_gemm{epilogue_names(op, group.ops)}_{m}x{n}x{k}_{tile}__{ctx.target.isa}"
    views = matrix_view(x, *"mk"), View(memory[op.w], {}), matrix_view(y, *"mn")
    problem = matmul((), (m, n, k), views, kernel, epilogue)
    nest = NBitsLowering(
        problem, packed, x_scale, blocking, ctx.target, unpack, schedule.word("use")
    )
    body = as_block(nest.statement())
    return Function(name, tuple(memory.values()), body, group_note(group, schedule))
