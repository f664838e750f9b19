"""Windows over channels-last images, each channel separately: depthwise convolution and pooling.

    for each image, piece of its rows of results (parallel), slice of channels, row, block of pixels in the row:
      for each vector of channels:
        acc[pixels] = start
        for each row of the window inside the image:
          each element of the row is loaded once, for all results of the block that use it
        y[pixels] = epilogue(acc)

Loop bounds skip window rows outside the image; columns outside are skipped at compile time, as the first and last
blocks of a row have separate code. So nothing is padded, and the loops contain no border checks. Where heights and
widths are dynamic, results whose windows lie inside the image are computed in blocks too, and what these leave in
blocks of four, two and one; those at the left and right border one at a time, with loops over the columns inside.

A slice has a number of channels for which the rows read for one row of results stay in L1 for the next one: 1.2 to 2.3
times faster on MobileNetV2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ...base.contraction import accumulator_of
from ...base.dims import ceil_quotient, floor_quotient
from ...base.dtypes import F32, DType
from ...base.records import dataclass
from ...targets.isa import Target
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Function, LoopKind, Stmt
from ..ir.schedule import Schedule
from ..nest.convolution_geometry import ConvolutionGeometry
from ..nest.epilogue import EpilogueValue, store_result, storing


@dataclass(frozen=True)
class WindowProblem:
    """y[n, p, c] = combine over the window of x[n, p * stride + k * dilation - before, c], all with channels last.

    `geometry`: sizes; its groups are the channels. `combine` is add, mul, min or max; or fma, the sum of
    elements times `weights` [kernel rows, columns, channels]. `start` is what an empty window gives. Elements are
    combined in the type of their sums.
    """

    geometry: ConvolutionGeometry
    x: Buffer
    y: Buffer
    combine: str
    start: float | int
    weights: Buffer | None = None

    @property
    def accumulator(self) -> DType:
        """The type that elements are combined in: their own for the smallest or largest of integers."""
        if self.combine in ("min", "max") and not self.x.dtype.is_float:
            return self.x.dtype
        return accumulator_of(self.x.dtype, (self.weights or self.x).dtype)

    @property
    def multiplies_bytes_as_floats(self) -> bool:
        """Return whether weights of f32 meet an image of bytes."""
        return self.weights is not None and self.weights.dtype == F32 and self.x.dtype.bits == 8

    def combined(self, old: Expr, value: Expr, weight: Expr | None, target: Target) -> Expr:
        """Return what was combined so far with another element, times its weight if there are any."""
        if weight is None:
            return t.binary(self.combine, old, value)
        if target.table.has_fma and value.dtype.is_float:
            return t.fma(value, weight, old)
        return old + value * weight


def inside(b: t.LoopBuilder, at: Expr, size: Any, count: int, step: int) -> tuple[Expr, Expr]:
    """Return the range [begin, end) of `count` positions, `step` apart from `at` on, that lie in [0, `size`)."""
    before, until = ((end - at + (step - 1)) // step for end in (t.ZERO, size))
    begin = b.let("first_inside", t.minimum(t.maximum(before, 0), count))
    return begin, b.let("last_inside", t.maximum(t.minimum(until, count), begin))


Tap = tuple[Any, int, Any]
"""(column of the window, result of a block, column of the image from that of the block on)."""


@dataclass(frozen=True)
class ResultBlock:
    """`count` neighboring results of `channels` channels from an index on.

    `taps`: the elements of a row of their windows that are inside the image; `rows`: the rows of the window that are.
    `columns`: the columns of the window that are, of one result, where that is decided when the loops run.
    """

    image: Expr
    channel: Expr
    row: Expr
    column: Expr
    channels: int
    count: int
    taps: Sequence[Tap]
    rows: tuple[Expr, Expr]
    columns: tuple[Expr, Expr] | None = None

    def part(self, channel: Expr, channels: int) -> ResultBlock:
        """Return the results of `channels` channels, `channel` channels further on."""
        return replace(self, channel=self.channel + channel, channels=channels)

    def index(self, result: int) -> tuple[Expr, ...]:
        """Return [image, channel, row, column] of one result."""
        return self.image, self.channel, self.row, self.column + result


class Windows:
    """The windows of one problem under a schedule; `epilogue` takes [image, channel, row, column]."""

    b: t.LoopBuilder

    def __init__(
        self,
        problem: WindowProblem,
        schedule: Schedule,
        target: Target,
        epilogue: EpilogueValue | None,
    ) -> None:
        self.problem, self.g = problem, problem.geometry
        self.schedule, self.target = schedule, target
        self.epilogue = storing(epilogue, problem.accumulator, problem.y.dtype)
        self.start = t.const(problem.start, problem.accumulator)
        self.kind: LoopKind = "parallel" if schedule.word("split") == "parallel" else "serial"


class WindowTemplate(Windows):
    """Builds the loop nest of one problem.

    `whole`: its geometry in the model's sizes; `lets` bind the variables that dynamic sizes of the problem are.
    """

    def __init__(
        self,
        problem: WindowProblem,
        schedule: Schedule,
        target: Target,
        epilogue: EpilogueValue | None,
        whole: ConvolutionGeometry,
        lets: Sequence[Stmt] = (),
    ) -> None:
        super().__init__(problem, schedule, target, epilogue)
        self.whole, self.lets = whole, lets

    def function(self, name: str, params: tuple[Buffer, ...], note: str) -> Function:
        """All windows as a function."""
        self.b = b = t.LoopBuilder(param.name for param in params)
        whole = self.whole
        size, width = self.schedule.number("rows"), self.schedule.number("nc")
        pieces = t.as_expr(ceil_quotient(whole.result[0], size))
        with (
            b.loop("image", 0, t.as_expr(whole.batch), self.kind) as image,
            b.loop("piece", 0, pieces, self.kind) as piece,
        ):
            b.emit(*self.lets)
            first = piece * size
            last = b.let("last", t.minimum(first + size, self.g.result[0]))
            if whole.is_dynamic:
                self.ends = self._inner_columns()
            for number, channels in b.tiles("slice", self.g.groups, width):
                with b.loop("row", first, last) as row:
                    self._row(image, row, number * width, channels)
        return b.function(name, params, note)

    def _row(self, image: Expr, row: Expr, channel: Expr, channels: int) -> None:
        """Store one row of results of `channels` channels."""
        empty = ResultBlock(image, channel, row, t.ZERO, channels, 0, (), self._kernel_rows(row))
        blocks = self._dynamic_blocks(empty) if self.whole.is_dynamic else self._blocks(empty)
        for block in blocks:
            self._block(block)

    def _blocks(self, empty: ResultBlock) -> Iterator[ResultBlock]:
        """Blocks with windows over the border one at a time, the others in a loop."""
        width, size = self.g.result[1], self.schedule.number("np")
        blocks = [(at, min(size, width - at)) for at in range(0, width, size)]
        inner = [at for at, count in blocks if count == size and self._is_inside(at, count)]
        for at, count in blocks:
            block = replace(empty, column=t.as_expr(at), count=count, taps=self._taps(at, count))
            if inner and at == inner[0]:
                with self.b.loop("position", at, inner[-1] + 1, step=size) as position:
                    yield replace(block, column=position)
            elif not inner or not inner[0] <= at <= inner[-1]:
                yield block

    def _dynamic_blocks(self, empty: ResultBlock) -> Iterator[ResultBlock]:
        """The border one result at a time, blocks, lower blocks of what these leave, and the border."""
        b, size = self.b, self.schedule.number("np")
        begin, end, until = self.ends
        left = until - end

        def block(at: Expr, count: int) -> ResultBlock:
            return replace(empty, column=at, count=count, taps=self._all_taps(count))

        yield from self._border(empty, t.ZERO, begin)
        with b.loop("position", begin, end, step=size) as position:
            yield block(position, size)
        for count in (2**power for power in reversed(range((size - 1).bit_length()))):
            above = left // (2 * count) * (2 * count)
            with b.when(left - above >= count):
                yield block(end + above, count)
        yield from self._border(empty, until, t.as_expr(self.g.result[1]))

    def _border(self, empty: ResultBlock, first: Expr, last: Expr) -> Iterator[ResultBlock]:
        """One result at a time, of the elements of its window that are inside the image, in their order."""
        b, g = self.b, self.g
        with b.loop("border", first, last) as at:
            left = b.let("left", at * g.strides[1] - g.before[1])
            columns = inside(b, left, g.image[1], g.kernel[1], g.dilations[1])
            yield replace(empty, column=at, count=1, columns=columns)

    def _inner_columns(self) -> tuple[Expr, Expr, Expr]:
        """Return the first result whose window lies inside the image, the end of whole blocks of them, and the end
        of all."""
        b, g, size = self.b, self.g, self.schedule.number("np")
        first = -(-g.before[1] // g.strides[1])
        begin = b.let("begin", t.minimum(t.as_expr(first), g.result[1]))
        reach = (g.kernel[1] - 1) * g.dilations[1] + 1
        inside = floor_quotient(g.image[1] + g.before[1] - reach, g.strides[1]) + 1
        until = t.minimum(t.as_expr(inside), g.result[1])
        count = b.let("inner", t.maximum(until - begin, 0))
        whole = count // size * size
        return begin, b.let("end", begin + whole), begin + count

    def _kernel_rows(self, row: Expr) -> tuple[Expr, Expr]:
        """The rows of the window that lie inside the image, [begin, end), for a row of results."""
        b, g = self.b, self.whole
        if not g.before[0] and g.stays_inside(0):
            return t.ZERO, t.as_expr(g.kernel[0])
        return inside(b, self._line(row), self.g.image[0], g.kernel[0], g.dilations[0])

    def _is_inside(self, at: int, count: int) -> bool:
        g = self.g
        first = at * g.strides[1] - g.before[1]
        last = first + (count - 1) * g.strides[1] + (g.kernel[1] - 1) * g.dilations[1]
        return first >= 0 and last < g.image[1]

    def _taps(self, at: int, count: int) -> list[Tap]:
        """Return the elements of a row of the windows of `count` results that are inside the image."""
        g = self.g
        first = at * g.strides[1] - g.before[1]
        return [tap for tap in self._all_taps(count) if 0 <= first + tap[2] < g.image[1]]

    def _all_taps(self, count: int) -> list[Tap]:
        """Return the elements of a row of the windows of `count` results."""
        g = self.g
        return [
            (tap, position, position * g.strides[1] + tap * g.dilations[1])
            for position in range(count)
            for tap in range(g.kernel[1])
        ]

    def _block(self, block: ResultBlock) -> None:
        """Store the results of a block."""
        line = self._line(block.row)
        with self.b.loop("c", 0, block.channels, "vector") as offset:
            one = block.part(offset, 1)
            acc = self._sums(one, line, self.start)
            for position in range(block.count):
                self._store(one.index(position), acc[position])

    def _parts(self, name: str, block: ResultBlock, width: int) -> Iterator[ResultBlock]:
        """The results of `width` channels at a time, in a loop, and those of the channels after them."""
        for number, channels in self.b.tiles(name, block.channels, width):
            yield block.part(number * width, channels)

    def _line(self, row: Expr) -> Expr:
        """The row of the image where the windows of a row of results begin."""
        return self.b.let("line", row * self.g.strides[0] - self.g.before[0])

    def _sums(self, block: ResultBlock, line: Expr, start: Expr) -> Buffer:
        """Combine the windows of results of one channel, which begin in row `line` of the image, and `start`."""
        b, g, c = self.b, self.g, block.channel
        column = block.column * g.strides[1] - g.before[1]
        acc = b.allocate("acc", self.problem.accumulator, (block.count,))
        for position in range(block.count):
            b.store(acc, (position,), start)
        with b.loop("tap", *block.rows) as tap_row:
            image_row = block.image * g.image[0] + (line + tap_row * g.dilations[0])
            start = (image_row * g.image[1] + column) * g.groups + c
            if block.columns is None:
                self._taps_of_row(start, tap_row, c, block.taps, acc)
                return acc
            with b.loop("side", *block.columns) as tap:
                self._taps_of_row(start, tap_row, c, [(tap, 0, tap * g.dilations[1])], acc)
        return acc

    def _taps_of_row(
        self, start: Expr, tap_row: Expr, c: Expr, taps: Sequence[Tap], acc: Buffer
    ) -> None:
        """Elements in memory order, each combined into every result whose window contains it."""
        b, p = self.b, self.problem
        weights: dict[Any, Expr] = {}
        if p.weights is not None:
            for tap in sorted({tap for tap, _, _ in taps}):
                row = tap_row * self.g.kernel[1] + tap
                position = row * self.g.groups + c
                weights[tap] = b.let("w", t.cast(p.weights[position], p.accumulator))
        for offset in sorted({offset for _, _, offset in taps}):
            element = p.x[start + offset * self.g.groups]
            value = b.let("v", t.cast(element, p.accumulator))
            for tap, number, where in taps:
                if where == offset:
                    old = acc[number]
                    b.store(acc, (number,), p.combined(old, value, weights.get(tap), self.target))

    def _store(self, index: tuple[Expr, ...], value: Expr) -> None:
        """y[index] = epilogue(value), for a plain index [image, channel, row, column]."""
        store_result(self.b, self.problem.y, self._index(index), index, value, self.epilogue)

    def _index(self, index: tuple[Expr, ...]) -> Expr:
        """Return the offset of a result in y."""
        g, (image, channel, row, column) = self.g, index
        line = image * g.result[0] + row
        return (line * g.result[1] + column) * g.groups + channel
