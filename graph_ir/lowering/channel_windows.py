"""Derives the arguments of the channel-window template from a depthwise convolution or pool and its epilogue ops."""

from __future__ import annotations

from collections.abc import Sequence

from ...tensor_ir.nodes import Buffer, Expr, Function, Let
from ..ir.computation import Index
from ..ir.graph import GraphTensor, Op
from ..ops.convolution_depthwise import DepthwiseConvolution
from ..ops.pool import WindowReduce
from ..schedule.context import LowerContext
from ..schedule.convolution_geometry import ConvolutionGeometry
from ..schedule.convolution_sizes import geometry_of
from ..schedule.window_tile import worth_threads
from ..templates.channel_windows import WindowProblem, WindowTemplate
from ..templates.matmul import EpilogueValue
from ..templates.values import parameters
from .matmul import epilogue_names, epilogue_value, flat


def depthwise_function(
    op: DepthwiseConvolution,
    ops: Sequence[Op],
    inputs: list[GraphTensor],
    outputs: list[GraphTensor],
    ctx: LowerContext,
) -> Function:
    """A depthwise convolution and the elementwise ops after it; parameters: `inputs` (each once), then the output."""
    (output,) = outputs
    buffers = parameters(inputs, outputs)
    memory = {x: flat(b) if x in (*op.inputs, output) else b for x, b in buffers.items()}
    g, (x, w) = geometry_of(op), op.inputs
    problem = WindowProblem(g, memory[x], memory[output], "fma", 0.0, memory[w])
    epilogue = None
    if output is not op.outputs[0]:
        epilogue = _of_rank(epilogue_value(op.outputs[0], output, memory), output.details.rank)
    threads = ctx.options.threads if worth_threads(g, ctx.target) else 1
    post = epilogue_names(op, ops)
    name = f"f32_depthwise{post}_{g}__{ctx.target.isa}"
    template = WindowTemplate(problem, ctx.target, threads, epilogue)
    return template.function(name, tuple(memory.values()), " -> ".join(o.name for o in ops))


def pool_function(
    op: WindowReduce,
    name: str,
    buffers: dict[GraphTensor, Buffer],
    output: GraphTensor,
    ctx: LowerContext,
    note: str,
) -> Function:
    """A pool that reads a tensor in memory and the elementwise ops after it; parameters are `buffers` in order."""
    (x,) = op.inputs
    memory = {z: flat(b) if z in (x, output) else b for z, b in buffers.items()}
    g = _geometry(op)
    problem = WindowProblem(g, memory[x], memory[output], op.combine, float(op.fill))
    epilogue = None
    if output is not op.outputs[0]:
        epilogue = _of_rank(epilogue_value(op.outputs[0], output, memory), output.details.rank)
    threads = ctx.options.threads if worth_threads(g, ctx.target) else 1
    template = WindowTemplate(problem, ctx.target, threads, epilogue)
    return template.function(name, tuple(memory.values()), note)


def _geometry(op: WindowReduce) -> ConvolutionGeometry:
    x, y, window = op.inputs[0].details.plain_dims, op.outputs[0].details.plain_dims, op.window

    def pair(sizes: tuple[int, ...], missing: int = 1) -> tuple[int, int]:
        return (missing, sizes[0]) if len(sizes) == 1 else (sizes[0], sizes[1])

    return ConvolutionGeometry(
        x[0], x[1], 1, 1, pair(x[2:]), pair(y[2:]), pair(window.kernel), pair(window.strides),
        pair(window.dilations), pair(window.before, 0),
    )  # fmt: skip


def _of_rank(value: EpilogueValue, rank: int) -> EpilogueValue:
    """`value` with indices [image, channel, row, column], also for images of one spatial axis."""

    def of_index(index: Index, acc: Expr) -> tuple[list[Let], Expr]:
        return value(index if rank == 4 else (*index[:2], *index[3:]), acc)

    return of_index
