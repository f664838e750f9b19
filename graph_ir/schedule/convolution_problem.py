"""A direct convolution and the elementwise ops after it as a contraction, for a band and a blocking."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from ...targets.isa import Microkernel
from ..ir.graph import GraphTensor, Op
from ..ir.group_values import parameters
from ..nest.convolution import convolution
from ..nest.problem import Contraction, View, matmul
from ..ops.convolution import DirectConvolution
from ..rewriting.groups import is_elementwise
from ..rewriting.kernel_group import KernelGroup
from .context import LowerContext
from .convolution_blocking import has_dense_lines
from .convolution_sizes import geometry_of, with_sizes_of
from .convolution_steps import convolution_steps
from .cost import Gemm, MatmulBlocking
from .image_operand import image_operand
from .local_sizes import LocalSizes, localized
from .matmul_problem import flat
from .matmul_steps import matmul_steps
from .matmul_tile import pick_blocking
from .two_dimensional import joins_lines


class ConvolutionCase:
    """The contraction and its steps; `lines`: pixels of a row of the result that the epilogue gets by number, or 0."""

    def __init__(
        self, op: DirectConvolution, group: KernelGroup, band: str, blocking: MatmulBlocking,
        kernel: Microkernel, ctx: LowerContext,
    ) -> None:  # fmt: skip
        (self.output,) = group.outputs
        self.op, self.group, self.band, self.blocking = op, group, band, blocking
        self.kernel, self.ctx = kernel, ctx
        self.memory = {x: flat(b) for x, b in parameters(group.inputs, group.outputs).items()}
        self.x, self.w, self.y = (self.memory[x] for x in (*op.inputs, self.output))
        self.columns = blocking.tile.columns(ctx.target, kernel.accumulator)
        self.typical = geometry_of(op)
        self.geometry = with_sizes_of(self.typical, op)

    @cached_property
    def of_pixels(self) -> bool:
        """Return whether pixels, of which each sees one, are the rows of a matmul."""
        known = self.typical.is_dynamic or self.by_pixel
        return self.band == "image" and self.geometry.is_pointwise and known

    @property
    def lines(self) -> int:
        """Return the pixels of a row of the result where the epilogue gets a pixel by its number, else 0."""
        by_number = self.band == "patches" or self.of_pixels or self.joins_lines
        return self.geometry.result[1] if by_number else 0

    @property
    def joins_lines(self) -> bool:
        """Return whether the lines of pixels of a band are one GEMM."""
        rows, result = min(self.blocking.m_block, self.typical.result[0]), self.geometry.result
        is_dense = has_dense_lines(self.geometry, self.band)
        return joins_lines(self.kernel, self.blocking.tile, rows, result, is_dense)

    @cached_property
    def problem(self) -> Contraction:
        """Return the contraction, before its epilogue."""
        return self._of_pixels() if self.of_pixels else self._of_taps()

    @property
    def steps(self) -> str:
        """Return the steps that the band and the blocking stand for."""
        target, blocking = self.ctx.target, self.blocking
        if not self.of_pixels:
            return convolution_steps(self.problem, blocking, target, self.joins_lines)
        blocking = replace(blocking, m_block=self._block_of_pixels())
        return matmul_steps(self.problem, blocking, target)

    def _of_taps(self) -> Contraction:
        """Channels last, tap by tap; images of any height and width where they are dynamic."""
        g = self.geometry
        sizes = LocalSizes((g.batch, *g.image, *g.result))
        if self.typical.is_dynamic:
            g = localized(g, sizes)
        image = image_operand(self.op.inputs[0], self.x, g.image)
        result = image_operand(self.output, self.y, g.result)
        operands = image, (self.w, self.columns), result
        return convolution(g, operands, self.band, self.kernel, None, tuple(sizes.lets))

    def _of_pixels(self) -> Contraction:
        """Any number of pixels [pixels, channels] times weights in panels [channels, outputs], channels last."""
        g, group, width = self.geometry, self.kernel.k_group, self.columns
        pixels = math.prod(g.result)
        step = -(-g.channels // group) * group * width  # elements of a panel
        inner, outer = g.groups * g.channels, g.groups * g.outputs
        x, y = pixels * inner, pixels * outer
        panels = -(-g.outputs // width)
        views = (
            View(self.x, {"b0": x, "b1": g.channels, "m": inner, "k": 1}),
            View(self.w, {"b0": 0, "b1": panels * step, "k": width, "n": 1}, {"n": (width, step)}),
            View(self.y, {"b0": y, "b1": g.outputs, "m": outer, "n": 1}),
        )
        sizes = pixels, g.outputs, g.channels
        return matmul((g.batch, g.groups), sizes, views, self.kernel, None)

    def _block_of_pixels(self) -> int:
        """Pixels of a band: equally many, close to those of its rows; as the cost model says if they are dynamic."""
        g, rows = self.typical, self.blocking.m_block
        if g.is_dynamic:
            sizes = g.groups, math.prod(g.result), g.outputs, g.channels
            gemm = Gemm(*sizes, self.kernel, self.ctx.target, self.ctx.options.threads)
            return pick_blocking(gemm, self.blocking.tile).m_block
        pixels, wanted = math.prod(g.result), -(-g.result[0] // rows)
        bands = next(n for n in range(min(wanted, pixels), 0, -1) if pixels % n == 0)
        return pixels // bands

    @cached_property
    def by_pixel(self) -> bool:
        """Return whether the epilogue may index a pixel by its number alone."""
        others = [o for o in self.group.ops if o is not self.op]
        read = dict.fromkeys(x for one in others for x in one.inputs)
        return reads_by_pixel(self.output, [x for x in read if x in self.memory], others)


def reads_by_pixel(output: GraphTensor, reads: Sequence[GraphTensor], ops: Sequence[Op]) -> bool:
    """Return whether every epilogue operand has all pixels, in order, or one value for all."""
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
