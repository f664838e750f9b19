"""Loop nest of a direct convolution around the `brgemm` microkernel: no im2col matrix, no copy of the image.

    for each image, group, band of rows, group of panels (parallel):
      copy the rows of the image that the band needs, with their padding (unless read in place)
      for each panel of weights (as wide as the register tile):
        for each step of the sum (all of it, or a block of taps or channels that fits the cache):
          for each row of the band:
            y[row, panel] (+)= sum over taps of x[row at tap, channels] x w[tap, channels, panel]     one Brgemm
    the last step runs the epilogue on the accumulators.

Rows of the register tile are pixels, its columns outputs. The result is channels last, and so is the image, unless it
is plain with few channels (`convolution_band`). 16-bit floats that the CPU cannot multiply are converted: the image
while a band is copied, weights in registers. Limits: 2 vector multiply-adds per cycle; each row tile reads the panel
once, from L2 if it exceeds L1.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base.dims import bounds, ceil_quotient, is_known
from ...base.records import dataclass
from ...targets.isa import Microkernel, Target
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Allocate,
    Block,
    Buffer,
    Expr,
    For,
    Function,
    If,
    Let,
    LoopKind,
    PrefetchHint,
    Slice,
    Stmt,
    Store,
    Var,
)
from ..nest.epilogue import EpilogueValue, shifted, storing
from ..nest.problem import View
from ..nest.register_tile import RegisterTile
from ..nest.row_tiles import TileHeight
from ..schedule.convolution_blocking import FLAT_BANDS
from ..schedule.convolution_gemm import ConvolutionGemm
from ..schedule.convolution_geometry import ConvolutionGeometry
from ..schedule.gemm import worth_threads
from ..schedule.matmul_tile import MatmulBlocking, rows_for
from .convolution_band import BANDS, Band, ImageOperand, Step
from .local_sizes import LocalSizes


@dataclass(frozen=True)
class ConvolutionProblem:
    """Sizes, operands and the microkernel. `w` holds panels of the tile's columns: [outputs / columns][terms][columns],
    group by group; a microkernel that takes several channels at once has [terms / k_group][columns][k_group].

    The band determines the order of the terms (`convolution_band`): rows, columns, channels of the kernel, or rows,
    channels, columns for "planes", blocks of channels, rows, columns, channels for "blocks". `y` is channels last, its
    `channel` stride 1, or has its channels in blocks as wide as the tile.
    """

    geometry: ConvolutionGeometry
    x: ImageOperand
    w: Buffer
    y: ImageOperand
    band: str
    kernel: Microkernel


class ConvolutionTemplate:
    """Builds the loop nest for a blocking: `m_block` result rows per band, `k_block` terms per step.

    The epilogue gets the index (image, output, row, column), of a flat band (image, output, 0, pixel). Where height and
    width are dynamic, `problem` is in terms of `sizes`, which hold those of `whole`.
    """

    def __init__(
        self,
        problem: ConvolutionProblem,
        blocking: MatmulBlocking,
        target: Target,
        epilogue: EpilogueValue | None,
        whole: ConvolutionGeometry | None = None,
        sizes: LocalSizes | None = None,
    ) -> None:
        self.whole = whole or problem.geometry
        self.lets = sizes.lets if sizes else ()
        self.problem, self.geometry = problem, problem.geometry
        self.blocking = blocking
        self.target = target
        g, self.kernel = self.geometry, problem.kernel
        self.epilogue = storing(epilogue, self.kernel.accumulator, problem.y.buffer.dtype)
        self.taps = ConvolutionGemm(g, self.kernel, target)
        self.columns = self.taps.columns(blocking.tile)
        self.flat = problem.band in FLAT_BANDS
        rows = blocking.m_block if g.is_dynamic else min(blocking.m_block, g.result[0])
        self.band: Band = BANDS[problem.band](
            g, problem.x, rows, self.taps.copied, self.kernel.k_group
        )
        work = bounds(g.multiply_adds)[1]
        self.kind: LoopKind = "parallel" if worth_threads(work, target) else "serial"
        self.row = self.columns * self.kernel.k_group  # elements of a row of a panel
        self.image, self.group, self.first = Var("n"), Var("g"), Var("yb")

    def function(self, name: str, params: tuple[Buffer, ...], note: str) -> Function:
        """The whole convolution as a function."""
        g = self.whole
        bands = ceil_quotient(g.result[0], self.band.rows)
        body = self._panel_groups()
        for var, size in ((self.first, bands), (self.group, g.groups), (self.image, g.batch)):
            body = For(var, t.as_expr(0), t.as_expr(size), body, self.kind)
        return Function(name, params, Block((body,)), note)

    def _panel_groups(self) -> Stmt:
        full, rest = divmod(self.geometry.outputs, self.columns)
        panels = full + bool(rest)
        size = -(-panels // self.blocking.n_groups)
        groups = -(-panels // size)
        if groups == 1:
            return self._task(t.as_expr(0), t.as_expr(full), None)
        group = Var("ng")
        begin = group * size
        end = t.minimum((group + 1) * size, full)
        task = self._task(begin, end, t.equal(group, groups - 1))
        return For(group, t.as_expr(0), t.as_expr(groups), task, self.kind)

    def _task(self, begin: Expr, end: Expr, is_last: Expr | None) -> Stmt:
        """One band over the panels [begin, end), and over the narrow last panel if this task has it."""
        x, y = self.problem.x, self.first * self.band.rows
        offset = self.image * x.image + self.group * (x.channel * self.geometry.channels)
        body: list[Stmt] = [
            *self.lets,
            *([Allocate(self.band.scratch)] if self.band.scratch else []),
        ]
        body += self.band.pack(offset, y)
        full, rest = divmod(self.geometry.outputs, self.columns)
        panel = Var("nb")
        body.append(For(panel, begin, end, self._panel(offset, y, panel, self.columns)))
        if rest:
            narrow = self._panel(offset, y, t.as_expr(full), rest)
            body.append(If(is_last, narrow) if is_last is not None else narrow)
        return Block(tuple(body))

    def _panel(self, offset: Expr, y: Expr, panel: Expr, columns: int) -> Stmt:
        """The whole sum of one panel for all rows of the band."""
        steps, lines = self.band.steps(self.blocking.k_block), self._lines(y)
        if len(steps) > 1 and self.problem.y.buffer.dtype != self.kernel.accumulator:
            return self._through_sums(offset, y, panel, columns, steps)
        body = []
        for number, step in enumerate(steps):
            line = Var("line")
            is_last = number == len(steps) - 1
            tiles = self._tiles(offset, y, line, panel, columns, step, number > 0, is_last)
            body.append(For(line, t.as_expr(0), lines, tiles.statement()))
        return Block(tuple(body))

    def _through_sums(
        self, offset: Expr, y: Expr, panel: Expr, columns: int, steps: Sequence[Step]
    ) -> Stmt:
        """Line by line, as the result cannot hold sums: they wait in a local buffer."""
        line, pixels = Var("line"), self._pixels
        sums = Buffer("sums", self.kernel.accumulator, (pixels * self.columns,), "local")
        body: list[Stmt] = [Allocate(sums)]
        for number, step in enumerate(steps):
            tiles = self._tiles(offset, y, line, panel, columns, step, number > 0, False)
            body.append(tiles.changed(c=View(sums, {"m": self.columns})).statement())
        body.append(self._finish(y + line, panel, columns, sums))
        return For(line, t.as_expr(0), self._lines(y), Block(tuple(body)))

    def _finish(self, row: Expr, panel: Expr, columns: int, sums: Buffer) -> Stmt:
        """Apply the epilogue to the finished accumulators of a line, and store them from the local buffer to
        the result."""
        assert self.epilogue is not None
        pixel, j, out = Var("fp"), Var("fc"), self.problem.y
        sum_ = Var("sum", sums.dtype)
        output = self.group * self.geometry.outputs + panel * self.columns
        lets, value = self._indexed(row)((pixel, output + j), sum_)
        offset = self._line_of_result(row, output) + (pixel * out.column + j)
        first = Let(sum_, sums[pixel * self.columns + j])
        store = Block((first, *lets, Store(out.buffer, (offset,), value)))
        inner = For(j, t.as_expr(0), t.as_expr(columns), store, "vector")
        return For(pixel, t.as_expr(0), t.as_expr(self._pixels), inner)

    @property
    def _pixels(self) -> int | Expr:
        """Pixels of a line; an expression if they are dynamic."""
        columns = self.geometry.result[1]
        return (
            columns * (self.band.rows if self.flat else 1)
            if is_known(columns)
            else t.as_expr(columns)
        )

    def _line_of_result(self, row: Expr, output: Expr) -> Expr:
        """Return the offset of the first pixel of a row of the result, from `output` on."""
        out = self.problem.y
        line = self.image * out.image + row * out.row
        return line + output * out.channel

    def _lines(self, y: Expr) -> Expr:
        """The number of lines of the band at row `y`; the last band has fewer."""
        rows = self.geometry.result[0]
        if self.flat:
            return t.as_expr(1)
        if is_known(rows) and rows % self.band.rows == 0:
            return t.as_expr(self.band.rows)
        return t.minimum(t.as_expr(rows) - y, self.band.rows)

    def _tiles(
        self, offset: Expr, y: Expr, line: Expr, panel: Expr, columns: int, step: Step,
        accumulate: bool, is_last: bool,
    ) -> RegisterTile:  # fmt: skip
        """The register tiles of a line of pixels, for one step of the sum."""
        g, out, row = self.geometry, self.problem.y, y + line
        output = self.group * g.outputs + panel * self.columns
        band = self.band
        start = band.line(offset, y, line)
        below = {"m": band.pixel, "k": band.term, "r": step.a_batch}
        a = View(start.buffer, below, base=start.indices[0] + step.a)
        weights = self._weights(panel, step)
        b = View(
            weights.buffer, {"k": self.columns, "r": step.b_batch * self.row},
            {"n": (self.columns, 0)}, weights.indices[0],
        )  # fmt: skip
        c = View(out.buffer, {"m": out.column}, base=self._line_of_result(row, output))
        epilogue = None
        if is_last and self.epilogue:
            epilogue = shifted(self._indexed(row), (), t.ZERO, output)
        pixels = self._pixels
        height = rows_for(columns, self.blocking.tile, self.target, self.kernel)
        height = min(pixels, height) if isinstance(pixels, int) else height
        return RegisterTile(
            a, b, c, pixels, columns, step.k, self.kernel, TileHeight(height), step.batch,
            accumulate, epilogue, self._prefetch_hints(panel, line, step),
        )  # fmt: skip

    def _prefetch_hints(self, panel: Expr, line: Expr, step: Step) -> tuple[PrefetchHint, ...]:
        """Prefetch hints for the line's share of the next panel, if the weights do not fit in L2."""
        g = self.geometry
        if g.is_dynamic or self.taps.panel_bytes * g.outputs <= self.target.l2_bytes // 2:
            return ()
        lines = 1 if self.flat else self.band.rows
        part = -(-step.k * step.batch * self.columns // lines)
        weights = self._weights(panel + 1, step)
        offset = weights.indices[0] + line * part
        return (PrefetchHint(Slice(weights.buffer, (offset,)), part),)

    def _weights(self, panel: Expr, step: Step) -> Slice:
        """The rows of a panel that a step multiplies by."""
        g = self.geometry
        panels = -(-g.outputs // self.columns)
        number = self.group * panels + panel
        offset = number * (self.taps.steps * self.row) + step.b * self.row
        return Slice(self.problem.w, (offset,))

    def _indexed(self, row: Expr) -> EpilogueValue:
        """The epilogue of a line, whose index is (pixel, output)."""
        epilogue, image = self.epilogue, self.image
        assert epilogue is not None
        return lambda index, acc: epilogue((image, index[1], row, index[0]), acc)
