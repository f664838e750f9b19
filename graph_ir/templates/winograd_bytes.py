"""M -> image of a Winograd convolution of bytes: sums in s32, which wrap until they are divided by what they count."""

from __future__ import annotations

from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr
from ..nest.problem import View
from .winograd_tiles import WinogradTiles


class ByteResults(WinogradTiles):
    """Results of s32, a panel at a time: first all sums of a tile, which are a few lines of L1, then pixel by pixel
    what comes after them, in loops that know their length, as bytes of several vectors are stored together."""

    def finish(
        self, number: Expr, tile: Expr, panels: tuple[Expr, Expr], start: Expr, columns: Expr, m: View,
    ) -> None:  # fmt: skip
        """The results of a tile for the panels [first, last), which are `columns` channels from `start` on."""
        b, (begin, end) = self.b, panels
        full, rest = divmod(self.problem.y.channels, self.panel)
        at = self.first_pixel(number)
        sums = b.allocate("sums", self.form.sums, (self.form.results**2 * self.panel,))
        with b.loop("panel", begin, t.minimum(end, full) if rest else end) as panel:
            self._panel(at, tile, start, (panel - begin) * self.panel, self.panel, sums, m)
        if rest:
            with b.when(end > full):
                index = (t.as_expr(full) - begin) * self.panel
                self._panel(at, tile, start, index, rest, sums, m)

    def _panel(
        self, at: tuple[Expr, Expr, Expr], tile: Expr, start: Expr, index: Expr, columns: int, sums: Buffer, m: View,
    ) -> None:  # fmt: skip
        """One panel, `index` columns behind the first, of which `columns` columns are used."""
        b = self.b
        with b.loop("o", 0, columns, "vector") as o:
            self._sums(tile, index + o, o, sums, m)
        for number, (image, row, column) in self.each_result(at, self.counts_of(at)):
            first = b.let("start", number * self.panel)
            down, right = b.let("down", row), b.let("right", column)
            with b.loop("o", 0, columns, "vector") as o:
                channel = start + index + o
                self.store((image, channel, down, right), sums[first + o])

    def _sums(self, tile: Expr, column: Expr, o: Expr, sums: Buffer, m: View) -> None:
        """A^T M A of one channel, divided by what it is too large by."""
        b, size, middle = self.b, self.form.results, list(self.columns(m, tile, column))
        for i in range(size):
            line = [of_column[i] for of_column in middle]
            for j, value in enumerate(self.form.transform_output(line, self.madd, self.bind)):
                whole = value * self.form.inverse if self.form.inverse != 1 else value
                index = o + (i * size + j) * self.panel
                b.store(sums, (index,), whole >> self.form.shift)
