"""Memory of a Winograd convolution: images, and the planes of a block of tiles, one per point."""

from __future__ import annotations

from typing import Any

from ...base.dtypes import DType
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr
from ..schedule.winograd_tile import plane_strides


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


@dataclass(frozen=True)
class Planes:
    """A matrix [tiles, columns] per point in a local buffer. Strides put points and rows in different cache sets."""

    buffer: Buffer
    plane: int
    row: int

    @staticmethod
    def allocate(
        b: t.LoopBuilder, name: str, points: int, tiles: int, columns: int, dtype: DType
    ) -> Planes:
        """A local matrix [tiles, columns] for each of `points`."""
        row, plane = plane_strides(tiles, columns, dtype)
        return Planes(b.allocate(name, dtype, (points * plane,)), plane, row)

    def index(self, point: Expr | int, tile: Expr, column: Expr) -> Expr:
        """Index of an element."""
        start = t.as_expr(point) * self.plane
        return start + tile * self.row + column


@dataclass(frozen=True)
class Line:
    """A row or column of the image: the clamped index, and whether it was inside."""

    index: Expr
    exists: Expr

    @staticmethod
    def make(b: t.LoopBuilder, at: Expr, size: Any, clip: bool) -> Line:
        """The line `at` of `size` lines; with `clip` it may lie outside."""
        if not clip:
            return Line(at, t.const(True))
        index = b.let("at", t.minimum(t.maximum(at, 0), size - 1))
        return Line(index, b.let("exists", t.equal(at, index)))
