"""Windows over channels-last images whose height and width are known at run time: `channel_windows` by expressions.

Results whose windows lie inside the image are computed in blocks, as there, and what these leave in blocks of four, two
and one. The others, at the left and right border, are computed one at a time, with loops over the columns of the window
that are inside.
"""

from __future__ import annotations

from ...base.dims import floor_quotient
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from .channel_windows import ResultBlock, WindowTemplate, inside


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

        def alone(first: Expr, last: Expr) -> None:
            """One result at a time, of the elements of its window that are inside the image, in their order."""
            with b.loop("border", first, last) as at:
                left = b.let("left", at * g.strides[1] - g.before[1])
                columns = inside(b, left, g.image[1], g.kernel[1], g.dilations[1])
                self._block(ResultBlock(image, channel, row, at, channels, 1, (), rows, columns))

        alone(t.ZERO, begin)
        with b.loop("position", begin, end, step=size) as position:
            block(position, size)
        left = until - end
        for count in (2**power for power in reversed(range((size - 1).bit_length()))):
            above = left // (2 * count) * (2 * count)
            with b.when(left - above >= count):
                block(end + above, count)
        alone(until, t.as_expr(g.result[1]))
