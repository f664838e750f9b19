"""Memory of a Winograd convolution, images and the planes of a block of tiles, and its tiles: their positions, their
transforms, and the store of one result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...base.dtypes import DType
from ...base.records import dataclass
from ...targets.isa import Target
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Var
from ..nest.epilogue import EpilogueValue, store_result
from ..nest.problem import View
from ..schedule.winograd_tile import WinogradBlocking, plane_strides, tiles_along


@dataclass(frozen=True)
class Image:
    """An image per batch index, channels last, in a flat buffer: [batch][height][width][channels].

    Height and width may be dynamic.
    """

    buffer: Buffer
    height: Any
    width: Any
    channels: int

    def offset(self, batch: Expr, row: Expr, column: Expr) -> Expr:
        """The index of channel 0 of a pixel."""
        line = batch * self.height + row
        return (line * self.width + column) * self.channels


@dataclass(frozen=True)
class WinogradProblem:
    """Sizes and operands of one convolution. `top` and `left` are the rows and columns of padding before the image,
    `dilations` the distances of the rows and columns of a window, and so of a tile.

    `u` holds the transformed weights [points, channels / panel of y][channels of x][panel of y], of s16 with pairs of
    channels innermost, of an odd number with a zero behind.
    """

    batch: Any
    x: Image
    u: Buffer
    y: Image
    top: int
    left: int
    dilations: tuple[int, int] = (1, 1)


def planes(
    b: t.LoopBuilder, name: str, axis: str, sizes: tuple[int, int, int], dtype: DType
) -> View:
    """Allocate a matrix for each point, of `sizes` points, tiles and columns; return its view with axes b0, m and
    `axis`. Strides put points and rows in different cache sets."""
    points, tiles, columns = sizes
    row, plane = plane_strides(tiles, columns, dtype)
    return View(b.allocate(name, dtype, (points * plane,)), {"b0": plane, "m": row, axis: 1})


def in_plane(view: View, point: int, tile: Expr, column: Expr) -> Expr:
    """Return the index of an element."""
    return t.as_expr(point) * view.strides["b0"] + tile * view.strides["m"] + column


class WinogradTiles:
    """The tiles of one problem in the form of a blocking; code goes to `b`.

    Results come in `panels` panels of `panel` channels.
    """

    def __init__(
        self,
        b: t.LoopBuilder,
        problem: WinogradProblem,
        blocking: WinogradBlocking,
        target: Target,
        epilogue: EpilogueValue | None,
    ) -> None:
        self.b, self.problem, self.form = b, problem, blocking.form
        self.target, self.epilogue = target, epilogue
        self.panel = blocking.tile.columns(target)
        self.panels = -(-problem.y.channels // self.panel)
        m, y = self.form.results, problem.y
        self.counts = tuple(
            t.as_expr(tiles_along(size, m, step))
            for size, step in zip((y.height, y.width), problem.dilations, strict=True)
        )

    def first_pixel(self, number: Expr) -> tuple[Expr, Expr, Expr]:
        """(image, row, column) of the first result of a tile."""
        b, (down, across) = self.b, self.counts
        image, ty = t.as_expr(0), b.let("line", number // across)
        tx = b.let("tx", number % across)
        if self.problem.batch != 1:
            image, ty = b.let("image", ty // down), b.let("ty", ty % down)
        below, beside = self.problem.dilations
        return image, b.let("row", self._first(ty, below)), b.let("column", self._first(tx, beside))

    def _first(self, tile: Expr, step: int) -> Expr:
        """The first row of results of a row of tiles, or column: those of all phases, then those further on."""
        if step == 1:
            return tile * self.form.results
        return tile // step * (self.form.results * step) + tile % step

    def results_along(self, first: Expr, size: Any, step: int) -> Expr:
        """Rows of results of a tile, or columns, that lie before `size`: none in a tile behind a short phase."""
        left = (t.as_expr(size) + (step - 1) - first) // step
        return t.minimum(left if step == 1 else t.maximum(left, 0), self.form.results)

    def counts_of(self, at: tuple[Expr, Expr, Expr]) -> tuple[Expr, Expr]:
        """Return (rows, columns) of the results of the tile whose first one is `at`."""
        b, y, (_, row, column), (below, beside) = self.b, self.problem.y, at, self.problem.dilations
        rows = b.let("rows", self.results_along(row, y.height, below))
        return rows, b.let("across", self.results_along(column, y.width, beside))

    def each_result(
        self, at: tuple[Expr, Expr, Expr], counts: tuple[Expr, Expr]
    ) -> Iterator[tuple[Expr, tuple[Expr, Expr, Expr]]]:
        """Yield (number in a whole tile, [image, row, column]) of the results of a tile, in loops."""
        b, (image, row, column), (below, beside) = self.b, at, self.problem.dilations
        with b.loop("i", 0, counts[0]) as i, b.loop("j", 0, counts[1]) as j:
            yield i * self.form.results + j, (image, row + i * below, column + j * beside)

    def columns(self, m: View, tile: Expr, o: Expr) -> Iterator[list[Expr]]:
        """Yield A^T M of one channel, a column of the points at a time."""
        n = self.form.elements
        for j in range(n):
            points = (m.buffer[in_plane(m, i * n + j, tile, o)] for i in range(n))
            values = [self.b.let("p", point) for point in points]
            yield self.form.transform_output(values, self.madd, self.bind)

    def store(self, index: tuple[Expr, ...], value: Expr) -> None:
        """y[index] = epilogue(value) for a plain index [batch, channel, row, column]."""
        y, (batch, channel, row, column) = self.problem.y, index
        at = y.offset(batch, row, column) + channel
        store_result(self.b, y.buffer, at, index, value, self.epilogue)

    def bind(self, value: Expr) -> Expr:
        """A name for a value that is used more than once."""
        return value if isinstance(value, Var) else self.b.let("w", value)

    def madd(self, factor: float, x: Expr, y: Expr | None) -> Expr:
        """factor * x + y, of integers too."""
        if y is None:
            return x if factor == 1.0 else x * factor
        if abs(factor) == 1.0:
            return y + x if factor > 0 else y - x
        if not x.dtype.is_float and factor < 0:
            return y - x * -factor
        if x.dtype.is_float and self.target.table.has_fma:
            return t.fma(t.const(factor, x.dtype), x, y)
        return y + x * factor


def all_of(conditions: Sequence[Expr]) -> Expr:
    """Return whether every condition holds."""
    result = conditions[0]
    for condition in conditions[1:]:
        result = result & condition
    return result
