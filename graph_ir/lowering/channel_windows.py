"""Derives the arguments of the channel-window template from a depthwise convolution or pool and its epilogue ops."""

from __future__ import annotations

from dataclasses import replace

from ...targets.isa import Microkernel, Target
from ...tensor_ir.joint_vectors import packs_vectors
from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Expr, Function, Let
from ..ir.computation import Index
from ..ir.group_values import parameters
from ..ir.schedule import Schedule
from ..nest.convolution_geometry import ConvolutionGeometry
from ..nest.epilogue import EpilogueValue
from ..ops.convolution_depthwise import DepthwiseConvolution
from ..ops.pool import WindowReduce
from ..rewriting.kernel_group import KernelGroup
from ..schedule.channel_windows import dot_kernel, pool_geometry, window_blocking
from ..schedule.context import LowerContext
from ..schedule.convolution_sizes import geometry_of, with_sizes_of
from ..schedule.local_sizes import LocalSizes, localized
from ..schedule.matmul_problem import flat
from ..schedule.row_windows import row_blocking
from ..templates.byte_windows import ByteWindowTemplate
from ..templates.channel_windows import WindowProblem, WindowTemplate
from ..templates.dot_windows import DotWindowTemplate
from ..templates.dynamic_channel_windows import DynamicWindowTemplate
from ..templates.row_windows import RowWindowTemplate
from .matmul import epilogue_names, epilogue_value
from .notes import group_note


def depthwise_function(
    op: DepthwiseConvolution, group: KernelGroup, schedule: Schedule, ctx: LowerContext
) -> Function:
    """A depthwise convolution and the elementwise ops after it; parameters: `inputs` (each once), then the output."""
    (output,) = group.outputs
    buffers = parameters(group.inputs, group.outputs)
    memory = {x: flat(b) if x in (*op.inputs, output) else b for x, b in buffers.items()}
    g, (x, w) = with_sizes_of(geometry_of(op), op), op.inputs
    sizes = LocalSizes((g.batch, *g.image, *g.result))
    local = localized(g, sizes)
    problem = WindowProblem(local, memory[x], memory[output], "fma", 0, memory[w])
    epilogue = None
    if output is not op.outputs[0]:
        epilogue = _of_rank(epilogue_value(op.outputs[0], output, memory), output.details.rank)
    post = epilogue_names(op, group.ops)
    name = identifier(f"{x.details.dtype}_depthwise{post}_{g}__{ctx.target.isa}", 120)
    kernel = dot_kernel(op, ctx.target) if w.details.format.is_blocked else None
    template = _template(problem, schedule, ctx.target, epilogue, (g, sizes), kernel)
    return template.function(name, tuple(memory.values()), group_note(group, schedule))


def pool_function(
    op: WindowReduce, name: str, group: KernelGroup, schedule: Schedule, ctx: LowerContext
) -> Function:
    """A pool that reads a tensor in memory and the elementwise ops after it; parameters as of its group."""
    (output,), (x,) = group.outputs, op.inputs
    buffers = parameters(group.inputs, group.outputs)
    memory = {z: flat(b) if z in (x, output) else b for z, b in buffers.items()}
    g = replace(with_sizes_of(pool_geometry(op), op), groups=x.details.plain_dims[1])
    sizes = LocalSizes((g.batch, *g.image, *g.result))
    local = localized(g, sizes)
    problem = WindowProblem(local, memory[x], memory[output], op.combine, op.fill)
    epilogue = None
    if output is not op.outputs[0]:
        epilogue = _of_rank(epilogue_value(op.outputs[0], output, memory), output.details.rank)
    template = _template(problem, schedule, ctx.target, epilogue, (g, sizes))
    return template.function(name, tuple(memory.values()), group_note(group, schedule))


def _template(
    problem: WindowProblem,
    schedule: Schedule,
    target: Target,
    epilogue: EpilogueValue | None,
    whole: tuple[ConvolutionGeometry, LocalSizes],
    kernel: Microkernel | None = None,
) -> WindowTemplate | RowWindowTemplate:
    """The template for the layout of the image, which has decided the schedule's algorithm."""
    if schedule.algorithm == "row-windows":
        return RowWindowTemplate(problem, row_blocking(schedule), target, epilogue)
    if whole[0].is_dynamic:
        return DynamicWindowTemplate(problem, window_blocking(schedule), target, epilogue, *whole)
    if kernel is not None:
        return DotWindowTemplate(problem, window_blocking(schedule), target, epilogue, kernel)
    if problem.multiplies_bytes_as_floats and packs_vectors(problem.y.dtype, target):
        return ByteWindowTemplate(problem, window_blocking(schedule), target, epilogue)
    return WindowTemplate(problem, window_blocking(schedule), target, epilogue)


def _of_rank(value: EpilogueValue, rank: int) -> EpilogueValue:
    """`value` with indices [image, channel, row, column], also for images of one spatial axis."""

    def of_index(index: Index, acc: Expr) -> tuple[list[Let], Expr]:
        return value(index if rank == 4 else (*index[:2], *index[3:]), acc)

    return of_index
