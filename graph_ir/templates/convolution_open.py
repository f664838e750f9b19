"""Direct convolutions of images whose height and width are known when they run, channels last and without padding.

The loop nest of `convolution` over the image in place: how many bands there are is computed from the sizes, and the
pixels of a line are cut into register tiles as the rows of an open product are (`row_tiles`).
"""

from __future__ import annotations

from ...base.dims import ceil_quotient
from ...base.target import Target
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Block, Brgemm, Buffer, Expr, For, Function, Slice, Stmt
from ...tensor_ir.sizes import number_or_expr
from ..nest.epilogue import EpilogueValue, make_epilogue
from ..nest.row_tiles import row_tiles
from ..schedule.convolution_geometry import ConvolutionGeometry
from ..schedule.matmul_tile import MatmulBlocking, rows_for
from .convolution import ConvolutionProblem, ConvolutionTemplate
from .convolution_band import Step
from .local_sizes import LocalSizes


class OpenConvolutionTemplate(ConvolutionTemplate):
    """`problem` is in terms of `sizes`, which hold those of `whole`, the geometry in terms of the model's sizes."""

    def __init__(
        self,
        problem: ConvolutionProblem,
        blocking: MatmulBlocking,
        target: Target,
        epilogue: EpilogueValue | None,
        whole: ConvolutionGeometry,
        sizes: LocalSizes,
    ) -> None:
        super().__init__(problem, blocking, target, epilogue)
        self.whole, self.sizes = whole, sizes

    def function(self, name: str, params: tuple[Buffer, ...], note: str) -> Function:
        """The whole convolution as a function."""
        g = self.whole
        bands = ceil_quotient(g.result[0], self.band.rows)
        body: Stmt = self._panel_groups()
        for var, count in ((self.first, bands), (self.group, g.groups), (self.image, g.batch)):
            body = For(var, t.as_expr(0), t.as_expr(count), body, self.kind)
        return Function(name, params, Block((body,)), note)

    def _task(self, begin: Expr, end: Expr, is_last: Expr | None) -> Stmt:
        return Block((*self.sizes.lets, super()._task(begin, end, is_last)))

    def _lines(self, y: Expr) -> Expr:
        return t.minimum(self.geometry.result[0] - y, self.band.rows)

    def _product(
        self, offset: Expr, y: Expr, line: Expr, panel: Expr, columns: int, step: Step,
        accumulate: bool, is_last: bool,
    ) -> Stmt:  # fmt: skip
        g, out = self.geometry, self.problem.y
        row, output = y + line, panel * self.columns
        output = self.group * g.outputs + output
        start = self.band.line(offset, y, line)
        first_a, first_c = start.indices[0] + step.a, self._line_of_result(row, output)
        height = rows_for(columns, self.blocking.tile, self.target, self.kernel)
        below = number_or_expr(step.a_batch)

        def tile(at: Expr, count: int) -> Brgemm:
            a = Slice(start.buffer, (first_a + at * self.band.pixel,))
            c = Slice(out.buffer, (first_c + at * out.column,))
            epilogue = None
            if is_last and self.epilogue:
                index = self._indexed(row)
                epilogue = make_epilogue(index, (), at, output, self.kernel.accumulator)
            return Brgemm(
                c, a, self._weights(panel, step), count, columns, step.k, step.batch, below,
                self.band.pixel, self.band.term, step.b_batch * self.row, self.row, out.column,
                accumulate, self.columns, epilogue, height, (), self.kernel.k_group,
            )  # fmt: skip

        return row_tiles(t.as_expr(g.result[1]), height, tile)
