"""Winograd convolution of 3 x 3 windows with stride 1: few multiplications, in blocks of tiles that stay in cache.

A dilated window reads pixels of one phase of the image only, and its result belongs to that phase too: dilation d makes
d x d convolutions of its phases, whose tiles take each d-th row and column.

    for each block of tiles, group of panels of U (parallel):
      for each tile: V[point][tile] = B^T d B             vectors over channels; padding is zeros, nothing is copied
      for each chunk of the panels:
        for each point, panel: M[point] = V[point] x U[point]                                      one Brgemm
        for each tile: y = epilogue(A^T M A)              results outside the image are skipped
          floats: if one of these is not finite: y = epilogue(the sum over the window), for the whole tile

F(4 x 4) needs 36 multiply-adds per channel for 16 results, where the direct form needs 144; F(2 x 2) needs 16 for 4.
Bytes are transformed in s16 and multiplied in pairs, with sums in s32 that wrap: the results are exact all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...base.dims import Dim, Size, bounds
from ...targets.isa import Target
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Cast, Expr, Function, LoopKind, Stmt, Var
from ..nest.epilogue import EpilogueValue
from ..nest.lower import Lowering
from ..nest.position import Chunk, Position
from ..nest.problem import View, matmul
from ..schedule.matmul_steps import inner_nest
from ..schedule.winograd_tile import WinogradBlocking, winograd_kernel
from .winograd_bytes import ByteResults
from .winograd_floats import FloatResults
from .winograd_tiles import WinogradProblem, all_of, in_plane, planes


class WinogradTemplate:
    """Builds the loop nest of one problem under one blocking.

    `total`: the tiles of all images. Where sizes are dynamic, `lets` bind those of the problem, and `threads` share the
    blocks of tiles evenly.
    """

    def __init__(
        self,
        problem: WinogradProblem,
        blocking: WinogradBlocking,
        target: Target,
        kind: LoopKind,
        epilogue: EpilogueValue | None,
        total: Size,
        lets: Sequence[Stmt] = (),
        threads: int = 1,
    ) -> None:
        self.total, self.lets, self.threads = total, lets, threads
        self.problem = problem
        self.blocking = blocking
        self.form = blocking.form
        self.target = target
        self.kind = kind
        self.kernel = winograd_kernel(self.form, target)
        self.panel = blocking.tile.columns(target)
        self.panels = -(-problem.y.channels // self.panel)
        self.group_panels = -(-self.panels // blocking.groups)
        u_bytes = self.form.matmuls * problem.x.channels * problem.y.channels * problem.u.dtype.size
        self.is_far = u_bytes > target.l2_bytes // 2
        self.chunk = min(blocking.chunk, self.group_panels)
        self.b = t.LoopBuilder([problem.x.buffer.name, problem.u.name, problem.y.buffer.name])
        kind_of = FloatResults if self.form.sums.is_float else ByteResults
        self.results = kind_of(self.b, problem, blocking, target, epilogue)

    def function(self, name: str, params: tuple[Buffer, ...], note: str) -> Function:
        """The whole convolution as a function."""
        of_row_tiles = ("at", "whole", "left", "upper", "lower", "part")
        for reserved in (*(param.name for param in params), *of_row_tiles):
            self.b.names.reserve(reserved)
        with (
            self.b.loop("block", 0, self._blocks(), self.kind) as block,
            self.b.loop("group", 0, -(-self.panels // self.group_panels), self.kind) as group,
        ):
            self._task(block, group)
        return self.b.function(name, params, note)

    def _blocks(self) -> int | Expr:
        """The number of blocks of tiles; of dynamic tiles at least as many as threads, or a multiple."""
        size = self.blocking.block
        if isinstance(self.total, int):
            return -(-self.total // size)
        total = t.as_expr(self.total)
        blocks = (total + (size - 1)) // size
        if self.kind == "parallel" and self.threads > 1:
            even = (blocks + (self.threads - 1)) // self.threads
            blocks = t.minimum(total, even * self.threads)
        return blocks

    def _range(self, block: Var) -> tuple[Expr, Expr]:
        """(first tile of a block, number of its tiles); blocks of dynamic tiles differ by one tile at most."""
        b, size = self.b, self.blocking.block
        if isinstance(self.total, int):
            first = b.let("first", block * size)
            return first, b.let("count", t.minimum(self.total - first, size))
        b.emit(*self.lets)
        number, blocks = b.let("total", t.as_expr(self.total)), b.let("blocks", self._blocks())
        first = b.let("first", block * number // blocks)
        return first, b.let("count", (block + 1) * number // blocks - first)

    def _task(self, block: Var, group: Var) -> None:
        """A block of tiles and a group of panels, from input image to result."""
        b, size, p = self.b, self.blocking.block, self.problem
        points, operand, sums = self.form.matmuls, self.form.operand, self.form.sums
        v = planes(b, "v", "k", (points, size, p.x.channels), operand)
        m = planes(b, "m", "n", (points, size, self.chunk * self.panel), sums)
        first, count = self._range(block)
        with b.loop("tile", 0, count) as tile:
            self._load_tile(first + tile, tile, v)
        begin = group * self.group_panels
        end = t.minimum(begin + self.group_panels, self.panels)
        with b.loop("chunk", begin, end, step=self.chunk) as chunk:
            last = b.let("last", t.minimum(chunk + self.chunk, end))
            self._block_matmuls(block, chunk, last, count, v, m)
            start = b.let("start", chunk * self.panel)
            columns = b.let("columns", t.minimum(last * self.panel, p.y.channels) - start)
            with b.loop("tile", 0, count) as tile:
                number = b.let("number", first + tile)
                self.results.finish(number, tile, (chunk, last), start, columns, m)

    # image -> V

    def _load_tile(self, number: Expr, tile: Expr, v: View) -> None:
        b, x, p = self.b, self.problem.x, self.problem
        batch, at_row, at_column = self.results.first_pixel(number)
        row = b.let("row", at_row - p.top)
        column = b.let("column", at_column - p.left)
        high, wide = ((self.form.elements - 1) * step + 1 for step in p.dilations)
        inside = [row >= 0, row <= x.height - high]
        inside += [column >= 0, column <= x.width - wide]
        if bounds(x.height)[1] < high or bounds(x.width)[1] < wide:
            self._transform_input(batch, row, column, tile, v, clip=True)
            return
        with b.when(all_of(inside)):
            self._transform_input(batch, row, column, tile, v, clip=False)
        with b.otherwise():
            self._transform_input(batch, row, column, tile, v, clip=True)

    def _transform_input(
        self, batch: Expr, row: Expr, column: Expr, tile: Expr, v: View, clip: bool
    ) -> None:
        """One tile, all channels; with `clip`, indices outside the image are clamped and their elements zeroed."""
        b, x, n = self.b, self.problem.x, self.form.elements
        below, beside = self.problem.dilations
        steps = self.results.madd, self.results.bind
        rows = self._lines(row, below, x.height, clip)
        columns = self._lines(column, beside, x.width, clip)
        with b.loop("c", 0, x.channels, "vector") as c:
            middle = []
            for right, column_exists in columns:
                d = []
                for down, row_exists in rows:
                    value: Expr = x.buffer[x.offset(batch, down, right) + c]
                    if clip:
                        exists = row_exists & column_exists
                        value = t.select(exists, value, t.const(0, value.dtype))
                    if value.dtype != v.buffer.dtype:
                        value = Cast(value, v.buffer.dtype)
                    d.append(b.let("d", value))
                middle.append(self.form.transform_input(d, *steps))
            for i in range(n):
                across = [of_column[i] for of_column in middle]
                for j, value in enumerate(self.form.transform_input(across, *steps)):
                    b.store(v.buffer, (in_plane(v, i * n + j, tile, c),), value)

    def _lines(self, first: Expr, step: int, size: Any, clip: bool) -> list[tuple[Expr, Expr]]:
        """Return (index, whether it exists) of the rows or columns of a tile from `first` on."""
        b, lines = self.b, []
        for at in (first + i * step for i in range(self.form.elements)):
            index = b.let("at", t.minimum(t.maximum(at, 0), size - 1)) if clip else at
            lines.append((index, b.let("exists", t.equal(at, index)) if clip else t.const(True)))
        return lines

    # V x U -> M

    def _block_matmuls(
        self, block: Var, begin: Expr, end: Expr, count: Expr, v: View, m: View
    ) -> None:
        """Multiply a block of `count` tiles, which is the number of a whole one or of the last, by panels from `begin`
        to `end`; the last of all may be narrower."""
        b, total = self.b, self.total
        lowering, position = self._matmuls(begin, v, m)
        full, rest = divmod(self.problem.y.channels, self.panel)
        whole = t.minimum(end, full) if rest else end
        position = position.chunked("n0", Chunk(begin, whole, t.equal(end, self.panels)))
        size = self.blocking.block
        for tiles in (count,) if isinstance(total, Dim) else b.tile_sizes(block, total, size):
            b.emit(lowering.task(0, position.enter("m", t.ZERO, 1, tiles)))

    def _matmuls(self, begin: Expr, v: View, m: View) -> tuple[Lowering, Position]:
        """M[point] = V[point] x U[point]; M begins with panel `begin`."""
        points, k, u = self.form.matmuls, self.problem.x.channels, self.problem.u
        group = self.kernel.k_group
        size = -(-k // group) * group * self.panel
        views = (
            v,
            View(u, {"b0": self.panels * size, "k": self.panel, "n": 1}, {"n": (self.panel, size)}),
            m.at(begin * -self.panel),
        )
        sizes = self.blocking.block, self.problem.y.channels, k
        problem = matmul((points,), sizes, views, self.kernel, None)
        nest = inner_nest("points", problem, self.blocking.tile, self.target)
        tile = nest.tile and replace(nest.tile, any_rows=True)
        # The next panel of U is prefetched if it is not in L2 yet.
        nest = nest.changed(tile=tile, prefetch=int(self.is_far))
        return Lowering(nest, self.target), Position.outermost(problem)
