"""Winograd convolution of 3 x 3 windows with stride 1: few multiplications, in blocks of tiles that stay in cache.

A dilated window reads pixels of one phase of the image only, and its result belongs to that phase too: dilation d makes
d x d convolutions of its phases, whose tiles take each d-th row and column.

    for each block of tiles, group of panels of U (parallel):
      for each tile: V[point][tile] = B^T d B             vectors over channels; padding is zeros, nothing is copied
      for each chunk of the panels:
        for each point, panel: M[point] = V[point] x U[point]                                      one Brgemm
        for each tile: y = epilogue(A^T M A)              results outside the image are skipped
          if one of these is not finite: y = epilogue(the sum over the window), for the whole tile

F(4 x 4) needs 36 multiply-adds per channel for 16 results, where the direct form needs 144; F(2 x 2) needs 16 for 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...base.contraction import f32_kernel
from ...base.dims import bounds, is_known
from ...base.dtypes import F32
from ...base.target import Target
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Brgemm,
    Buffer,
    Expr,
    Function,
    LoopKind,
    PrefetchHint,
    Slice,
    Var,
)
from ..schedule.matmul_tile import rows_for
from ..schedule.winograd_tile import WinogradBlocking, tiles_along
from .matmul import EpilogueValue
from .winograd_image import Line, Planes, WinogradProblem


class WinogradTemplate:
    """Builds the loop nest of one problem under one blocking."""

    def __init__(
        self,
        problem: WinogradProblem,
        blocking: WinogradBlocking,
        target: Target,
        kind: LoopKind,
        epilogue: EpilogueValue | None,
    ) -> None:
        self.problem = problem
        self.blocking = blocking
        self.form = blocking.form
        self.target = target
        self.kind = kind
        self.epilogue = epilogue
        self.panel = blocking.tile.columns(target)
        m, y = self.form.results, problem.y
        self.tiles = tuple(
            t.as_expr(tiles_along(size, m, step))
            for size, step in zip((y.height, y.width), problem.dilations, strict=True)
        )
        self.panels = -(-problem.y.channels // self.panel)
        self.group_panels = -(-self.panels // blocking.groups)
        u_bytes = self.form.products * problem.x.channels * problem.y.channels * F32.size
        # The next panel of U is not in L2 yet: prefetch it.
        self.is_far = u_bytes > target.l2_bytes // 2
        self.chunk = min(blocking.chunk, self.group_panels)
        self.b = t.LoopBuilder([problem.x.buffer.name, problem.u.name, problem.y.buffer.name])

    def function(self, name: str, params: tuple[Buffer, ...], note: str) -> Function:
        """The whole convolution as a function."""
        for param in params:
            self.b.names.reserve(param.name)
        with (
            self.b.loop("block", 0, self._blocks(), self.kind) as block,
            self.b.loop("group", 0, -(-self.panels // self.group_panels), self.kind) as group,
        ):
            self._task(block, group)
        return self.b.function(name, params, note)

    def _total(self) -> int:
        m, p = self.form.results, self.problem
        down, across = p.dilations
        tiles = tiles_along(p.y.height, m, down) * tiles_along(p.y.width, m, across)
        return int(p.batch * tiles)

    def _blocks(self) -> int | Expr:
        """How many blocks of tiles there are."""
        return -(-self._total() // self.blocking.block)

    def _range(self, block: Var) -> tuple[Expr, Expr]:
        """(first tile of a block, how many it has)."""
        size = self.blocking.block
        first = self.b.let("first", t.mul(block, size))
        return first, self.b.let("count", t.minimum(t.sub(self._total(), first), size))

    def _task(self, block: Var, group: Var) -> None:
        """A block of tiles and a group of panels, from input image to result."""
        b, size, p = self.b, self.blocking.block, self.problem
        v = Planes.allocate(b, "v", self.form.products, size, p.x.channels)
        m = Planes.allocate(b, "m", self.form.products, size, self.chunk * self.panel)
        first, count = self._range(block)
        with b.loop("tile", 0, count) as tile:
            self._load_tile(t.add(first, tile), tile, v)
        begin = t.mul(group, self.group_panels)
        end = t.minimum(t.add(begin, self.group_panels), self.panels)
        with b.loop("chunk", begin, end, step=self.chunk) as chunk:
            last = b.let("last", t.minimum(t.add(chunk, self.chunk), end))
            self._block_products(block, chunk, last, count, v, m)
            start = b.let("start", t.mul(chunk, self.panel))
            columns = b.let(
                "columns", t.sub(t.minimum(t.mul(last, self.panel), p.y.channels), start)
            )
            with b.loop("tile", 0, count) as tile:
                number = b.let("number", t.add(first, tile))
                odd = self._store_tile(number, tile, start, columns, m)
                with b.when(t.compare("ne", odd, odd)):
                    self._convolve_tile(number, chunk, last)

    # image -> V

    def _load_tile(self, number: Expr, tile: Expr, v: Planes) -> None:
        b, x, p = self.b, self.problem.x, self.problem
        batch, at_row, at_column = self._place(number)
        row = b.let("row", t.sub(at_row, p.top))
        column = b.let("column", t.sub(at_column, p.left))
        high, wide = ((self.form.elements - 1) * step + 1 for step in p.dilations)
        inside = [t.compare("ge", row, 0), t.compare("le", row, x.height - high)]
        inside += [t.compare("ge", column, 0), t.compare("le", column, x.width - wide)]
        if bounds(x.height)[1] < high or bounds(x.width)[1] < wide:
            self._transform_input(batch, row, column, tile, v, clip=True)
            return
        with b.when(_all(inside)):
            self._transform_input(batch, row, column, tile, v, clip=False)
        with b.otherwise():
            self._transform_input(batch, row, column, tile, v, clip=True)

    def _transform_input(
        self, batch: Expr, row: Expr, column: Expr, tile: Expr, v: Planes, clip: bool
    ) -> None:
        """One tile, all channels; with `clip`, indices outside the image are clamped and their elements zeroed."""
        b, x, n = self.b, self.problem.x, self.form.elements
        below, beside = self.problem.dilations
        rows = [Line.make(b, t.add(row, i * below), x.height, clip) for i in range(n)]
        columns = [Line.make(b, t.add(column, i * beside), x.width, clip) for i in range(n)]
        with b.loop("c", 0, x.channels, "vector") as c:
            middle = []
            for at in columns:
                d = []
                for line in rows:
                    place = t.add(x.offset(batch, line.index, at.index), c)
                    value: Expr = t.load(x.buffer, (place,))
                    if clip:
                        exists = t.binary("and", line.exists, at.exists)
                        value = t.select(exists, value, t.const(0.0, F32))
                    d.append(b.let("d", value))
                middle.append(self.form.transform_input(d, self._madd, self._bind))
            for i in range(n):
                across = [of_column[i] for of_column in middle]
                for j, value in enumerate(
                    self.form.transform_input(across, self._madd, self._bind)
                ):
                    b.store(v.buffer, (v.place(i * n + j, tile, c),), value)

    # V x U -> M

    def _block_products(
        self, block: Var, begin: Expr, end: Expr, count: Expr, v: Planes, m: Planes
    ) -> None:
        """The products of a block of `count` tiles, which is the number of a whole one or of the last."""
        b, size = self.b, self.blocking.block
        full, rest = divmod(self._total(), size)
        if not (rest and full):
            self._products(begin, end, size if full else rest, v, m)
            return
        with b.when(t.compare("lt", block, full)):
            self._products(begin, end, size, v, m)
        with b.otherwise():
            self._products(begin, end, rest, v, m)

    def _products(self, begin: Expr, end: Expr, count: int | Expr, v: Planes, m: Planes) -> None:
        """M[point] = V[point] x U[point] for the panels [begin, end); the last of all may be narrower."""
        b = self.b
        full, rest = divmod(self.problem.y.channels, self.panel)
        with b.loop("point", 0, self.form.products) as point:
            with b.loop("panel", begin, t.minimum(end, full) if rest else end) as panel:
                self._product(point, panel, begin, self.panel, count, v, m)
            if rest:
                with b.when(t.compare("eq", end, self.panels)):
                    self._product(point, t.as_expr(full), begin, rest, count, v, m)

    def _product(
        self, point: Expr, panel: Expr, begin: Expr, n: int, count: int | Expr, v: Planes, m: Planes,
    ) -> None:  # fmt: skip
        """M[point] = V[point] x U[point] for one panel."""
        assert isinstance(count, int)
        self.b.emit(self._tiles_product(point, panel, begin, n, t.ZERO, count, v, m))

    def _tiles_product(
        self, point: Expr, panel: Expr, begin: Expr, n: int, first: Expr, count: int, v: Planes, m: Planes,
    ) -> Brgemm:  # fmt: skip
        """The product of `count` tiles from `first` on."""
        k, u = self.problem.x.channels, self.problem.u
        number = t.add(t.mul(point, self.panels), panel)
        column = t.mul(t.sub(panel, begin), self.panel)
        place, size = t.mul(number, k * self.panel), k * self.panel
        prefetch = (PrefetchHint(Slice(u, (t.add(place, size),)), size),)
        return Brgemm(
            Slice(m.buffer, (m.place(point, first, column),)),
            Slice(v.buffer, (v.place(point, first, t.ZERO),)),
            Slice(u, (place,)), count, n, k, 1, 0, v.row, 1, 0, self.panel, m.row, False, self.panel,
            None, self._tile_rows(n, count), prefetch if self.is_far else (), 1,
        )  # fmt: skip

    def _tile_rows(self, columns: int, rows: int = 0) -> int:
        """The height of register tiles; the same for any number of `rows`, as it says how sums are split."""
        return rows_for(columns, self.blocking.tile, self.target, f32_kernel(self.target))

    # M -> image

    def _store_tile(self, number: Expr, tile: Expr, start: Expr, columns: Expr, m: Planes) -> Expr:
        """All results of one tile; returns zero, or NaN if one of them is not finite."""
        b, y, size = self.b, self.problem.y, self.form.results
        odd = b.allocate("odd", F32, (1,))
        b.store(odd, (0,), t.const(0.0, F32))
        batch, row, column = self._place(number)
        below, beside = self.problem.dilations
        rows = b.let("rows", self._results_along(row, y.height, below))
        with b.loop("o", 0, columns, "vector") as o:
            middle = b.allocate("middle", F32, (size, self.form.elements))
            for j in range(self.form.elements):
                positions = [
                    (m.place(i * self.form.elements + j, tile, o),)
                    for i in range(self.form.elements)
                ]
                products = [b.let("p", t.load(m.buffer, place)) for place in positions]
                sums = self.form.transform_output(products, self._madd, self._bind)
                for i, value in enumerate(sums):
                    b.store(middle, (i, j), value)
            with b.loop("i", 0, rows) as down:
                line = [b.let("s", t.load(middle, (down, j))) for j in range(self.form.elements)]
                results = self.form.transform_output(line, self._madd, self._bind)
                for value in results:
                    b.store(odd, (0,), self._madd(0.0, value, t.load(odd, (0,))))
                for j, value in enumerate(results):
                    right = t.add(column, j * beside)
                    is_cut = not is_known(y.width) or bool(y.width % (size * beside))
                    with self._if(t.compare("lt", right, y.width), is_cut and j + beside > 1):
                        place = t.add(row, t.mul(down, below))
                        self._store((batch, t.add(start, o), place, right), value)
        return b.let("odd", t.load(odd, (0,)))

    # image -> image, for tiles that the transforms cannot do

    def _convolve_tile(self, number: Expr, chunk: Expr, last: Expr) -> None:
        """All results of one tile again, for the panels [chunk, last): the sums over their windows."""
        b, y, size = self.b, self.problem.y, self.form.results
        batch, row, column = self._place(number)
        below, beside = self.problem.dilations
        rows = b.let("rows", self._results_along(row, y.height, below))
        across = b.let("across", self._results_along(column, y.width, beside))

        def pixel(i: Expr, j: Expr) -> tuple[Expr, Expr]:
            return t.add(row, t.mul(i, below)), t.add(column, t.mul(j, beside))

        with b.loop("panel", chunk, last) as panel:
            start = b.let("start", t.mul(panel, self.panel))
            columns = b.let("columns", t.minimum(t.sub(y.channels, start), self.panel))
            with b.loop("o", 0, columns, "vector") as o:
                sums = b.allocate("sums", F32, (size * size,))
                with b.loop("i", 0, size * size) as i:
                    b.store(sums, (i,), t.const(0.0, F32))
                with b.loop("c", 0, self.problem.x.channels) as c:
                    taps = self._taps(panel, c, o)
                    with b.loop("i", 0, rows) as i, b.loop("j", 0, across) as j:
                        place = t.add(t.mul(i, size), j)
                        self._add_window((batch, *pixel(i, j)), c, taps, sums, place)
                with b.loop("i", 0, rows) as i, b.loop("j", 0, across) as j:
                    total = t.load(sums, (t.add(t.mul(i, size), j),))
                    self._store((batch, t.add(start, o), *pixel(i, j)), total)

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
        line = t.add(t.mul(t.add(point * self.panels, panel), self.problem.x.channels), c)
        return t.load(self.problem.u, (t.add(t.mul(line, self.panel), o),))

    def _tap(self, terms: Sequence[tuple[float, Expr]]) -> Expr:
        """The sum of factor * value; zero where rounding leaves no more than that of it."""
        (factor, first), *others = terms
        total: Expr = t.mul(first, factor)
        if not others:
            return total
        size = t.unary("abs", total)
        for factor, value in others:
            part = self.b.let("part", t.mul(value, factor))
            total, size = t.add(total, part), t.add(size, t.unary("abs", part))
        total = self.b.let("total", total)
        small = t.compare("le", t.unary("abs", total), t.mul(size, self.form.smallest_tap))
        return t.select(small, t.const(0.0, F32), total)

    def _add_window(
        self, at: tuple[Expr, Expr, Expr], c: Expr, taps: Buffer, sums: Buffer, place: Expr
    ) -> None:
        """Add the products of a channel to one result; what lies outside the image is zero."""
        b, x = self.b, self.problem.x
        batch, row, column = at
        below, beside = self.problem.dilations
        with b.loop("p", 0, 3) as p, b.loop("q", 0, 3) as q:
            down = b.let("down", t.sub(t.add(row, t.mul(p, below)), self.problem.top))
            right = b.let("right", t.sub(t.add(column, t.mul(q, beside)), self.problem.left))
            inside = [t.compare("ge", down, 0), t.compare("lt", down, x.height)]
            inside += [t.compare("ge", right, 0), t.compare("lt", right, x.width)]
            with b.when(_all(inside)):
                pixel = t.load(x.buffer, (t.add(x.offset(batch, down, right), c),))
                tap = t.load(taps, (t.add(t.mul(p, 3), q),))
                b.store(sums, (place,), t.add(t.load(sums, (place,)), t.mul(tap, pixel)))

    def _store(self, index: tuple[Expr, ...], value: Expr) -> None:
        """y[index] = epilogue(value) for a plain index [batch, channel, row, column]."""
        b, y = self.b, self.problem.y
        batch, channel, row, column = index
        with b.block():
            if self.epilogue is not None:
                lets, value = self.epilogue(index, value)
                for let in lets:
                    b.emit(let)
            b.store(y.buffer, (t.add(y.offset(batch, row, column), channel),), value)

    # helpers

    def _place(self, number: Expr) -> tuple[Expr, Expr, Expr]:
        """(image, row, column) of the first result of a tile."""
        b, (down, across) = self.b, self.tiles
        image, ty = t.as_expr(0), b.let("line", t.floordiv(number, across))
        tx = b.let("tx", t.mod(number, across))
        if self.problem.batch != 1:
            image, ty = b.let("image", t.floordiv(ty, down)), b.let("ty", t.mod(ty, down))
        below, beside = self.problem.dilations
        return image, b.let("row", self._first(ty, below)), b.let("column", self._first(tx, beside))

    def _first(self, tile: Expr, step: int) -> Expr:
        """The first row of results of a row of tiles, or column: those of all phases, then those further on."""
        if step == 1:
            return t.mul(tile, self.form.results)
        return t.add(t.mul(t.floordiv(tile, step), self.form.results * step), t.mod(tile, step))

    def _results_along(self, first: Expr, size: Any, step: int) -> Expr:
        """Rows of results of a tile, or columns, that lie before `size`: none in a tile behind a short phase."""
        left = t.floordiv(t.sub(t.add(size, step - 1), first), step)
        return t.minimum(left if step == 1 else t.maximum(left, 0), self.form.results)

    @contextmanager
    def _if(self, condition: Expr, is_needed: bool) -> Iterator[None]:
        if not is_needed:
            yield
            return
        with self.b.when(condition):
            yield

    def _bind(self, value: Expr) -> Expr:
        return value if isinstance(value, Var) else self.b.let("w", value)

    def _madd(self, factor: float, x: Expr, y: Expr | None) -> Expr:
        if y is None:
            return x if factor == 1.0 else t.mul(x, factor)
        if abs(factor) == 1.0:
            return t.add(y, x) if factor > 0 else t.sub(y, x)
        if self.target.table.has_fma:
            return t.fma(t.const(factor, F32), x, y)
        return t.add(y, t.mul(x, factor))


def _all(conditions: Sequence[Expr]) -> Expr:
    result = conditions[0]
    for condition in conditions[1:]:
        result = t.binary("and", result, condition)
    return result
