"""Windows over channels-last images whose height and width are known at run time: `channel_windows` by expressions.

Results whose windows lie inside the image are computed in blocks, as there, and what these leave in blocks of four, two
and one. The others, at the left and right border, are computed one at a time, with loops over the columns of the window
that are inside.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base.dims import floor_quotient
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from .channel_windows import ResultBlock, WindowTemplate


class DynamicWindowTemplate(WindowTemplate):
    """Heights and widths are expressions."""

    def _begin_piece(self) -> None:
        self.ends = self._inner_columns()

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

    def _row(self, image: Expr, row: Expr, channel: Expr, channels: int) -> None:
        """One row of results: the border one at a time, blocks, lower blocks, and the border."""
        b, g, size = self.b, self.g, self.schedule.number("np")
        begin, end, until = self.ends
        rows = self._kernel_rows(row)

        def block(position: Expr, count: int) -> None:
            taps = self._all_taps(count)
            self._block(ResultBlock(image, channel, row, position, channels, count, taps, rows))

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

    def _alone(self, index: Sequence[Expr], channels: int, rows: tuple[Expr, Expr]) -> None:
        """One result, of the elements of its window that are inside the image, in their order."""
        b, g, p = self.b, self.g, self.problem
        image, channel, row, at = index
        columns = self._inside(at, 1)
        line = self._line(row)
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
