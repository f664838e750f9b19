"""Direct convolutions of plain images with plain results: weights times patches of the image, a band of rows at a time.

    for each image, band of rows (parallel), group:
      patches[term][pixel] = the elements that the windows of the band see, zeros in the padding
      for each panel of pixels, as wide as the register tile:
        y[outputs, panel] = epilogue(w[outputs, terms] x patches[terms, panel])

What im2col writes for the whole image, in the cache of the core that multiplies it. Rows of the register tile are
outputs, its columns pixels, so that nothing is put in another order; each element is copied once per element of the
window, which pays off where few channels meet many outputs: the first layer of a network.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...targets.isa import Microkernel, Target
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Function, LoopKind
from ..nest.convolution_geometry import ConvolutionGeometry
from ..nest.epilogue import EpilogueValue, storing
from ..nest.lower import Lowering
from ..nest.problem import View, matmul
from ..schedule.convolution_patches import patch_stride
from ..schedule.cost import MatmulBlocking, worth_threads
from ..schedule.matmul_steps import inner_nest


class PatchTemplate:
    """Builds the loop nest for a blocking: `m_block` rows of results per band, all terms at once.

    The weights are plain [groups, outputs, terms], terms in the order channels, rows, columns. The epilogue
    gets the index (image, output, 0, pixel).
    """

    def __init__(
        self,
        geometry: ConvolutionGeometry,
        operands: tuple[View, Buffer, View],
        kernel: Microkernel,
        blocking: MatmulBlocking,
        target: Target,
        epilogue: EpilogueValue | None,
    ) -> None:
        (self.x, self.w, self.y), self.kernel, self.g = operands, kernel, geometry
        self.tile, self.target = blocking.tile, target
        self.rows = min(blocking.m_block, self.g.result[0])
        self.stride = patch_stride(self.rows * self.g.result[1])
        self.epilogue = storing(epilogue, kernel.accumulator, self.y.buffer.dtype)
        parallel = worth_threads(self.g.multiply_adds, target)
        self.kind: LoopKind = "parallel" if parallel else "serial"

    def function(self, name: str, params: tuple[Buffer, ...], note: str) -> Function:
        """The whole convolution as a function."""
        self.b = b = t.LoopBuilder(param.name for param in params)
        g = self.g
        with (
            b.loop("image", 0, g.batch, self.kind) as image,
            b.loop("band", 0, -(-g.result[0] // self.rows), self.kind) as band,
            b.loop("group", 0, g.groups) as group,
        ):
            for rows in b.tile_sizes(band, g.result[0], self.rows):
                self._band(image, band, group, rows)
        return b.function(name, params, note)

    def _band(self, image: Expr, band: Expr, group: Expr, rows: int) -> None:
        """`rows` rows of results from the first of a band on."""
        b, first = self.b, band * self.rows
        patches = b.allocate("patches", self.kernel.a, (self.g.terms * self.stride,))
        self._copy(patches, image, group, first, rows)
        y, terms, pixels = self.y, self.g.terms, rows * self.g.result[1]
        output = group * self.g.outputs
        start = b.let("pixel", first * self.g.result[1])
        views = (
            View(self.w, {"m": terms, "k": 1}, base=output * terms),
            View(patches, {"k": self.stride, "n": 1}),
            View(
                y.buffer,
                {"m": y.step("c"), "n": 1},
                base=image * y.step("b0") + output * y.step("c") + start,
            ),
        )
        epilogue = self.epilogue and self._shifted(self.epilogue, (image, output, start))
        sizes = self.g.outputs, pixels, terms
        problem = matmul((), sizes, views, self.kernel, epilogue)
        nest = inner_nest("band", problem, self.tile, self.target)
        b.emit(Lowering(nest, self.target).statement())

    @staticmethod
    def _shifted(epilogue: EpilogueValue, first: tuple[Expr, Expr, Expr]) -> EpilogueValue:
        """Return the epilogue of the matmul of a band, which begins at (image, output, pixel)."""
        image, output, pixel = first
        return lambda at, acc: epilogue((image, output + at[0], t.ZERO, pixel + at[1]), acc)

    # image -> patches

    def _copy(self, patches: Buffer, image: Expr, group: Expr, first: Expr, rows: int) -> None:
        """The element of each window that a term multiplies, pixel by pixel: of each channel and row of the window."""
        b, g, x = self.b, self.g, self.x
        channels = group * g.channels * x.step("c")
        plane = image * x.step("b0") + channels
        with (
            b.loop("c", 0, g.channels) as c,
            b.loop("tap", 0, g.kernel[0]) as tap,
            b.loop("row", 0, rows) as row,
        ):
            line = (first + row) * g.strides[0] + tap * g.dilations[0] - g.before[0]
            line = b.let("line", line)
            term = (c * g.kernel[0] + tap) * g.kernel[1]
            start_offset = b.let("position", term * self.stride + row * g.result[1])
            start = plane + c * x.step("c") + line * x.step("iy")
            if not g.before[0] and g.stays_inside(0):
                self._lines(patches, start_offset, start)
                return
            inside = (line >= 0) & (line < g.image[0])
            with b.when(inside):
                self._lines(patches, start_offset, start)
            with b.otherwise(), b.loop("column", 0, g.kernel[1]) as column:
                self._zero(patches, start_offset + column * self.stride, 0, g.result[1])

    def _lines(self, patches: Buffer, start_offset: Expr, start: Expr) -> None:
        """The columns of the window in a row of the image, from `start` on."""
        b, g, x = self.b, self.g, self.x
        for column, low, high in self._columns():
            to = start_offset + column * self.stride
            self._zero(patches, to, 0, low)
            offset = column * g.dilations[1] - g.before[1]
            with b.loop("p", low, high, "vector") as p:
                pixel = p * g.strides[1] + offset
                element = x.buffer[start + pixel * x.step("ix")]
                b.store(patches, (to + p,), element)
            self._zero(patches, to, high, g.result[1])

    def _columns(self) -> Iterator[tuple[int, int, int]]:
        """(column of the window, first pixel of a row that sees the image there, the pixel after the last)."""
        g = self.g
        for column in range(g.kernel[1]):
            offset, step = column * g.dilations[1] - g.before[1], g.strides[1]
            low = min(max(-(offset // step), 0), g.result[1])
            high = min(max(-((offset - g.image[1]) // step), low), g.result[1])
            yield column, low, high

    def _zero(self, patches: Buffer, start_offset: Expr, low: int, high: int) -> None:
        if low < high:
            with self.b.loop("p", low, high, "vector") as p:
                self.b.store(patches, (start_offset + p,), t.const(0, patches.dtype))
