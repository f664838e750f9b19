"""Derives the arguments of the matmul template from a tuned matmul and its epilogue ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Buffer, Expr, Function, Let
from ..ir.computation import Index
from ..ir.graph import GraphTensor, Op
from ..ir.group_values import GroupValues, computed, narrow
from ..ir.schedule import Schedule
from ..nest.epilogue import EpilogueValue
from ..nest.nest import Sharing
from ..ops.matmul import MatmulCore
from ..rewriting.kernel_group import KernelGroup
from ..schedule.context import LowerContext
from ..schedule.matmul import kernel_of, tile_of_schedule
from ..schedule.matmul_problem import matmul_memory, matmul_problem
from .contraction import ContractionKernel
from .notes import group_note


def matmul_function(
    op: MatmulCore, group: KernelGroup, schedule: Schedule, ctx: LowerContext
) -> Function:
    """Return the kernel of a matmul and the elementwise ops after it."""
    kernel = matmul_kernel(op, group, schedule, ctx)
    return kernel.function(kernel.lowered(ctx.target))


def matmul_kernel(
    op: MatmulCore, group: KernelGroup, schedule: Schedule, ctx: LowerContext
) -> ContractionKernel:
    """Return the problem and schedule of a matmul and the elementwise ops after it."""
    (output,) = group.outputs
    memory = matmul_memory(op, group)
    kernel = kernel_of(schedule, op, ctx.target)
    problem = matmul_problem(op, group, kernel, memory)
    epilogue = epilogue_of(op, output, memory)
    problem = replace(problem, epilogue=epilogue) if epilogue else problem
    post = epilogue_names(op, group.ops)
    sizes = "x".join(map(str, problem.sizes.values()))
    tile = tile_of_schedule(schedule, kernel)
    rows, columns = tile.rows, tile.columns(ctx.target, kernel.accumulator)
    kind = f"{op.contraction.a}_gemm{post}_{sizes}_{rows}x{columns}"
    name, note = identifier(f"{kind}__{ctx.target.isa}", 120), group_note(group, schedule)
    params = tuple(memory.values())
    return ContractionKernel(name, params, problem, schedule.steps, note, sharing_of(ctx))


def sharing_of(ctx: LowerContext) -> Sharing:
    """Return the threads that share nests with dynamic sizes."""
    return Sharing(ctx.options.threads, ctx.target.machine.parallel_multiply_adds)


def epilogue_names(op: Op, ops: Sequence[Op]) -> str:
    """The kinds of the ops after a tuned one, as used in its kernel's name."""
    kinds = "_".join(dict.fromkeys(o.op_name for o in ops if o is not op))
    return f"_{identifier(kinds, 40)}" if kinds else ""


def epilogue_of(
    op: Op, output: GraphTensor, buffers: Mapping[GraphTensor, Buffer]
) -> EpilogueValue | None:
    """Return the ops between a tuned op and the output of its kernel as an epilogue; None if there are none."""
    result = op.outputs[0]
    return None if output is result else epilogue_value(result, output, buffers)


def epilogue_value(
    acc_tensor: GraphTensor, output: GraphTensor, buffers: Mapping[GraphTensor, Buffer]
) -> EpilogueValue:
    """Return the value of `output` as a function of the matmul's accumulator; `buffers` holds its other operands."""
    in_memory = {x: b for x, b in buffers.items() if x is not output}

    def value(index: Index, acc: Expr) -> tuple[list[Let], Expr]:
        values = GroupValues(in_memory)
        # Integers wrap to the result dtype before the next op; floats stay in the accumulator dtype, as in any group.
        gemm = computed(acc, acc_tensor.details.dtype)
        values.given[acc_tensor] = lambda _: gemm
        result = narrow(values.read(output)(index), output.details.dtype)
        return values.lets, result

    return value
