"""Staging an image: a box of it with its padding, or the windows of each pixel.

    stage A at y0 as band[iy,ix,k]        rows of the padded image, channels last
    stage A at y0 as band[iy,k,ix]        the same with a line of each channel, for few channels
    stage A at y0 as band[iy,k0,ix,k1]    the same with channels in blocks
    stage A at b1 as patches[y,m,ky,kx,k] im2col: what each pixel multiplies is contiguous

`iy` and `ix` are the dimensions of the padded image that the windows reach. Each element is copied once
and converted to the dtype that is multiplied; in a box it is multiplied by every tap of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.dtypes import DType
from ...base.errors import UserError
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Block, Buffer, Expr, If, Stmt, Store, Var
from .nest import Nest, Stage
from .packing import loop
from .position import Position
from .problem import View, Window

BOX = ("iy", "ix")
"""The dimensions of an image."""


@dataclass(frozen=True)
class Copied:
    """A staged image: its view, and the statements that fill it."""

    view: View
    channels: int
    statements: list[Stmt]


def stage_image(nest: Nest, stage: Stage, position: Position) -> Copied:
    """Return the copy of the part of an image that the loops inside a stage touch. Raise UserError for other
    layouts."""
    if set(BOX) <= set(stage.layout):
        return _Box(nest, stage, position).copied()
    return _Patches(nest, stage, position).copied()


class _Image:
    """The image at a position, and the buffer for what is copied."""

    def __init__(self, nest: Nest, stage: Stage, position: Position) -> None:
        kernel = nest.problem.kernel
        self.stage, self.nest, self.position = stage, nest, position
        self.view, self.start = position.view("A"), position.offset("A")
        self.dtype: DType = kernel.copied_a
        self.group, self.channels = kernel.k_group, nest.problem.sizes["k"]
        self.windows = [self.view.windows[name] for name in BOX]

    def reach(self, name: str, extents: dict[str, Any]) -> int:
        """Return the positions of a dimension that windows over `extents` of its axes reach."""
        return 1 + sum((extents[a] - 1) * step for a, step in self.view.windows[name].steps.items())

    def local(self, elements: int) -> Buffer:
        """Return the buffer."""
        return Buffer(self.stage.name, self.dtype, (elements,), "local")

    def first(self, window: Window) -> Expr:
        """Return the first position of a dimension, before which padding lies."""
        at: Expr = t.as_expr(-window.before)
        for axis, step in window.steps.items():
            at = at + self.position.start(axis) * step
        return at

    def wrong(self, rule: str) -> UserError:
        """Return the error for a layout that breaks a rule."""
        layout = ",".join(self.stage.layout)
        return UserError(
            f"schedule: stage A at {self.stage.at} as {self.stage.name}[{layout}]: {rule}"
        )


class _Box(_Image):
    """Rows of the padded image."""

    def copied(self) -> Copied:
        """Return the copy, row by row: zeros if a row is outside of the image."""
        rows, columns, channels, block = self._sizes()
        sizes = rows, columns, channels, channels // block, block
        if sorted(self.stage.layout) not in (sorted((*BOX, "k")), sorted((*BOX, "k0", "k1"))):
            raise self.wrong("the dimensions must be iy, ix and k, or k0 and k1, each once")
        layout = dict(zip(("iy", "ix", "k", "k0", "k1"), sizes, strict=True))
        strides: dict[str, int] = {}
        size = 1
        for name in reversed(self.stage.layout):
            strides[name], size = size, size * layout[name]
        band = self.local(size)
        view = self._view(band, strides, block)
        row, of_rows = Var("pr"), self.windows[0]
        inside = Block(
            tuple(self._row(band, row * strides["iy"], row * of_rows.stride, strides, block))
        )
        outside = zeros(band, row * strides["iy"], strides["iy"])
        at = self.first(of_rows) + row
        copy = where_inside(at, of_rows.size, inside, Block(tuple(outside)))
        return Copied(view, channels, [loop(row, rows, copy, "serial")])

    def _sizes(self) -> tuple[int, int, int, int]:
        """(rows, columns, channels in whole groups, channels of a block)."""
        around = [
            x.step for x in self.nest.loops[: self.nest.depth(self.stage.at)] if x.axis == "y"
        ]
        most = min([self.nest.problem.sizes["y"], *around])
        extents = {**self.nest.problem.sizes, "y": most}
        rows, columns = (self.reach(name, extents) for name in BOX)
        channels = -(-self.channels // self.group) * self.group
        width = self.view.blocks.get("k", (0, 0))[0]
        return rows, columns, channels, width if "k0" in self.stage.layout else channels

    def _view(self, band: Buffer, strides: dict[str, int], block: int) -> View:
        axes: dict[str, Any] = {"k": strides.get("k", 1)}
        for name, window in zip(BOX, self.windows, strict=True):
            axes |= {axis: step * strides[name] for axis, step in window.steps.items()}
        blocks = {"k": (block, strides["k0"])} if "k0" in strides else {}
        return View(band, axes, blocks)

    def _row(
        self, band: Buffer, to: Expr, from_: Expr, strides: dict[str, int], block: int
    ) -> list[Stmt]:
        """A row of the image: zeros, columns, zeros; of each channel or block of channels, or of all."""
        columns, window = self._sizes()[1], self.windows[1]
        left = min(window.before, columns)
        width = max(0, min(window.size, columns - left))
        counts, start = (left, width, columns - left - width), self.start + from_
        start = start + left * window.stride
        last = self.stage.layout[-1]
        tap, view = strides["ix"], self.view
        if last == "ix" or "k0" in strides:  # a line of each channel or block
            outer = "k0" if "k0" in strides else "k"
            count, distance = (
                self.channels // block if outer == "k0" else self.channels,
                view.step("k"),
            )
            if outer == "k0":
                distance = view.step("k", block)
            c = Var("pc")
            line = self._line(band, to + c * strides[outer], start + c * distance, counts, tap)
            return [loop(c, count, Block(tuple(line)), "serial")]
        if window.stride == tap == self.channels:
            return self._line(band, to, start, counts, tap)
        p = Var("pp")
        pixel = copy_run(
            band, to + (p + left) * tap, view.buffer, start + p * window.stride, self.channels
        )
        rest = zeros(band, to + (p + left) * tap + self.channels, tap - self.channels)
        return [
            *zeros(band, to, left * tap),
            loop(p, width, Block((pixel, *rest)) if rest else pixel, "serial"),
            *zeros(band, to + (left + width) * tap, counts[2] * tap),
        ]

    def _line(
        self, band: Buffer, to: Expr, from_: Expr, counts: Sequence[int], tap: int
    ) -> list[Stmt]:
        left, width, right = (count * tap for count in counts)
        return [
            *zeros(band, to, left),
            copy_run(band, to + left, self.view.buffer, from_, width),
            *zeros(band, to + (left + width), right),
        ]


class _Patches(_Image):
    """im2col: a dimension for every axis of A, the channels last."""

    def copied(self) -> Copied:
        """Return the copy, tap by tap: the channels of the pixel, zeros where it is outside of the image."""
        layout, sizes = self.stage.layout, self.nest.problem.sizes
        inner = [x for x in ("y", "m", "ky", "kx", "k") if x in self.view.strides]
        if sorted(layout) != sorted(inner) or layout[-1] != "k":
            raise self.wrong(f"the dimensions must be {', '.join(inner)}, k last")
        strides: dict[str, Any] = {}
        size = 1
        for axis in reversed(layout):
            strides[axis], size = size, size * sizes[axis]
        patches, axes = self.local(size), layout[:-1]
        index = {axis: Var(f"p{axis}") for axis in axes}
        to, from_ = t.ZERO, self.start
        for axis, var in index.items():
            to, from_ = to + var * strides[axis], from_ + var * self.view.step(axis)
        body: Stmt = copy_run(patches, to, self.view.buffer, from_, self.channels)
        outside = Block(tuple(zeros(patches, to, self.channels)))
        for window in reversed(self.windows):
            if window.is_padded(sizes):
                at = self.first(window)
                for axis, step in window.steps.items():
                    at = at + index[axis] * step
                body = where_inside(at, window.size, body, outside)
        for axis in reversed(axes):
            body = loop(index[axis], sizes[axis], body, "serial")
        return Copied(View(patches, strides), self.channels, [body])


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
