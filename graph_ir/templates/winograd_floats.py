"""M -> image of a Winograd convolution of floats; a tile with a result that is not finite is convolved directly."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.dims import is_known
from ...base.dtypes import F32
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr
from ..nest.problem import View
from .winograd_tiles import WinogradTiles, all_of


class FloatResults(WinogradTiles):
    """Results of f32."""

    # M -> image

    def finish(
        self, number: Expr, tile: Expr, panels: tuple[Expr, Expr], start: Expr, columns: Expr, m: View,
    ) -> None:  # fmt: skip
        """The results of a tile for the panels [first, last), which are `columns` channels from `start` on."""
        odd = self._store_tile(number, tile, start, columns, m)
        with self.b.when(t.unequal(odd, odd)):
            self._convolve_tile(number, *panels)

    def _store_tile(self, number: Expr, tile: Expr, start: Expr, columns: Expr, m: View) -> Expr:
        """All results of one tile; returns zero, or NaN if one of them is not finite."""
        b, y, size = self.b, self.problem.y, self.form.results
        odd = b.allocate("odd", F32, (1,))
        b.store(odd, (0,), t.const(0.0, F32))
        batch, row, column = self.first_pixel(number)
        below, beside = self.problem.dilations
        rows = b.let("rows", self.results_along(row, y.height, below))
        with b.loop("o", 0, columns, "vector") as o:
            middle = b.allocate("middle", F32, (size, self.form.elements))
            for j, sums in enumerate(self.columns(m, tile, o)):
                for i, value in enumerate(sums):
                    b.store(middle, (i, j), value)
            with b.loop("i", 0, rows) as down:
                line = [b.let("s", middle[down, j]) for j in range(self.form.elements)]
                results = self.form.transform_output(line, self.madd, self.bind)
                for value in results:
                    b.store(odd, (0,), self.madd(0.0, value, odd[0]))
                for j, value in enumerate(results):
                    right = column + j * beside
                    is_cut = not is_known(y.width) or bool(y.width % (size * beside))
                    may_lie_outside = is_cut and j + beside > 1
                    with b.when(right < y.width if may_lie_outside else True):
                        index = row + down * below
                        self.store((batch, start + o, index, right), value)
        return b.let("odd", odd[0])

    # image -> image, for tiles that the transforms cannot do

    def _convolve_tile(self, number: Expr, chunk: Expr, last: Expr) -> None:
        """All results of one tile again, for the panels [chunk, last): the sums over their windows."""
        b, y, at = self.b, self.problem.y, self.first_pixel(number)
        counts, results = self.counts_of(at), self.form.results**2
        with b.loop("panel", chunk, last) as panel:
            start = b.let("start", panel * self.panel)
            columns = b.let("columns", t.minimum(y.channels - start, self.panel))
            with b.loop("o", 0, columns, "vector") as o:
                sums = b.allocate("sums", F32, (results,))
                with b.loop("i", 0, results) as i:
                    b.store(sums, (i,), t.const(0.0, F32))
                with b.loop("c", 0, self.problem.x.channels) as c:
                    taps = self._taps(panel, c, o)
                    for index, result in self.each_result(at, counts):
                        self._add_window(result, c, taps, sums, index)
                for index, (image, row, column) in self.each_result(at, counts):
                    self.store((image, start + o, row, column), sums[index])

    def _taps(self, panel: Expr, c: Expr, o: Expr) -> Buffer:
        """The nine weights of a channel, recovered from U."""
        b = self.b
        taps = b.allocate("taps", F32, (9,))
        terms = self.form.weight_terms()
        for i, down in enumerate(terms):
            for j, right in enumerate(terms):
                values = [
                    (scale * factor, b.let("u", self._of_u(row, column, panel, c, o)))
                    for row, scale in down
                    for column, factor in right
                ]
                b.store(taps, (3 * i + j,), self._tap(values))
        return taps

    def _of_u(self, row: int, column: int, panel: Expr, c: Expr, o: Expr) -> Expr:
        point = row * self.form.elements + column
        line = (point * self.panels + panel) * self.problem.x.channels + c
        return self.problem.u[line * self.panel + o]

    def _tap(self, terms: Sequence[tuple[float, Expr]]) -> Expr:
        """The sum of factor * value; zero where rounding leaves no more than that of it."""
        (factor, first), *others = terms
        total: Expr = first * factor
        if not others:
            return total
        size = abs(total)
        for factor, value in others:
            part = self.b.let("part", value * factor)
            total, size = total + part, size + abs(part)
        total = self.b.let("total", total)
        small = abs(total) <= size * self.form.smallest_tap
        return t.select(small, t.const(0.0, F32), total)

    def _add_window(
        self, at: tuple[Expr, Expr, Expr], c: Expr, taps: Buffer, sums: Buffer, index: Expr
    ) -> None:
        """Accumulate a channel into one result; pixels outside the image are zero."""
        b, x = self.b, self.problem.x
        batch, row, column = at
        below, beside = self.problem.dilations
        with b.loop("p", 0, 3) as p, b.loop("q", 0, 3) as q:
            down = b.let("down", row + p * below - self.problem.top)
            right = b.let("right", column + q * beside - self.problem.left)
            inside = [down >= 0, down < x.height]
            inside += [right >= 0, right < x.width]
            with b.when(all_of(inside)):
                pixel = x.buffer[x.offset(batch, down, right) + c]
                tap = taps[p * 3 + q]
                b.store(sums, (index,), sums[index] + tap * pixel)
