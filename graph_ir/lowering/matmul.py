"""Derives the arguments of the matmul template from a tuned product and its epilogue ops."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Buffer, Expr, Function, Let
from ..ir.computation import Index
from ..ir.graph import GraphTensor, Op
from ..ir.group_values import GroupValues, narrow, parameters
from ..ir.schedule import Schedule
from ..ops.matmul import MatmulCore
from ..rewriting.kernel_group import KernelGroup
from ..schedule.context import LowerContext
from ..schedule.matmul import blocking_of, kernel_of
from ..templates.matmul import EpilogueValue, MatmulProblem, MatmulTemplate
from ..templates.operand import Operand


def matmul_function(
    op: MatmulCore, group: KernelGroup, schedule: Schedule, ctx: LowerContext
) -> Function:
    """A tuned product and the elementwise ops after it; parameters are the inputs (each once), then the output."""
    (output,) = group.outputs
    buffers = parameters(group.inputs, group.outputs)
    memory = {x: flat(b) if x in (*op.inputs, output) else b for x, b in buffers.items()}
    m, n, k = op.sizes
    batch = output.details.plain_dims[:-2]
    a, b = op.inputs
    problem = MatmulProblem(
        batch, m, n, k,
        operand_of(a, memory[a], len(batch), op.transpose_a),
        operand_of(b, memory[b], len(batch), op.transpose_b),
        operand_of(output, memory[output], len(batch), False),
    )  # fmt: skip
    kernel = kernel_of(schedule, op, ctx.target)
    blocking = blocking_of(schedule, kernel)
    columns = blocking.tile.columns(ctx.target, kernel.accumulator)
    epilogue = None if output is op.outputs[0] else epilogue_value(op.outputs[0], output, memory)
    post = epilogue_names(op, group.ops)
    sizes = "x".join(map(str, (*batch, m, n, k)))
    tile = f"{blocking.tile.rows}x{columns}"
    name = f"{op.contraction.a}_gemm{post}_{sizes}_{tile}__{ctx.target.isa}"
    template = MatmulTemplate(problem, blocking, kernel, ctx.target, epilogue)
    return template.function(name, tuple(memory.values()), group_note(group, schedule))


def group_note(group: KernelGroup, schedule: Schedule) -> str:
    """The names of a group's ops and its schedule, for display."""
    return f"{' -> '.join(op.name for op in group.ops)} [{schedule}]"


def epilogue_names(op: Op, ops: Sequence[Op]) -> str:
    """The kinds of the ops after a tuned one, as used in its kernel's name."""
    kinds = "_".join(dict.fromkeys(o.op_name for o in ops if o is not op))
    return f"_{identifier(kinds, 40)}" if kinds else ""


def flat(buffer: Buffer) -> Buffer:
    """The same memory as one axis, which is how templates address matrices."""
    return Buffer(buffer.name, buffer.dtype, (math.prod(buffer.shape),), buffer.storage)


def operand_of(tensor: GraphTensor, buffer: Buffer, batch_rank: int, transposed: bool) -> Operand:
    """Strides of a matrix operand for each of the output's batch axes, 0 where it broadcasts."""
    details = tensor.details
    dims, fmt = details.plain_dims, details.format
    memory = details.physical_dims
    own = len(dims) - 2
    strides = [math.prod(memory[axis + 1 :]) if dims[axis] > 1 else 0 for axis in range(own)]
    batch = (0,) * (batch_rank - own) + tuple(strides)
    if fmt.is_blocked:
        return Operand(buffer, batch, math.prod(memory[own + 1 :]), 1, fmt.blocks[fmt.rank])
    row, col = (1, dims[-1]) if transposed else (dims[-1], 1)
    return Operand(buffer, batch, row, col)


def epilogue_value(
    acc_tensor: GraphTensor, output: GraphTensor, buffers: dict[GraphTensor, Buffer]
) -> EpilogueValue:
    """The value of `output` as a function of the product's accumulator; `buffers` holds its other operands."""
    in_memory = {x: b for x, b in buffers.items() if x is not output}

    def value(index: Index, acc: Expr) -> tuple[list[Let], Expr]:
        values = GroupValues(in_memory, {acc_tensor: lambda _: acc})
        result = narrow(values.read(output)(index), output.details.dtype)
        return values.lets, result

    return value
