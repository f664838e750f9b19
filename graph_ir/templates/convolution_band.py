"""Sources from which a direct convolution reads the image: in place, or from a copy of a band of rows with its padding.

All provide the microkernel with rows of A, one result pixel each, `pixel` elements apart, and with the sum over the
terms as a few steps of equal strides. A copy costs one load and store for each element; every element is then
multiplied by all outputs of its group and, except in `Im2colBand`, by every tap of the kernel.

    ImageBand    image channels last, no padding           nothing is copied
    RowBand      image channels last                       [rows][columns + padding][channels]
    BlockBand    image with channels in blocks             [rows][blocks][columns + padding][channels of a block]
    PlaneBand    image plain, for few channels             [rows][channels][columns + padding]
    Im2colBand   image channels last, for narrow results   [pixels][kernel rows][kernel columns][channels]
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base.dtypes import F32, DType
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Block, Buffer, Expr, For, If, LoopKind, Slice, Stmt, Store, Var
from ..schedule.convolution_geometry import ConvolutionGeometry


@dataclass(frozen=True)
class ImageOperand:
    """An image in a flat buffer: element (n, c, y, x) is at n * image + c * channel + y * row + x * column.

    With channels in blocks of `block`, c is the first of one, and the others follow it.
    """

    buffer: Buffer
    image: int
    row: int
    column: int
    channel: int
    block: int = 0


@dataclass(frozen=True)
class Step:
    """One microkernel of the sum: `batch` runs of `k` terms.

    Run i begins `a + i * a_batch` elements after the pixel's address and at row `b + i * b_batch` of the weight panel,
    whose rows are groups of terms.
    """

    a: int
    b: int
    k: int
    batch: int
    a_batch: int
    b_batch: int


class ImageBand:
    """The image itself; with copies of rows, what `RowBand` adds.

    Copies are of `dtype`. Terms are multiplied in groups of `group` neighboring channels of a tap.
    """

    def __init__(
        self,
        geometry: ConvolutionGeometry,
        x: ImageOperand,
        rows: int,
        dtype: DType = F32,
        group: int = 1,
    ) -> None:
        self.geometry = geometry
        self.x = x
        self.rows = rows
        self.dtype = dtype
        self.group = group
        self.row, self.tap = x.row, x.column
        self.term = 1
        self.channels = geometry.channels  # of a tap, as they are multiplied
        self.scratch: Buffer | None = None

    @property
    def pixel(self) -> int:
        """Distance of the pixels of a line."""
        return self.tap * self.geometry.strides[1]

    def pack(self, image: Expr, y: Expr) -> list[Stmt]:
        """Copy the part of the image at offset `image` that the rows from `y` on need."""
        return []

    def line(self, image: Expr, y: Expr, number: Expr) -> Slice:
        """The first pixel of row `number` of the band that begins at row `y` of the result."""
        offset = (y + number) * (self.geometry.strides[0] * self.row)
        return Slice(self.x.buffer, (image + offset,))

    def steps(self, k_block: int) -> list[Step]:
        """The sum in steps of about `k_block` terms."""
        (kernel_rows, kernel_columns), channels = self.geometry.kernel, self.channels
        k_block = k_block * channels // self.geometry.channels
        below = self.geometry.dilations[0] * self.row
        beside = self.geometry.dilations[1] * self.tap
        run, depth = kernel_columns * channels, -(-channels // self.group)
        rows = kernel_columns * depth  # of the panel, for a row of the kernel
        is_even = beside == channels and channels % self.group == 0
        if kernel_columns == 1 or is_even:
            if k_block >= run:
                at_once = min(kernel_rows, k_block // run)
                return [
                    Step(i * below, i * rows, run, min(at_once, kernel_rows - i), below, rows)
                    for i in range(0, kernel_rows, at_once)
                ]
            block = self._whole_groups(k_block)
            return [
                Step(i * below + k, i * rows + k // self.group, min(block, run - k), 1, 0, 0)
                for i in range(kernel_rows)
                for k in range(0, run, block)
            ]
        block = self._whole_groups(min(channels, k_block // kernel_columns))
        return [
            Step(i * below + c, i * rows + c // self.group, min(block, channels - c), kernel_columns, beside, depth)
            for i in range(kernel_rows)
            for c in range(0, channels, block)
        ]  # fmt: skip

    def _whole_groups(self, terms: int) -> int:
        """As many terms or fewer, in whole groups, one at least."""
        return max(self.group, terms // self.group * self.group)


class RowBand(ImageBand):
    """A copy of the rows a band needs, with their padding, channels last, in whole groups."""

    def __init__(
        self,
        geometry: ConvolutionGeometry,
        x: ImageOperand,
        rows: int,
        dtype: DType = F32,
        group: int = 1,
    ) -> None:
        super().__init__(geometry, x, rows, dtype, group)
        self.channels = self.tap = -(-geometry.channels // group) * group
        self.row = geometry.span(1, geometry.result[1]) * self.tap
        self.scratch = Buffer("band", dtype, (geometry.span(0, rows) * self.row,), "local")

    def pack(self, image: Expr, y: Expr) -> list[Stmt]:
        """Row by row: zeros if the row is outside the image."""
        g, row = self.geometry, Var("pr")
        source = y * g.strides[0] + row - g.before[0]
        from_ = image + source * self.x.row
        inside = self._row_inside(row * self.row, from_)
        outside = Block(tuple(_zero(self._scratch(), row * self.row, self.row)))
        copy = _where_inside(source, g.image[0], inside, outside)
        return [_loop(row, g.span(0, self.rows), copy)]

    def _row_inside(self, start: Expr, from_: Expr) -> Stmt:
        """The copy, from `start` on, of the row at `from_`: zeros, the row, zeros."""
        g, band = self.geometry, self._scratch()
        left, width, right = _columns(g)
        if self.x.column == self.tap == g.channels:
            copy = [_copy(band, start + left * self.tap, self.x.buffer, from_, width * self.tap)]
        else:
            p, channels = Var("pp"), g.channels
            to = start + (p + left) * self.tap
            pixel = _copy(band, to, self.x.buffer, from_ + p * self.x.column, channels)
            rest = _zero(band, to + channels, self.tap - channels)
            copy = [_loop(p, width, Block((pixel, *rest)) if rest else pixel)]
        end = start + (left + width) * self.tap
        return Block(
            (*_zero(band, start, left * self.tap), *copy, *_zero(band, end, right * self.tap))
        )

    def _lines_inside(
        self,
        start: Expr,
        from_: Expr,
        sizes: tuple[int, int, int],
        steps: tuple[int, int],
        count: int,
    ) -> Stmt:
        """The same of `count` lines, of which `sizes` are the zeros, the elements and the zeros; `steps`: from one line
        to the next, of the copy and of the image."""
        band, c, (left, width, right) = self._scratch(), Var("pc"), sizes
        start = start + c * steps[0]
        line = [
            *_zero(band, start, left),
            _copy(band, start + left, self.x.buffer, from_ + c * steps[1], width),
            *_zero(band, start + (left + width), right),
        ]
        return _loop(c, count, Block(tuple(line)))

    def line(self, image: Expr, y: Expr, number: Expr) -> Slice:
        """The row of the copy."""
        return Slice(self._scratch(), (number * (self.geometry.strides[0] * self.row),))

    def _scratch(self) -> Buffer:
        assert self.scratch is not None
        return self.scratch


class PlaneBand(RowBand):
    """A copy of the rows a band needs of a plain image: a line of each channel, then the next row."""

    def __init__(
        self,
        geometry: ConvolutionGeometry,
        x: ImageOperand,
        rows: int,
        dtype: DType = F32,
        group: int = 1,
    ) -> None:
        super().__init__(geometry, x, rows, dtype, group)
        self.tap = 1
        self.columns = geometry.span(1, geometry.result[1])
        self.term = geometry.dilations[1]

    def _row_inside(self, start: Expr, from_: Expr) -> Stmt:
        """A line of each channel."""
        steps = (self.columns, self.x.channel)
        return self._lines_inside(
            start, from_, _columns(self.geometry), steps, self.geometry.channels
        )

    def steps(self, k_block: int) -> list[Step]:
        """Runs of one line of the kernel, batched over all channels and over as many rows as have a common stride."""
        (rows, columns), channels = self.geometry.kernel, self.geometry.channels
        below = self.geometry.dilations[0] * self.row
        at_once = min(rows, max(1, k_block // (columns * channels)))
        if self.geometry.dilations[0] > 1:
            at_once = 1
        return [
            Step(i * below, i * columns * channels, columns, min(at_once, rows - i) * channels, self.columns, columns)
            for i in range(0, rows, at_once)
        ]  # fmt: skip


class BlockBand(RowBand):
    """A copy of the rows a band needs, with their padding, of an image with channels in blocks: of each row the line of
    one block, then that of the next."""

    def __init__(
        self,
        geometry: ConvolutionGeometry,
        x: ImageOperand,
        rows: int,
        dtype: DType = F32,
        group: int = 1,
    ) -> None:
        super().__init__(geometry, x, rows, dtype, group)
        self.tap = x.block
        self.line_of_block = geometry.span(1, geometry.result[1]) * x.block

    def _row_inside(self, start: Expr, from_: Expr) -> Stmt:
        """A line of each block of channels, as they lie in memory."""
        left, width, right = (count * self.tap for count in _columns(self.geometry))
        steps = (self.line_of_block, self.x.block * self.x.channel)
        count = self.geometry.channels // self.tap
        return self._lines_inside(start, from_, (left, width, right), steps, count)

    def steps(self, k_block: int) -> list[Step]:
        """Tap by tap, batched over as many blocks as a step may have; weights lie block by block, then tap by tap."""
        g, tap = self.geometry, self.tap
        (rows, columns), blocks = g.kernel, self.channels // tap
        below, beside = g.dilations[0] * self.row, g.dilations[1] * tap
        at_once, size = min(blocks, max(1, k_block // tap)), rows * columns * tap
        return [
            Step(
                i * below + j * beside + first * self.line_of_block,
                first * size + (i * columns + j) * tap,
                tap,
                min(at_once, blocks - first),
                self.line_of_block,
                size,
            )
            for i in range(rows)
            for j in range(columns)
            for first in range(0, blocks, at_once)
        ]


class Im2colBand(ImageBand):
    """im2col of a band: all terms of a pixel are contiguous. For results too narrow to fill a register tile by rows."""

    def __init__(
        self,
        geometry: ConvolutionGeometry,
        x: ImageOperand,
        rows: int,
        dtype: DType = F32,
        group: int = 1,
    ) -> None:
        super().__init__(geometry, x, rows, dtype, group)
        self.scratch = Buffer("band", dtype, (rows * geometry.result[1] * geometry.terms,), "local")

    @property
    def pixel(self) -> int:
        """Distance of the pixels of a line."""
        return self.geometry.terms

    def pack(self, image: Expr, y: Expr) -> list[Stmt]:
        """Tap by tap: the channels of the input pixel, zeros where it is outside the image."""
        g = self.geometry
        assert self.scratch is not None
        index = [Var(name) for name in ("py", "px", "pi", "pj")]
        sizes = (self.rows, g.result[1], *g.kernel)
        first = index[0] + y
        offset = [
            at * g.strides[axis] + tap * g.dilations[axis] - g.before[axis]
            for axis, (at, tap) in enumerate(((first, index[2]), (index[1], index[3])))
        ]
        to: Expr = t.as_expr(0)
        for var, size in zip(index, sizes, strict=True):
            to = to * size + var
        to = to * g.channels
        from_ = offset[0] * self.x.row + offset[1] * self.x.column
        body: Stmt = _copy(self.scratch, to, self.x.buffer, image + from_, g.channels)
        if g.is_padded:
            for axis in (1, 0):
                outside = Block(tuple(_zero(self.scratch, to, g.channels)))
                body = _where_inside(offset[axis], g.image[axis], body, outside)
        for var, size in reversed(list(zip(index, sizes, strict=True))):
            body = _loop(var, size, body)
        return [body]

    def line(self, image: Expr, y: Expr, number: Expr) -> Slice:
        """The first pixel: a band is one line."""
        assert self.scratch is not None
        return Slice(self.scratch, (t.as_expr(0),))

    def steps(self, k_block: int) -> list[Step]:
        """Runs of `k_block` terms."""
        terms, block = self.geometry.terms, self._whole_groups(k_block)
        return [
            Step(k, k // self.group, min(block, terms - k), 1, 0, 0) for k in range(0, terms, block)
        ]


Band = ImageBand | RowBand | BlockBand | PlaneBand | Im2colBand
BANDS: dict[str, type[ImageBand]] = {
    "image": ImageBand,
    "rows": RowBand,
    "blocks": BlockBand,
    "planes": PlaneBand,
    "im2col": Im2colBand,
}


def _columns(g: ConvolutionGeometry) -> tuple[int, int, int]:
    """The columns of a padded row: zeros before the image, columns of the image, zeros after it."""
    columns = g.span(1, g.result[1])
    left = min(g.before[1], columns)
    width = max(0, min(g.image[1], columns - left))
    return left, width, columns - left - width


def _where_inside(offset: Expr, size: int, inside: Stmt, outside: Stmt) -> Stmt:
    behind = If(offset < size, inside, outside)
    return If(offset >= 0, behind, outside)


def _copy(to: Buffer, start: Expr, source: Buffer, from_: Expr, count: int) -> Stmt:
    i = Var("pe")
    value = t.cast(source[from_ + i], to.dtype)
    return _loop(i, count, Store(to, (start + i,), value), "vector")


def _zero(to: Buffer, start: Expr, count: int) -> Sequence[Stmt]:
    if not count:
        return ()
    i = Var("pz")
    return (_loop(i, count, Store(to, (start + i,), t.const(0, to.dtype)), "vector"),)


def _loop(var: Var, size: int, body: Stmt, kind: LoopKind = "serial") -> For:
    return For(var, t.as_expr(0), t.as_expr(size), body, kind)
