"""Windows over channels-last images whose height and width are known at run time: `channel_windows` by expressions.

Results whose windows lie inside the image are computed in blocks, as there, and what these leave in blocks of four, two
and one. The others, at the left and right border, are computed one at a time, with loops over the columns of the window
that are inside.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base.dims import ceil_quotient, floor_quotient
from ...targets.isa import Target
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Function
from ..nest.convolution_geometry import ConvolutionGeometry
from ..nest.epilogue import EpilogueValue
from ..schedule.local_sizes import LocalSizes
from ..schedule.window_tile import WindowBlocking
from .channel_windows import WindowProblem, WindowTemplate


class DynamicWindowTemplate(WindowTemplate):
    """`problem` is in terms of `sizes`, which hold those of `whole`, the geometry in terms of the model's sizes."""

    def __init__(
        self,
        problem: WindowProblem,
        blocking: WindowBlocking,
        target: Target,
        epilogue: EpilogueValue | None,
        whole: ConvolutionGeometry,
        sizes: LocalSizes,
    ) -> None:
        super().__init__(problem, blocking, target, epilogue)
        self.whole, self.sizes = whole, sizes

    def function(self, name: str, params: tuple[Buffer, ...], note: str) -> Function:
        """All windows as a function."""
        b, whole = self.b, self.whole
        for param in params:
            b.names.reserve(param.name)
        size, width = self.blocking.rows, self.blocking.channels
        kind = self.kind
        with (
            b.loop("image", 0, t.as_expr(whole.batch), kind) as image,
            b.loop("piece", 0, t.as_expr(ceil_quotient(whole.result[0], size)), kind) as piece,
        ):
            for let in self.sizes.lets:
                b.emit(let)
            first = piece * size
            last = b.let("last", t.minimum(first + size, self.g.result[0]))
            ends = self._inner_columns()
            full, rest = divmod(self.g.groups, width)
            with b.loop("slice", 0, full) as number, b.loop("row", first, last) as row:
                self._columns(image, row, number * width, width, ends)
            if rest:
                with b.loop("row", first, last) as row:
                    self._columns(image, row, t.as_expr(full * width), rest, ends)
        return b.function(name, params, note)

    def _inner_columns(self) -> tuple[Expr, Expr, Expr]:
        """Return the first result whose window lies inside the image, the end of whole blocks of them, and the end
        of all."""
        b, g, size = self.b, self.g, self.blocking.pixels
        first = -(-g.before[1] // g.strides[1])
        begin = b.let("begin", t.minimum(t.as_expr(first), g.result[1]))
        reach = (g.kernel[1] - 1) * g.dilations[1] + 1
        inside = floor_quotient(g.image[1] + g.before[1] - reach, g.strides[1]) + 1
        until = t.minimum(t.as_expr(inside), g.result[1])
        count = b.let("inner", t.maximum(until - begin, 0))
        whole = count // size * size
        return begin, b.let("end", begin + whole), begin + count

    def _columns(
        self, image: Expr, row: Expr, channel: Expr, channels: int, ends: tuple[Expr, Expr, Expr]
    ) -> None:
        """One row of results: the border one at a time, blocks, lower blocks, and the border."""
        b, g, size = self.b, self.g, self.blocking.pixels
        begin, end, until = ends
        rows = self._kernel_rows(row)

        def block(position: Expr, count: int) -> None:
            taps = self._inner_taps(count)
            self._block((image, channel, row, position), channels, count, taps, *rows)

        with b.loop("left", 0, begin) as at:
            self._alone((image, channel, row, at), channels, rows)
        with b.loop("position", begin, end, step=size) as position:
            block(position, size)
        left = until - end
        for count in (2**power for power in reversed(range((size - 1).bit_length()))):
            above = left // (2 * count) * (2 * count)
            with b.when(left - above >= count):
                block(end + above, count)
        with b.loop("right", until, t.as_expr(g.result[1])) as at:
            self._alone((image, channel, row, at), channels, rows)

    def _inner_taps(self, count: int) -> list[tuple[int, int, int]]:
        """Return `_taps` of results inside the image."""
        g = self.g
        return [
            (tap, position, position * g.strides[1] + tap * g.dilations[1])
            for position in range(count)
            for tap in range(g.kernel[1])
        ]

    def _kernel_rows(self, row: Expr) -> tuple[Expr, Expr]:
        g = self.whole
        if not g.before[0] and g.stays_inside(0):
            return t.as_expr(0), t.as_expr(g.kernel[0])
        return self._inside(row, 0)

    def _inside(self, position: Expr, axis: int) -> tuple[Expr, Expr]:
        """The elements of the window along an axis that are inside the image, for a result at `position`."""
        b, g = self.b, self.g
        size, step = g.kernel[axis], g.dilations[axis]
        at = b.let("at", position * g.strides[axis] - g.before[axis])
        before = (0 - at + (step - 1)) // step
        until = (g.image[axis] - at + (step - 1)) // step
        begin = t.minimum(t.maximum(before, 0), size)
        end = t.maximum(t.minimum(until, size), 0)
        return b.let("first_tap", begin), b.let("last_tap", end)

    def _alone(self, index: Sequence[Expr], channels: int, rows: tuple[Expr, Expr]) -> None:
        """One result, of the elements of its window that are inside the image, in their order."""
        b, g, p = self.b, self.g, self.problem
        image, channel, row, at = index
        columns = self._inside(at, 1)
        line = b.let("line", row * g.strides[0] - g.before[0])
        column = b.let("column", at * g.strides[1] - g.before[1])
        with b.loop("c", 0, channels, "vector") as offset:
            c = channel + offset
            acc = b.allocate("acc", p.accumulator, (1,))
            b.store(acc, (t.ZERO,), t.const(p.start, p.accumulator))
            with b.loop("tap", *rows) as tap_row, b.loop("side", *columns) as tap:
                above = line + tap_row * g.dilations[0]
                beside = column + tap * g.dilations[1]
                position = (image * g.image[0] + above) * g.image[1] + beside
                element = p.x[position * g.groups + c]
                value = b.let("v", t.cast(element, p.accumulator))
                weight = None
                if p.weights is not None:
                    number = tap_row * g.kernel[1] + tap
                    loaded = p.weights[number * g.groups + c]
                    weight = b.let("w", t.cast(loaded, p.accumulator))
                old = acc[t.ZERO]
                b.store(acc, (t.ZERO,), self._combined(old, value, weight))
            self._store((image, c, row, at), acc[t.ZERO])
