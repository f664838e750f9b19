"""Direct convolutions and their epilogue ops as contractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ...base.dims import Size
from ...tensor_ir import builder as t
from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Buffer, Expr, Function, Let
from ..ir.computation import Index
from ..ir.graph import GraphTensor, Op
from ..ir.group_values import parameters
from ..ir.schedule import Schedule
from ..nest.convolution import (
    ConvolutionOperands,
    ImageOperand,
    convolution,
)
from ..nest.convolution_geometry import ConvolutionGeometry
from ..nest.epilogue import EpilogueValue
from ..nest.operand import Operand, matrix_view
from ..nest.problem import Contraction, matmul
from ..ops.convolution_direct import DirectConvolution
from ..rewriting.groups import is_elementwise
from ..rewriting.kernel_group import KernelGroup
from ..schedule.context import LowerContext
from ..schedule.convolution_blocking import FLAT_BANDS
from ..schedule.convolution_sizes import geometry_of, with_sizes_of
from ..schedule.convolution_steps import convolution_steps
from ..schedule.gemm import Gemm
from ..schedule.matmul import blocking_of, kernel_of
from ..schedule.matmul_steps import matmul_steps
from ..schedule.matmul_tile import pick_blocking
from ..templates.convolution_patches import PatchTemplate
from ..templates.local_sizes import LocalSizes, localized
from .contraction import ContractionKernel
from .image_operand import image_operand
from .matmul import epilogue_names, epilogue_value, flat, sharing_of
from .notes import group_note


def convolution_function(
    op: DirectConvolution, group: KernelGroup, schedule: Schedule, ctx: LowerContext
) -> Function:
    """A direct convolution and the elementwise ops after it; parameters are the inputs (each once), then the output."""
    made = _Convolution(op, group, schedule, ctx)
    if made.band == "patches":
        return made.patches()
    kernel = made.kernel()
    return kernel.function(kernel.lowered(ctx.target))


def convolution_kernel(
    op: DirectConvolution, group: KernelGroup, schedule: Schedule, ctx: LowerContext
) -> ContractionKernel | None:
    """Return the problem and schedule of a direct convolution; None where it multiplies patches of a plain image."""
    made = _Convolution(op, group, schedule, ctx)
    return None if made.band == "patches" else made.kernel()


class _Convolution:
    """A convolution as a contraction, by its band."""

    def __init__(
        self, op: DirectConvolution, group: KernelGroup, schedule: Schedule, ctx: LowerContext
    ) -> None:
        (self.output,) = group.outputs
        self.op, self.group, self.ctx, self.target = op, group, ctx, ctx.target
        self.memory = {x: flat(b) for x, b in parameters(group.inputs, group.outputs).items()}
        self.x, self.w, self.y = (self.memory[x] for x in (*op.inputs, self.output))
        self.band, self.microkernel = schedule.word("band"), kernel_of(schedule, op, ctx.target)
        self.blocking = blocking_of(schedule, self.microkernel)
        self.columns = self.blocking.tile.columns(ctx.target, self.microkernel.accumulator)
        self.typical = geometry_of(op)
        self.geometry = with_sizes_of(self.typical, op)
        self.note = group_note(group, schedule)

    @property
    def name(self) -> str:
        """Return the name of the kernel."""
        post = epilogue_names(self.op, self.group.ops)
        tile = f"{self.blocking.tile.rows}x{self.columns}"
        kind = f"{self.microkernel.a}_conv_{self.band}{post}_{self.geometry}"
        return identifier(f"{kind}_{tile}__{self.target.isa}", 160)

    def kernel(self) -> ContractionKernel:
        """Return the contraction."""
        g, sharing = self.geometry, sharing_of(self.ctx)
        blocking = self.blocking
        if self.band == "matmul" or (g.is_pointwise and self.typical.is_dynamic):
            problem = self._of_weights() if self.band == "matmul" else self._of_pixels()
            if self.band != "matmul":
                blocking = replace(blocking, m_block=self._block_of_pixels())
            text = matmul_steps(problem, blocking, self.target)
        else:
            problem, rows = self._of_taps()
            blocking = replace(blocking, m_block=rows)
            text = convolution_steps(problem, self.band, blocking, self.target)
        params = tuple(self.memory.values())
        return ContractionKernel(self.name, params, problem, text, self.note, sharing)

    def _of_taps(self) -> tuple[Contraction, int]:
        """(channels last, tap by tap; images of any height and width where they are dynamic, rows of a band)."""
        g, rows, by_pixel = self.geometry, self.blocking.m_block, self._reads_by_pixel()
        sizes = LocalSizes((g.batch, *g.image, *g.result))
        columns = 0  # of pixels that the epilogue gets by number
        if self.typical.is_dynamic:
            g = localized(g, sizes)
            image, result = (
                _last_operand(buffer, pixels, g.groups * channels)
                for buffer, pixels, channels in (
                    (self.x, g.image, g.channels),
                    (self.y, g.result, g.outputs),
                )
            )
        else:
            image = image_operand(self.op.inputs[0], self.x)
            result = image_operand(self.output, self.y)
            if self.band == "image" and by_pixel and g.is_pointwise:
                g, rows = _lines(g, -(-g.result[0] // rows)), 1
                columns = g.result[1]
                image = replace(image, row=columns * image.column)
                result = replace(result, row=columns * result.column)
            elif self.band in FLAT_BANDS:
                columns = g.result[1]
        operands = ConvolutionOperands(image, self.w, result, self.columns)
        value = self._value(columns, by_pixel)
        epilogue = value and (lambda i, acc: value((i[0], i[1] * g.outputs + i[4], *i[2:4]), acc))
        kernel = self.microkernel
        return convolution(g, operands, self.band, kernel, epilogue, tuple(sizes.lets)), rows

    def _of_weights(self) -> Contraction:
        """Weights [outputs, channels] times image [channels, pixels], all plain."""
        g = self.geometry
        pixels = math.prod(g.result)
        operands = (
            Operand(self.w, (0, g.outputs * g.channels), g.channels, 1),
            Operand(self.x, (g.groups * g.channels * pixels, g.channels * pixels), pixels, 1),
            Operand(self.y, (g.groups * g.outputs * pixels, g.outputs * pixels), pixels, 1),
        )
        value = self._value(g.result[1], self._reads_by_pixel())
        epilogue = value and (
            lambda i, acc: value((i[0], i[1] * g.outputs + i[2], t.ZERO, i[3]), acc)
        )
        return self._matmul((g.outputs, pixels, g.channels), operands, epilogue)

    def _of_pixels(self) -> Contraction:
        """Any number of pixels [pixels, channels] times weights in panels [channels, outputs], channels last."""
        g, group = self.geometry, self.microkernel.k_group
        pixels = math.prod(g.result)
        step = -(-g.channels // group) * group * self.columns  # elements of a panel
        inner, outer = g.groups * g.channels, g.groups * g.outputs
        operands = (
            Operand(self.x, (pixels * inner, g.channels), inner, 1),
            Operand(self.w, (0, -(-g.outputs // self.columns) * step), step, 1, self.columns),
            Operand(self.y, (pixels * outer, g.outputs), outer, 1),
        )
        value = self._value(g.result[1], self._reads_by_pixel())
        epilogue = value and (
            lambda i, acc: value((i[0], i[1] * g.outputs + i[3], t.ZERO, i[2]), acc)
        )
        return self._matmul((pixels, g.outputs, g.channels), operands, epilogue)

    def _block_of_pixels(self) -> int:
        g = self.typical
        sizes = g.groups, math.prod(g.result), g.outputs, g.channels
        gemm = Gemm(*sizes, self.microkernel, self.target, self.ctx.options.threads)
        return pick_blocking(gemm, self.blocking.tile).m_block

    def _matmul(
        self,
        sizes: tuple[Size, Size, Size],
        operands: tuple[Operand, Operand, Operand],
        epilogue: EpilogueValue | None,
    ) -> Contraction:
        """The matmuls of images and groups of `sizes` m, n, k."""
        a, b, c = map(matrix_view, operands, "mkm", "knn")
        batch = self.geometry.batch, self.geometry.groups
        return matmul(batch, sizes, (a, b, c), self.microkernel, epilogue)

    def patches(self) -> Function:
        """Return weights [outputs, terms] times patches [terms, pixels] of bands of rows, all plain."""
        g = self.geometry
        image, result = image_operand(self.op.inputs[0], self.x), image_operand(self.output, self.y)
        value = self._value(g.result[1], self._reads_by_pixel())
        operands = ConvolutionOperands(image, self.w, result, 0)
        made = PatchTemplate(g, operands, self.microkernel, self.blocking, self.target, value)
        return made.function(self.name, tuple(self.memory.values()), self.note)

    def _value(self, columns: int, by_pixel: bool) -> EpilogueValue | None:
        """The epilogue for an index (image, output, line, pixel of it), `columns` pixels in a line."""
        if self.output is self.op.outputs[0]:
            return None
        value = epilogue_value(self.op.outputs[0], self.output, self.memory)
        return _indexed(value, self.output.details.plain_dims, columns, by_pixel)

    def _reads_by_pixel(self) -> bool:
        others = [o for o in self.group.ops if o is not self.op]
        read = dict.fromkeys(x for one in others for x in one.inputs)
        return _reads_by_pixel(self.output, [x for x in read if x in self.memory], others)


def _last_operand(buffer: Buffer, pixels: tuple[int, int], channels: int) -> ImageOperand:
    """An image whose channels are last."""
    row = pixels[1] * channels
    return ImageOperand(buffer, pixels[0] * row, row, channels, 1)


def _lines(g: ConvolutionGeometry, wanted: int) -> ConvolutionGeometry:
    """Return the same matmul over lines of equally many pixels, close to the wanted number, so that register tiles
    span rows."""
    pixels = math.prod(g.image)
    count = next(n for n in range(min(wanted, pixels), 0, -1) if pixels % n == 0)
    line = (count, pixels // count)
    return ConvolutionGeometry(g.batch, g.groups, g.channels, g.outputs, line, line)


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
