"""Derives the arguments of the Winograd template from a convolution and its epilogue ops."""

from __future__ import annotations

from ...tensor_ir.nodes import Buffer, Function, LoopKind
from ..ir.group_values import parameters
from ..ir.schedule import Schedule
from ..ops.winograd import WinogradConvolution
from ..rewriting.kernel_group import KernelGroup
from ..schedule.context import LowerContext
from ..schedule.convolution_sizes import winograd_geometry
from ..schedule.winograd import winograd_blocking
from ..schedule.winograd_tile import worth_threads
from ..templates.winograd import Image, WinogradProblem, WinogradTemplate
from .matmul import epilogue_names, epilogue_value, flat
from .notes import group_note


def winograd_function(
    op: WinogradConvolution, group: KernelGroup, schedule: Schedule, ctx: LowerContext
) -> Function:
    """A Winograd convolution and the elementwise ops after it; parameters: the inputs, each once, then the output."""
    (output,) = group.outputs
    buffers = parameters(group.inputs, group.outputs)
    memory = {x: flat(b) if x in (*op.inputs, output) else b for x, b in buffers.items()}
    g = winograd_geometry(op)
    blocking = winograd_blocking(schedule, op.form, ctx.target)
    x, u = op.inputs
    problem = WinogradProblem(
        g.batch, _image(memory[x], g.image, g.channels), memory[u],
        _image(memory[output], g.result, g.outputs), *g.before,
    )  # fmt: skip
    epilogue = None if output is op.outputs[0] else epilogue_value(op.outputs[0], output, memory)
    post = epilogue_names(op, group.ops)
    tile = f"{blocking.tile.rows}x{blocking.tile.columns(ctx.target)}"
    name = f"f32_winograd_{op.form.name}{post}_{g}_{tile}__{ctx.target.isa}"
    kind: LoopKind = (
        "parallel" if ctx.options.threads > 1 and worth_threads(g, ctx.target) else "serial"
    )
    template = WinogradTemplate(problem, blocking, ctx.target, kind, epilogue)
    return template.function(name, tuple(memory.values()), group_note(group, schedule))


def _image(buffer: Buffer, size: tuple[int, int], channels: int) -> Image:
    return Image(buffer, *size, channels)
