"""Derives the arguments of the channel-window template from a depthwise convolution or pool and its epilogue ops."""

from __future__ import annotations

from dataclasses import replace

from ...tensor_ir.joint_vectors import packs_vectors
from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Expr, Function, Let
from ..ir.computation import Index
from ..ir.schedule import Schedule
from ..nest.convolution_geometry import ConvolutionGeometry
from ..nest.epilogue import EpilogueValue
from ..ops.convolution import DepthwiseConvolution
from ..ops.pool import WindowReduce
from ..rewriting.kernel_group import KernelGroup
from ..schedule.channel_windows import dot_kernel, pool_geometry
from ..schedule.context import LowerContext
from ..schedule.convolution_sizes import geometry_of, with_sizes_of
from ..schedule.local_sizes import LocalSizes, localized
from ..schedule.matmul_problem import group_memory
from ..templates.byte_windows import ByteWindowTemplate
from ..templates.channel_windows import WindowProblem, WindowTemplate
from ..templates.dot_windows import DotWindowTemplate
from ..templates.row_windows import RowWindowTemplate
from .matmul import epilogue_names, epilogue_of
from .notes import group_note


def depthwise_function(
    op: DepthwiseConvolution, group: KernelGroup, schedule: Schedule, ctx: LowerContext
) -> Function:
    """A depthwise convolution and the elementwise ops after it; parameters: `inputs` (each once), then the output."""
    g = with_sizes_of(geometry_of(op), op)
    kind = f"{op.inputs[0].details.dtype}_depthwise{epilogue_names(op, group.ops)}"
    name = identifier(f"{kind}_{g}__{ctx.target.isa}", 120)
    return _function(op, g, name, group, schedule, ctx)


def pool_function(
    op: WindowReduce, name: str, group: KernelGroup, schedule: Schedule, ctx: LowerContext
) -> Function:
    """A pool that reads a tensor in memory and the elementwise ops after it; parameters as of its group."""
    g = replace(with_sizes_of(pool_geometry(op), op), groups=op.inputs[0].details.plain_dims[1])
    return _function(op, g, name, group, schedule, ctx)


def _function(
    op: DepthwiseConvolution | WindowReduce,
    whole: ConvolutionGeometry,
    name: str,
    group: KernelGroup,
    schedule: Schedule,
    ctx: LowerContext,
) -> Function:
    """The function of the template for the layout of the image, which has decided the schedule's algorithm."""
    (output,) = group.outputs
    memory = group_memory(group, op.inputs)
    x, *w = (memory[z] for z in op.inputs)
    sizes = LocalSizes((whole.batch, *whole.image, *whole.result))
    combine = (op.combine, op.fill) if isinstance(op, WindowReduce) else ("fma", 0)
    problem = WindowProblem(localized(whole, sizes), x, memory[output], *combine, *w)
    epilogue = epilogue_of(op, output, memory)
    if epilogue and output.details.rank == 3:
        epilogue = _of_lines(epilogue)
    if schedule.algorithm == "row-windows":
        rows = RowWindowTemplate(problem, schedule, ctx.target, epilogue)
        return rows.function(name, tuple(memory.values()), group_note(group, schedule))
    kernel = None
    if isinstance(op, DepthwiseConvolution) and op.inputs[1].details.format.is_blocked:
        kernel = dot_kernel(op, ctx.target)
    given = problem, schedule, ctx.target, epilogue, whole, sizes.lets
    if kernel is not None:
        template: WindowTemplate = DotWindowTemplate(*given, kernel=kernel)
    elif problem.multiplies_bytes_as_floats and packs_vectors(problem.y.dtype, ctx.target):
        template = ByteWindowTemplate(*given)
    else:
        template = WindowTemplate(*given)
    return template.function(name, tuple(memory.values()), group_note(group, schedule))


def _of_lines(value: EpilogueValue) -> EpilogueValue:
    """Return the epilogue with indices [image, channel, row, column] of one for images of one spatial axis."""

    def of_index(index: Index, acc: Expr) -> tuple[list[Let], Expr]:
        return value((*index[:2], *index[3:]), acc)

    return of_index
