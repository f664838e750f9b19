"""Staging an image: a box of it with its padding.

    stage A at y0 as band[iy,ix,k]        rows of the padded image, channels last
    stage A at y0 as band[iy,k0,ix,k1]    the same with channels in blocks

`iy` and `ix` are the dimensions of the padded image that the windows reach. Each element is copied once, converted to
the dtype that is multiplied, and multiplied by every tap of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Block, Buffer, Expr, If, Stmt, Store, Var
from .nest import Nest, Stage
from .packing import loop
from .position import Position
from .problem import View

BOX = ("iy", "ix")
"""The dimensions of an image."""


class Box:
    """The rows of a padded image that the loops inside a stage touch, in a local `band`, with channels in whole
    groups."""

    def __init__(self, nest: Nest, stage: Stage, position: Position) -> None:
        kernel, sizes = nest.problem.kernel, nest.problem.sizes
        self.position, self.view = position, position.view("A")
        self.windows = [self.view.windows[name] for name in BOX]
        around = [x.step for x in nest.loops[: nest.depth(stage.at)] if x.axis == "y"]
        extents = {**sizes, "y": min([sizes["y"], *around])}
        self.rows, self.columns = (
            1 + sum((extents[axis] - 1) * step for axis, step in window.steps.items())
            for window in self.windows
        )
        self.copied_channels, group = sizes["k"], kernel.k_group
        self.channels = -(-sizes["k"] // group) * group
        self.block = self.view.blocks.get("k", (self.channels, 0))[0]
        extent = {"iy": self.rows, "ix": self.columns, "k": self.channels}
        extent |= {"k0": self.channels // self.block, "k1": self.block}
        self.strides: dict[str, int] = {}
        size = 1
        for name in reversed(stage.layout):
            self.strides[name], size = size, size * extent[name]
        self.band = Buffer(stage.name, kernel.copied_a, (size,), "local")

    @property
    def copied(self) -> View:
        """Return the view of the band."""
        axes: dict[str, Any] = {"k": 1}
        for name, window in zip(BOX, self.windows, strict=True):
            axes |= {axis: step * self.strides[name] for axis, step in window.steps.items()}
        blocks = {"k": (self.block, self.strides["k0"])} if self.view.blocks else {}
        return View(self.band, axes, blocks)

    def copy(self) -> Stmt:
        """Return the loop that fills the band, row by row: zeros if a row is outside of the image."""
        row, window = Var("pr"), self.windows[0]
        to, at = row * self.strides["iy"], t.as_expr(-window.before)
        for axis, step in window.steps.items():
            at = at + self.position.start(axis) * step
        inside = Block(tuple(self._row(to, row * window.stride)))
        outside = Block(tuple(zeros(self.band, to, self.strides["iy"])))
        copy = where_inside(at + row, window.size, inside, outside)
        return loop(row, self.rows, copy, "serial")

    def _row(self, to: Expr, from_: Expr) -> list[Stmt]:
        """A row of the image: zeros, columns, zeros; of each block of channels, or of all."""
        window, tap, view, band = self.windows[1], self.strides["ix"], self.view, self.band
        left = min(window.before, self.columns)
        width = max(0, min(window.size, self.columns - left))
        counts = left, width, self.columns - left - width
        start = self.position.offset("A") + from_ + left * window.stride
        if view.blocks:
            c, distance = Var("pc"), view.step("k", self.block)
            line = self._line(to + c * self.strides["k0"], start + c * distance, counts, tap)
            return [loop(c, self.channels // self.block, Block(tuple(line)), "serial")]
        if window.stride == tap == self.copied_channels:
            return self._line(to, start, counts, tap)
        p, own = Var("pp"), self.copied_channels
        pixel = copy_run(band, to + (p + left) * tap, view.buffer, start + p * window.stride, own)
        rest = zeros(band, to + (p + left) * tap + own, tap - own)
        return [
            *zeros(band, to, left * tap),
            loop(p, width, Block((pixel, *rest)) if rest else pixel, "serial"),
            *zeros(band, to + (left + width) * tap, counts[2] * tap),
        ]

    def _line(self, to: Expr, from_: Expr, counts: Sequence[int], tap: int) -> list[Stmt]:
        left, width, right = (count * tap for count in counts)
        return [
            *zeros(self.band, to, left),
            copy_run(self.band, to + left, self.view.buffer, from_, width),
            *zeros(self.band, to + (left + width), right),
        ]


def where_inside(at: Expr, size: Any, inside: Stmt, outside: Stmt) -> Stmt:
    """Return `inside` where 0 <= `at` < `size`, else `outside`."""
    return If(at >= 0, If(at < size, inside, outside), outside)


def copy_run(to: Buffer, start: Expr, source: Buffer, from_: Expr, count: int) -> Stmt:
    """Return the copy of contiguous elements, converted to the dtype of `to`."""
    i = Var("pe")
    value = t.cast(source[from_ + i], to.dtype)
    return loop(i, count, Store(to, (start + i,), value), "vector")


def zeros(to: Buffer, start: Expr, count: int) -> list[Stmt]:
    """Return the loop that writes zeros, if there are any."""
    i = Var("pz")
    return (
        [loop(i, count, Store(to, (start + i,), t.const(0, to.dtype)), "vector")] if count else []
    )
