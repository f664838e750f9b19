"""From a Winograd convolution and its epilogue ops to the numbers the template takes."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.target import GemmTile
from ...tensor_ir.nodes import Buffer, Function, LoopKind
from ..ir.graph import GraphTensor, Op
from ..ops.winograd import WinogradConvolution
from ..schedule import winograd_tile
from ..schedule.context import LowerContext
from ..schedule.convolution_geometry import ConvolutionGeometry
from ..schedule.matmul_tile import BYTES_PER_CYCLE
from ..schedule.winograd_tile import WinogradBlocking, pick_blocking, worth_threads
from ..templates.reader import parameters
from ..templates.winograd import Image, WinogradProblem, WinogradTemplate
from .matmul import epilogue_names, epilogue_value, flat


def geometry_of(op: WinogradConvolution) -> ConvolutionGeometry:
    """The numbers of the convolution that the op computes."""
    x, u = (i.details.plain_dims for i in op.inputs)
    rows, columns = op.outputs[0].details.plain_dims[2:]
    before, _ = op.padding
    return ConvolutionGeometry(
        x[0], 1, x[1], u[2], (x[2], x[3]), (rows, columns), (3, 3), before=before
    )


def ranked_tiles(op: WinogradConvolution, ctx: LowerContext) -> list[tuple[GemmTile, float]]:
    """Register tiles, best first, each with what it loses against the best as the bytes that could move meanwhile."""
    ranked = winograd_tile.ranked_tiles(geometry_of(op), op.form, ctx.target)
    best = ranked[0][1]
    return [(tile, (cycles - best) * BYTES_PER_CYCLE) for tile, cycles in ranked]


def winograd_blocking(op: WinogradConvolution, ctx: LowerContext) -> WinogradBlocking:
    """The cost model's blocking for the panels that u lies in."""
    columns = op.inputs[1].details.format.blocks[-1]
    tile = next(x for x in ctx.target.table.gemm_tiles if x.columns(ctx.target) == columns)
    return pick_blocking(geometry_of(op), op.form, tile, ctx.target, ctx.options.threads)


def winograd_function(
    op: WinogradConvolution,
    ops: Sequence[Op],
    inputs: list[GraphTensor],
    outputs: list[GraphTensor],
    ctx: LowerContext,
) -> Function:
    """A Winograd convolution and the elementwise ops after it; parameters are `inputs` (each once), then the output."""
    (output,) = outputs
    buffers = parameters(inputs, outputs)
    memory = {x: flat(b) if x in (*op.inputs, output) else b for x, b in buffers.items()}
    g, blocking = geometry_of(op), winograd_blocking(op, ctx)
    x, u = op.inputs
    problem = WinogradProblem(
        g.batch, _image(memory[x], g.image, g.channels), memory[u],
        _image(memory[output], g.result, g.outputs), *g.before,
    )  # fmt: skip
    epilogue = None if output is op.outputs[0] else epilogue_value(op.outputs[0], output, memory)
    post = epilogue_names(op, ops)
    tile = f"{blocking.tile.rows}x{blocking.tile.columns(ctx.target)}"
    name = f"f32_winograd_{op.form.name}{post}_{g}_{tile}__{ctx.target.isa}"
    kind: LoopKind = "parallel" if ctx.options.threads > 1 and worth_threads(g) else "serial"
    template = WinogradTemplate(problem, blocking, ctx.target, kind, epilogue)
    note = f"{' -> '.join(o.name for o in ops)} [{blocking}]"
    return template.function(name, tuple(memory.values()), note)


def _image(buffer: Buffer, size: tuple[int, int], channels: int) -> Image:
    return Image(buffer, *size, channels)
