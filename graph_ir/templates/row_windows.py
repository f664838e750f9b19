"""Windows over images whose rows are contiguous (channels first): depthwise convolution and pooling.

    for each image, channel (parallel), block of rows of results:
      stage     a pool combines the rows of each window into one line; a convolution copies the rows of the block
      combine   for each row of the block, each vector of its results:
                  acc = start; for each element of the window in the staged lines: acc = combine(acc, element)
                  y[vector] = epilogue(acc)

Staged lines lie in L1 with their padding beside them, so that whole rows are vectors and no column is a special case.
A pool reads each element once per row of the window and once per column, instead of once per element of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...targets.isa import Target
from ...tensor_ir import builder as t
from ...tensor_ir.builder import Value
from ...tensor_ir.nodes import Buffer, Expr, Function
from ..ir.schedule import Schedule
from ..nest.epilogue import EpilogueValue, store_result
from ..schedule.row_windows import line_elements, staged_lines
from .channel_windows import WindowProblem, Windows, inside

MAX_UNROLLED = 64
"""Rows, columns or columns of padding of a window that have code of their own; more are loops."""


class RowWindowTemplate(Windows):
    """Builds the loop nest of one problem.

    The problem's image and result are [n, c, rows, columns], and its weights [c, kernel rows, kernel columns].
    """

    def __init__(
        self,
        problem: WindowProblem,
        schedule: Schedule,
        target: Target,
        epilogue: EpilogueValue | None,
    ) -> None:
        super().__init__(problem, schedule, target, epilogue)
        self.line = line_elements(self.g)
        self.is_convolution = problem.weights is not None

    def function(self, name: str, params: tuple[Buffer, ...], note: str) -> Function:
        """All windows as a function."""
        self.b = b = t.LoopBuilder(param.name for param in params)
        with (
            b.loop("image", 0, self.g.batch, self.kind) as image,
            b.loop("channel", 0, self.g.groups, self.kind) as channel,
        ):
            self._plane(image, channel)
        return b.function(name, params, note)

    def _plane(self, image: Expr, channel: Expr) -> None:
        """One channel of an image: blocks of rows, the last one with the rows that are left."""
        b, size, rows = self.b, self.schedule.number("rows"), self.g.result[0]
        plane = image * self.g.groups + channel
        lines = staged_lines(self.g, self.is_convolution, min(size, rows))
        stage = b.allocate("stage", self.problem.accumulator, (lines * self.line,))
        self._fill_sides(stage, lines)
        for block, count in b.tiles("block", rows, size):
            self._block(stage, (image, channel, plane), block * size, count)

    def _weights(self, channel: Expr, column: int) -> list[Expr]:
        """The weights of a channel in one column of the window, loaded where they are used: a few of them stay in
        registers, and those of all columns would not."""
        w, b = self.problem.weights, self.b
        if w is None:
            return []
        rows, columns = self.g.kernel
        first = channel * (rows * columns) + column
        return [
            b.let("w", t.cast(w[first + tap * columns], self.problem.accumulator))
            for tap in range(rows)
        ]

    def _fill_sides(self, stage: Buffer, lines: int) -> None:
        """The columns of padding, which no row overwrites."""
        b, before = self.b, self.g.before[1]
        sides = (0, before), (before + self._columns, self.line)
        with b.loop("side", 0, lines) as line:
            for low, high in sides:
                with b.loop("c", low, high, "vector") as c:
                    b.store(stage, (line * self.line + c,), self.start)

    @property
    def _columns(self) -> int:
        """Columns of the image that some window reaches."""
        return max(min(self.g.image[1], self.line - self.g.before[1]), 0)

    def _block(
        self,
        stage: Buffer,
        where: tuple[Expr, Expr, Expr],
        first: Expr,
        count: int,
    ) -> None:
        """`count` rows of results of the plane `where` from `first` on."""
        b, g = self.b, self.g
        image, channel, plane = where
        start = plane * (g.image[0] * g.image[1])
        if self.is_convolution:
            self._copy_rows(stage, start, first * g.strides[0] - g.before[0], count)
        else:
            with b.loop("line", 0, count) as line:
                top = (first + line) * g.strides[0] - g.before[0]
                self._combine_rows(stage, start, b.let("top", top), line)
        height = self.schedule.number("height")
        for number, rows in b.tiles("row", count, height):
            row = number * height
            self._results(stage, row, plane, (image, channel, first + row), rows)

    def _copy_rows(self, stage: Buffer, start: Expr, top: Expr, count: int) -> None:
        """The rows of the image under `count` rows of windows, zeros for those outside; the first one is `top`."""
        b, g = self.b, self.g
        lines = staged_lines(g, True, count)
        begin, end = self._inside(b.let("top", top), lines, 1)
        for low, high in ((t.ZERO, begin), (end, t.as_expr(lines))):
            with b.loop("line", low, high) as line, b.loop("c", 0, self._columns, "vector") as c:
                position = line * self.line + (c + g.before[1])
                b.store(stage, (position,), self.start)
        with b.loop("line", begin, end) as line, b.loop("c", 0, self._columns, "vector") as c:
            position = line * self.line + (c + g.before[1])
            b.store(stage, (position,), self._element(start, top + line, c))

    def _combine_rows(self, stage: Buffer, start: Expr, top: Expr, line: Expr) -> None:
        """The rows of the windows that begin in image row `top`, combined column by column."""
        b, taps = self.b, self.g.kernel[0]
        begin, end = self._inside(top, taps, self.g.dilations[0])
        position = line * self.line + self.g.before[1]

        def combine(first: Value, last: Value) -> None:
            with b.loop("c", 0, self._columns, "vector") as c:

                def row(tap: Value) -> Expr:
                    return self._element(start, top + tap * self.g.dilations[0], c)

                b.store(stage, (position + c,), self._combined(first, last, row))

        if taps > MAX_UNROLLED:
            combine(begin, end)
        elif end == t.as_expr(taps):
            combine(0, taps)
        else:
            with b.when(t.equal(end - begin, taps)):
                combine(0, taps)
            with b.otherwise():
                combine(begin, end)

    def _combined(self, begin: Value, end: Value, element: Callable[[Value], Expr]) -> Expr:
        """The elements of a window with numbers [begin, end) combined: unrolled, or by a loop if they are many or not
        known."""
        b, combine = self.b, self.problem.combine
        if isinstance(end, int) and end <= MAX_UNROLLED:
            value = element(0)
            for tap in range(1, end):
                value = t.binary(combine, b.let("v", value), element(tap))
            return value
        acc = b.allocate("acc", self.problem.accumulator, (1,))
        b.store(acc, (0,), self.start)
        with b.loop("tap", begin, end) as number:
            b.store(acc, (0,), t.binary(combine, acc[0], element(number)))
        return b.let("v", acc[0])

    def _inside(self, top: Expr, count: int, step: int) -> tuple[Expr, Expr]:
        """The rows of `count`, `step` apart from image row `top` on, that lie inside the image."""
        if not self.g.before[0] and self.g.stays_inside(0):
            return t.ZERO, t.as_expr(count)
        return inside(self.b, top, self.g.image[0], count, step)

    def _element(self, start: Expr, row: Expr, column: Expr) -> Expr:
        position = start + row * self.g.image[1] + column
        return t.cast(self.problem.x[position], self.problem.accumulator)

    def _results(
        self,
        stage: Buffer,
        row: Expr,
        plane: Expr,
        index: tuple[Expr, Expr, Expr],
        height: int,
    ) -> None:
        """`height` rows of results from `index` [image, channel, row] on, the block's row `row`; each staged element is
        loaded once for all of them in a column of the window."""
        b, g = self.b, self.g
        line = b.let("line", row * ((g.strides[0] if self.is_convolution else 1) * self.line))
        result = b.let("result", plane * g.result[0] + index[2])
        with b.loop("column", 0, g.result[1], "vector") as column:
            at = b.let("at", line + column * g.strides[1])
            if not self.is_convolution and g.kernel[1] > MAX_UNROLLED:
                acc = self._combined(0, g.kernel[1], lambda tap: stage[at + tap * g.dilations[1]])
                self._store((*index, column), result * g.result[1] + column, acc)
                return
            sums: list[Expr | None] = [self.start if self.is_convolution else None] * height
            for column_tap in range(g.kernel[1]):
                weights = self._weights(index[1], column_tap)
                for lower, users in self._lines(height):
                    offset = lower * self.line + column_tap * g.dilations[1]
                    value = b.let("v", stage[at + offset])
                    for number, tap in users:
                        old, weight = sums[number], weights[tap] if weights else None
                        if old is not None:
                            new = self.problem.combined(old, value, weight, self.target)
                        sums[number] = b.let("acc", value if old is None else new)
            for number, total in enumerate(sums):
                assert total is not None
                position = (result + number) * g.result[1] + column
                self._store((*index[:2], index[2] + number, column), position, total)

    def _lines(self, height: int) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """(staged line, the (row of results, row of the window) that take its elements) for `height` rows."""
        rows, steps = (self.g.kernel[0], self.g.strides[0]) if self.is_convolution else (1, 1)
        dilation = self.g.dilations[0]
        for line in range((height - 1) * steps + (rows - 1) * dilation + 1):
            users = [
                (number, tap)
                for number in range(height)
                for tap in range(rows)
                if number * steps + tap * dilation == line
            ]
            if users:
                yield line, users

    def _store(self, index: tuple[Expr, ...], position: Expr, value: Expr) -> None:
        """y[position] = epilogue(value) for the plain index [image, channel, row, column]."""
        store_result(self.b, self.problem.y, position, index, value, self.epilogue)
