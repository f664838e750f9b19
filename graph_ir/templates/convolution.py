"""Loop nest of a direct f32 convolution around the `brgemm` microkernel: no im2col matrix, no copy of the image.

    for each image, group, band of rows, group of panels (parallel):
      copy the rows of the image that the band needs, with their padding (unless read in place)
      for each panel of weights (as wide as the register tile):
        for each step of the sum (all of it, or a block of taps or channels that fits the cache):
          for each row of the band:
            y[row, panel] (+)= sum over taps of x[row at tap, channels] x w[tap, channels, panel]     one Brgemm
    the last step runs the epilogue on the accumulators.

Rows of the register tile are pixels, its columns outputs. The result is channels last, and so is the image, unless it
is plain with few channels (`convolution_band`). Limits: 2 vector multiply-adds per cycle; each row tile reads the panel
once, from L2 if it exceeds L1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...base.contraction import f32_kernel
from ...base.dtypes import F32
from ...base.target import Target
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Allocate,
    Block,
    Brgemm,
    Buffer,
    Expr,
    For,
    Function,
    If,
    LoopKind,
    PrefetchHint,
    Slice,
    Stmt,
    Var,
)
from ..schedule.convolution_blocking import FLAT_BANDS
from ..schedule.convolution_geometry import ConvolutionGeometry
from ..schedule.matmul_tile import MatmulBlocking, rows_for
from ..schedule.product import worth_threads
from .convolution_band import BANDS, Band, ImageOperand, Step
from .matmul import EpilogueValue, make_epilogue

WeightRow = Callable[[Expr, int], Expr]


@dataclass(frozen=True)
class ConvolutionProblem:
    """Sizes and operands. `w` holds panels of the tile's columns: [outputs / columns][terms][columns], group by group.

    The band determines the order of the terms (`convolution_band`): rows, columns, channels of the kernel, or rows,
    channels, columns for "planes". `y` is channels last: its `channel` stride is 1.
    """

    geometry: ConvolutionGeometry
    x: ImageOperand
    w: Buffer
    y: ImageOperand
    band: str


class ConvolutionTemplate:
    """Builds the loop nest for a blocking: `m_block` result rows per band, `k_block` terms per step.

    The epilogue gets the index (image, output, row, column), of a flat band (image, output, 0, pixel).
    """

    def __init__(
        self,
        problem: ConvolutionProblem,
        blocking: MatmulBlocking,
        target: Target,
        epilogue: EpilogueValue | None,
    ) -> None:
        self.problem, self.geometry = problem, problem.geometry
        self.blocking = blocking
        self.target = target
        self.epilogue = epilogue
        self.columns = blocking.tile.columns(target)
        g = self.geometry
        self.flat = problem.band in FLAT_BANDS
        self.band: Band = BANDS[problem.band](g, problem.x, min(blocking.m_block, g.result[0]))
        self.kind: LoopKind = "parallel" if worth_threads(g.multiply_adds, target) else "serial"
        self.image, self.group, self.first = Var("n"), Var("g"), Var("yb")

    def function(self, name: str, params: tuple[Buffer, ...], note: str) -> Function:
        """The whole convolution as a function."""
        g = self.geometry
        bands = -(-g.result[0] // self.band.rows)
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
        begin = t.mul(group, size)
        end = t.minimum(t.mul(t.add(group, 1), size), full)
        task = self._task(begin, end, t.compare("eq", group, groups - 1))
        return For(group, t.as_expr(0), t.as_expr(groups), task, self.kind)

    def _task(self, begin: Expr, end: Expr, is_last: Expr | None) -> Stmt:
        """One band over the panels [begin, end), and over the narrow last panel if this task has it."""
        x, y = self.problem.x, t.mul(self.first, self.band.rows)
        offset = t.add(
            t.mul(self.image, x.image), t.mul(self.group, x.channel * self.geometry.channels)
        )
        body: list[Stmt] = [Allocate(self.band.scratch)] if self.band.scratch else []
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
        steps = self.band.steps(self.blocking.k_block)
        lines = self._lines(y)
        body = []
        for number, step in enumerate(steps):
            line = Var("line")
            is_last = number == len(steps) - 1
            product = self._product(offset, y, line, panel, columns, step, number > 0, is_last)
            body.append(For(line, t.as_expr(0), lines, product))
        return Block(tuple(body))

    def _lines(self, y: Expr) -> Expr:
        """The number of lines of the band at row `y`; the last band has fewer."""
        rows = self.geometry.result[0]
        if self.flat:
            return t.as_expr(1)
        if rows % self.band.rows == 0:
            return t.as_expr(self.band.rows)
        return t.minimum(t.sub(t.as_expr(rows), y), self.band.rows)

    def _product(
        self, offset: Expr, y: Expr, line: Expr, panel: Expr, columns: int, step: Step,
        accumulate: bool, is_last: bool,
    ) -> Brgemm:  # fmt: skip
        g, out = self.geometry, self.problem.y
        pixels = g.result[1] * (self.band.rows if self.flat else 1)
        output = t.mul(panel, self.columns)
        row = t.add(y, line)
        start = self.band.line(offset, y, line)
        a = Slice(start.buffer, (t.add(start.indices[0], step.a),))
        place = t.add(t.mul(self.image, out.image), t.mul(row, out.row))
        place = t.add(place, t.add(t.mul(self.group, g.outputs), output))
        epilogue = None
        if is_last and self.epilogue:
            first = t.add(t.mul(self.group, g.outputs), output)
            epilogue = make_epilogue(self._indexed(row), (), t.as_expr(0), first)
        height = rows_for(columns, self.blocking.tile, self.target, f32_kernel(self.target))
        return Brgemm(
            Slice(out.buffer, (place,)), a, self._weights(panel, step), pixels, columns, step.k,
            step.batch, step.a_batch, self.band.pixel, self.band.term, step.b_batch * self.columns,
            self.columns, out.column, accumulate, self.columns, epilogue,
            min(pixels, height), self._prefetch_hints(panel, line, step),
        )  # fmt: skip

    def _prefetch_hints(self, panel: Expr, line: Expr, step: Step) -> tuple[PrefetchHint, ...]:
        """Prefetch hints for the line's share of the next panel, if the weights do not fit in L2."""
        g = self.geometry
        if g.terms * g.outputs * F32.size <= self.target.l2_bytes // 2:
            return ()
        lines = 1 if self.flat else self.band.rows
        part = -(-step.k * step.batch * self.columns // lines)
        weights = self._weights(t.add(panel, 1), step)
        place = t.add(weights.indices[0], t.mul(line, part))
        return (PrefetchHint(Slice(weights.buffer, (place,)), part),)

    def _weights(self, panel: Expr, step: Step) -> Slice:
        """The rows of a panel that a step multiplies by."""
        g = self.geometry
        panels = -(-g.outputs // self.columns)
        number = t.add(t.mul(self.group, panels), panel)
        place = t.add(t.mul(number, g.terms * self.columns), step.b * self.columns)
        return Slice(self.problem.w, (place,))

    def _indexed(self, row: Expr) -> EpilogueValue:
        """The epilogue of a line, whose index is (pixel, output)."""
        epilogue, image = self.epilogue, self.image
        assert epilogue is not None
        return lambda index, acc: epilogue((image, index[1], row, index[0]), acc)
