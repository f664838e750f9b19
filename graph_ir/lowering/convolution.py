"""Derives the arguments of the convolution template from a direct convolution and its epilogue ops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...base.dims import Size
from ...targets.isa import Microkernel
from ...tensor_ir import builder as t
from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Buffer, Expr, Function, Let, Stmt
from ..ir.computation import Index
from ..ir.format import Format
from ..ir.graph import GraphTensor, Op
from ..ir.group_values import parameters
from ..ir.schedule import Schedule
from ..nest.epilogue import EpilogueValue
from ..nest.lower import lower
from ..nest.matmul import matmul_nest, matrix_view
from ..nest.nest import Sharing
from ..nest.operand import Operand
from ..nest.problem import matmul
from ..ops.convolution_direct import DirectConvolution
from ..rewriting.groups import is_elementwise
from ..rewriting.kernel_group import KernelGroup
from ..schedule.context import LowerContext
from ..schedule.convolution_blocking import FLAT_BANDS
from ..schedule.convolution_geometry import ConvolutionGeometry
from ..schedule.convolution_sizes import geometry_of, with_sizes_of
from ..schedule.gemm import Gemm
from ..schedule.matmul import blocking_of, kernel_of
from ..schedule.matmul_tile import MatmulBlocking, pick_blocking
from ..templates.convolution import ConvolutionProblem, ConvolutionTemplate
from ..templates.convolution_band import ImageOperand
from ..templates.convolution_patches import PatchTemplate
from ..templates.local_sizes import LocalSizes, localized
from .matmul import as_block, epilogue_names, epilogue_value, flat
from .notes import group_note

Make = Callable[..., ConvolutionTemplate | PatchTemplate | Stmt]


def convolution_function(
    op: DirectConvolution, group: KernelGroup, schedule: Schedule, ctx: LowerContext
) -> Function:
    """A direct convolution and the elementwise ops after it; parameters are the inputs (each once), then the output."""
    (output,) = group.outputs
    memory = {x: flat(b) for x, b in parameters(group.inputs, group.outputs).items()}
    band, kernel = schedule.word("band"), kernel_of(schedule, op, ctx.target)
    blocking = blocking_of(schedule, kernel)
    others = [o for o in group.ops if o is not op]
    read = dict.fromkeys(x for one in others for x in one.inputs)
    reads = [x for x in read if x in memory]
    by_pixel = _reads_by_pixel(output, reads, others)
    value = None
    if output is not op.outputs[0]:
        value = epilogue_value(op.outputs[0], output, memory)
    operands = [memory[x] for x in (*op.inputs, output)]
    make: Make = _taps
    if band in ("matmul", "patches"):
        make = _matmul if band == "matmul" else _patches
    elif geometry_of(op).is_dynamic:
        make = _pixel_matmul if geometry_of(op).is_pointwise else _dynamic_taps
    made = make(op, band, blocking, kernel, operands, output, value, by_pixel, ctx)
    post = epilogue_names(op, group.ops)
    tile = f"{blocking.tile.rows}x{blocking.tile.columns(ctx.target, kernel.accumulator)}"
    sizes = with_sizes_of(geometry_of(op), op)
    name = identifier(f"{kernel.a}_conv_{band}{post}_{sizes}_{tile}__{ctx.target.isa}", 160)
    params, note = tuple(memory.values()), group_note(group, schedule)
    if isinstance(made, ConvolutionTemplate | PatchTemplate):
        return made.function(name, params, note)
    return Function(name, params, as_block(made), note)


def _taps(
    op: DirectConvolution, band: str, blocking: MatmulBlocking, kernel: Microkernel, operands: Sequence[Buffer],
    output: GraphTensor, value: EpilogueValue | None, by_pixel: bool, ctx: LowerContext,
) -> ConvolutionTemplate:  # fmt: skip
    """Channels last, tap by tap."""
    x, w, y = operands
    geometry = with_sizes_of(geometry_of(op), op)
    image, result = image_operand(op.inputs[0], x), image_operand(output, y)
    columns = 0  # of pixels that the epilogue gets by number
    if band in FLAT_BANDS:
        columns = geometry.result[1]
    elif band == "image" and by_pixel and geometry.is_pointwise:
        geometry = _lines(geometry, -(-geometry.result[0] // blocking.m_block))
        blocking = replace(blocking, m_block=1)
        columns = geometry.result[1]
        image = replace(image, row=columns * image.column)
        result = replace(result, row=columns * result.column)
    problem = ConvolutionProblem(geometry, image, w, result, band, kernel)
    if value is not None:
        value = _indexed(value, output.details.plain_dims, columns, by_pixel)
    return ConvolutionTemplate(problem, blocking, ctx.target, value)


def _dynamic_taps(
    op: DirectConvolution, band: str, blocking: MatmulBlocking, kernel: Microkernel, operands: Sequence[Buffer],
    output: GraphTensor, value: EpilogueValue | None, by_pixel: bool, ctx: LowerContext,
) -> ConvolutionTemplate:  # fmt: skip
    """Channels last, tap by tap, of images of any height and width."""
    x, w, y = operands
    whole = with_sizes_of(geometry_of(op), op)
    sizes = LocalSizes((whole.batch, *whole.image, *whole.result))
    g = localized(whole, sizes)
    image, result = (
        _last_operand(buffer, pixels, g.groups * channels)
        for buffer, pixels, channels in ((x, g.image, g.channels), (y, g.result, g.outputs))
    )
    problem = ConvolutionProblem(g, image, w, result, band, kernel)
    if value is not None:
        value = _indexed(value, output.details.plain_dims, 0, by_pixel)
    return ConvolutionTemplate(problem, blocking, ctx.target, value, whole, sizes)


def _last_operand(buffer: Buffer, pixels: tuple[int, int], channels: int) -> ImageOperand:
    """An image whose channels are last."""
    row = pixels[1] * channels
    return ImageOperand(buffer, pixels[0] * row, row, channels, 1)


def _matmul(
    op: DirectConvolution, band: str, blocking: MatmulBlocking, kernel: Microkernel, operands: Sequence[Buffer],
    output: GraphTensor, value: EpilogueValue | None, by_pixel: bool, ctx: LowerContext,
) -> Stmt:  # fmt: skip
    """Weights [outputs, channels] times image [channels, pixels], all plain."""
    x, w, y = operands
    g = with_sizes_of(geometry_of(op), op)
    pixels = math.prod(g.result)
    views = (
        Operand(w, (0, g.outputs * g.channels), g.channels, 1),
        Operand(x, (g.groups * g.channels * pixels, g.channels * pixels), pixels, 1),
        Operand(y, (g.groups * g.outputs * pixels, g.outputs * pixels), pixels, 1),
    )
    epilogue = None
    if value is not None:
        inner = _indexed(value, output.details.plain_dims, g.result[1], by_pixel)

        def epilogue(index: Index, acc: Expr) -> tuple[list[Let], Expr]:
            image, group, number, pixel = index
            return inner((image, group * g.outputs + number, t.as_expr(0), pixel), acc)

    sizes = g.outputs, pixels, g.channels
    return _lowered_matmul((g.batch, g.groups), sizes, views, kernel, epilogue, blocking, ctx)


def _pixel_matmul(
    op: DirectConvolution, band: str, blocking: MatmulBlocking, kernel: Microkernel, operands: Sequence[Buffer],
    output: GraphTensor, value: EpilogueValue | None, by_pixel: bool, ctx: LowerContext,
) -> Stmt:  # fmt: skip
    """Any number of pixels [pixels, channels] times weights in panels [channels, outputs], channels last."""
    x, w, y = operands
    g = with_sizes_of(geometry_of(op), op)
    pixels = math.prod(g.result)
    columns = blocking.tile.columns(ctx.target, kernel.accumulator)
    step = -(-g.channels // kernel.k_group) * kernel.k_group * columns  # elements of a panel
    inner, outer = g.groups * g.channels, g.groups * g.outputs
    views = (
        Operand(x, (pixels * inner, g.channels), inner, 1),
        Operand(w, (0, -(-g.outputs // columns) * step), step, 1, columns),
        Operand(y, (pixels * outer, g.outputs), outer, 1),
    )
    typical_pixels = math.prod(geometry_of(op).result)
    gemm = Gemm(
        g.groups, typical_pixels, g.outputs, g.channels, kernel, ctx.target, ctx.options.threads
    )
    blocking = replace(blocking, m_block=pick_blocking(gemm, blocking.tile).m_block)
    epilogue = None
    if value is not None:
        indexed = _indexed(value, output.details.plain_dims, g.result[1], by_pixel)

        def epilogue(index: Index, acc: Expr) -> tuple[list[Let], Expr]:
            image, group, pixel, number = index
            return indexed((image, group * g.outputs + number, t.as_expr(0), pixel), acc)

    sizes = pixels, g.outputs, g.channels
    return _lowered_matmul((g.batch, g.groups), sizes, views, kernel, epilogue, blocking, ctx)


def _lowered_matmul(
    batch: tuple[Size, Size], sizes: tuple[Size, Size, Size], operands: tuple[Operand, Operand, Operand],
    kernel: Microkernel, epilogue: EpilogueValue | None, blocking: MatmulBlocking, ctx: LowerContext,
) -> Stmt:  # fmt: skip
    """The nest of a matmul of `sizes` m, n, k."""
    a, b, c = map(matrix_view, operands, "mkm", "knn")
    problem = matmul(batch, sizes, (a, b, c), kernel, epilogue)
    sharing = Sharing(ctx.options.threads, ctx.target.machine.parallel_multiply_adds)
    return lower(matmul_nest(problem, blocking, ctx.target, sharing), ctx.target)


def _patches(
    op: DirectConvolution, band: str, blocking: MatmulBlocking, kernel: Microkernel, operands: Sequence[Buffer],
    output: GraphTensor, value: EpilogueValue | None, by_pixel: bool, ctx: LowerContext,
) -> PatchTemplate:  # fmt: skip
    """Weights [outputs, terms] times patches [terms, pixels] of bands of rows, all plain."""
    x, w, y = operands
    g = with_sizes_of(geometry_of(op), op)
    image, result = image_operand(op.inputs[0], x), image_operand(output, y)
    if value is not None:
        value = _indexed(value, output.details.plain_dims, g.result[1], by_pixel)
    problem = ConvolutionProblem(g, image, w, result, band, kernel)
    return PatchTemplate(problem, blocking, ctx.target, value)


def _lines(g: ConvolutionGeometry, wanted: int) -> ConvolutionGeometry:
    """Return the same matmul over lines of equally many pixels, close to the wanted number, so that register tiles
    span rows."""
    pixels = math.prod(g.image)
    count = next(n for n in range(min(wanted, pixels), 0, -1) if pixels % n == 0)
    line = (count, pixels // count)
    return ConvolutionGeometry(g.batch, g.groups, g.channels, g.outputs, line, line)


def image_operand(tensor: GraphTensor, buffer: Buffer) -> ImageOperand:
    """Strides of an image of one or two spatial axes, with channels in blocks or none."""
    details = tensor.details
    if details.format.is_blocked:
        images, _, *line, block = math.prod(details.physical_dims[1:]), *details.physical_dims[1:]
        row = line[-1] * block if details.rank == 4 else 0
        return ImageOperand(buffer, images, row, block, math.prod(line), block)
    strides = strides_of(details.format, details.plain_dims)
    row = strides[2] if details.rank == 4 else 0
    return ImageOperand(buffer, strides[0], row, strides[-1], strides[1])


def strides_of(fmt: Format, dims: Sequence[int]) -> list[int]:
    """The stride of each plain axis, in a layout without blocks."""
    strides, stride = [0] * len(dims), 1
    for axis in reversed(fmt.order):
        strides[axis] = stride
        stride *= dims[axis]
    return strides


def _reads_by_pixel(output: GraphTensor, reads: Sequence[GraphTensor], ops: Sequence[Op]) -> bool:
    """Return whether a pixel may be indexed by its number alone: every epilogue operand has all pixels, in order, or
    one value for all."""
    if not all(map(is_elementwise, ops)):
        return False
    rank = output.details.rank
    pixels = output.details.plain_dims[2:]
    for tensor in reads:
        dims, fmt = tensor.details.plain_dims, tensor.details.format
        own = dims[2 - rank :] if len(dims) > rank - 3 else dims
        if all(size == 1 for size in own):
            continue
        axes = [i for i, axis in enumerate(fmt.order) if axis >= len(dims) - len(pixels)]
        in_order = axes == list(range(axes[0], axes[0] + len(axes))) if axes else False
        if own != pixels or fmt.is_blocked or not in_order:
            return False
    return True


def _indexed(
    value: EpilogueValue, dims: Sequence[int], columns: int, by_pixel: bool
) -> EpilogueValue:
    """The epilogue of a plain index into `dims` for one of (image, output, line, pixel of it).

    `columns`: pixels in a line of the template, 0 where that is a row of the result. With `by_pixel` a pixel of a line
    is named by its number in the image: the last axis takes it, or the one before where that has one element, as
    elementwise ops look at index 0 alone there.
    """
    rank = len(dims)

    def of_index(index: Index, acc: Expr) -> tuple[list[Let], Expr]:
        image, output, row, column = index
        if columns and by_pixel:
            number = row * columns + column
            row, column = (number, t.ZERO) if dims[-1] == 1 else (t.ZERO, number)
        elif columns:
            row, column = row + column // columns, column % columns
        pixel = (row, column) if rank == 4 else (column,)
        return value((image, output, *pixel), acc)

    return of_index
