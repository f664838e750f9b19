"""Loop nest that resamples regions of images.

for each region (parallel), cell and sample: add the four pixels around the sample, weighted, over all channels

The number of samples may follow from the size of the region. Only those that can touch the image are visited, so that
a region of any size takes a bounded number of steps.
"""

from __future__ import annotations

from collections.abc import Callable

from ...base.dtypes import S64
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Function, Var


@dataclass(frozen=True)
class Regions:
    """Sizes of the images, cells of a region, and how samples are taken: see `AlignRegions`."""

    images: int | Expr
    sizes: tuple[int | Expr, int | Expr]
    channels: int | Expr
    regions: int | Expr
    cells: tuple[int, int]
    samples: int
    scale: float
    half_pixel: bool
    largest: bool


@dataclass(frozen=True)
class RegionBuffers:
    """The parameters, all flat."""

    images: Buffer
    boxes: Buffer
    owners: Buffer
    result: Buffer


def align_regions_function(
    name: str, buffers: RegionBuffers, shape: Regions, tasks: int, note: str
) -> Function:
    """(images, boxes, owners, result) -> None."""
    params = (buffers.images, buffers.boxes, buffers.owners, buffers.result)
    b = t.LoopBuilder(buffer.name for buffer in params)
    with b.loop("region", 0, shape.regions, "parallel" if tasks > 1 else "serial") as region:
        _Region(b, buffers, shape, region).emit()
    return b.function(name, params, note)


@dataclass(frozen=True)
class _Axis:
    """A region along an axis: its begin, the length of a cell, and the distance and number of the samples of a cell."""

    begin: Expr
    cell: Expr
    step: Expr
    count: Expr
    size: int | Expr


@dataclass(frozen=True)
class _Samples:
    """The start of a cell, and the range of its samples that are visited."""

    begin: Expr
    low: Expr
    high: Expr


Taps = tuple[tuple[Var, Var], ...]
"""Index and weight of each pixel around a sample."""


class _Region:
    def __init__(
        self, b: t.LoopBuilder, buffers: RegionBuffers, shape: Regions, region: Var
    ) -> None:
        self.b, self.buffers, self.shape, self.region = b, buffers, shape, region
        self.dtype = buffers.images.dtype
        owner = b.let("owner", buffers.owners[region])
        inside = t.minimum(t.maximum(owner, 0), shape.images - 1)
        pixels = shape.sizes[0] * shape.sizes[1] * shape.channels
        self.image = b.let("image", inside * pixels)
        self.axes = [self._axis(i) for i in (0, 1)]

    def emit(self) -> None:
        """Emit all cells."""
        b, (rows, columns) = self.b, self.axes
        count = b.let("count", rows.count * columns.count)
        with b.loop("row", 0, self.shape.cells[0]) as row:
            down = self._samples(rows, row)
            with b.loop("column", 0, self.shape.cells[1]) as column:
                across = self._samples(columns, column)
                number = self.region * self.shape.cells[0] + row
                number = number * self.shape.cells[1] + column
                at = b.let("at", number * self.shape.channels)
                self._begin(at, down, across)
                with b.loop("y", down.low, down.high) as y:
                    above = self._taps(rows, down, y)
                    with b.loop("x", across.low, across.high) as x:
                        self._add(at, above, self._taps(columns, across, x))
                if not self.shape.largest:
                    with b.when(count > 0.0):
                        self._update(at, lambda value, _: value / count)

    def _number(self, value: float) -> Expr:
        return t.const(float(value), self.dtype)

    def _float(self, value: int | Expr) -> Expr:
        return self._number(value) if isinstance(value, int) else t.cast(value, self.dtype)

    def _axis(self, axis: int) -> _Axis:
        b, shape = self.b, self.shape
        shift = self._number(-0.5 if shape.half_pixel else 0)
        begin, end = (
            b.let(name, value * self._number(shape.scale) + shift)
            for name, value in (
                (word, self.buffers.boxes[self.region * 4 + i])
                for word, i in (("begin", 1 - axis), ("end", 3 - axis))
            )
        )
        length = end - begin
        if not shape.half_pixel:
            length = t.maximum(length, self._number(1))
        cell = b.let("cell", length / self._number(shape.cells[axis]))
        if shape.samples:
            count = self._number(shape.samples)
        else:
            up = b.let("up", t.unary("ceil", cell))
            count = self._between(up, self._number(2**24))
        count = b.let("samples", count)
        step = cell / t.maximum(count, self._number(1))
        return _Axis(begin, cell, b.let("step", step), count, shape.sizes[axis])

    def _between(self, value: Expr, most: Expr) -> Expr:
        """Return a value in [0, most], 0 for NaN."""
        bounded = t.select(value < most, value, most)
        bounded = t.select(t.equal(value, value), bounded, self._number(0))
        return t.select(bounded > 0.0, bounded, self._number(0))

    def _samples(self, axis: _Axis, cell: Expr) -> _Samples:
        """Return which samples of a cell to visit: a few more than those within a pixel of the image."""
        b = self.b
        offset = t.cast(cell, self.dtype) * axis.cell
        begin = b.let("cell_begin", axis.begin + offset)
        if self.shape.samples:
            return _Samples(begin, t.const(0), t.cast(axis.count, S64))
        gap = (self._number(-2) - begin) / axis.step
        low = t.unary("floor", self._between(gap - self._number(1), axis.count))
        low = b.let("low", t.cast(low, S64))
        room = axis.size * 2 + 8  # steps are longer than half a pixel
        return _Samples(begin, low, b.let("high", t.minimum(t.cast(axis.count, S64), low + room)))

    def _taps(self, axis: _Axis, samples: _Samples, i: Expr) -> Taps:
        """Return index and weight of the two pixels around a sample, whose position is rounded as torchvision does."""
        b, zero, one = self.b, self._number(0), self._number(1)
        middle = t.cast(i, self.dtype) + self._number(0.5)
        offset = middle * axis.cell / axis.count
        at = b.let("at", samples.begin + offset)
        size = self._float(axis.size)
        inside = (at >= self._number(-1)) & (at <= size)
        last = size - one
        clear = b.let("clear", self._between(at, last))
        low = b.let("floor", t.unary("floor", clear))
        share = b.let("share", clear - low)
        high = t.minimum(low + one, last)
        pairs = ((low, one - share), (high, share))
        return tuple(
            (b.let("pixel", t.cast(pixel, S64)), b.let("part", t.select(inside, weight, zero)))
            for pixel, weight in pairs
        )

    def _begin(self, at: Expr, down: _Samples, across: _Samples) -> None:
        """Set a cell to what its samples are added to, or compared with."""
        start = self._number(0)
        if self.shape.largest:
            visited = [x.low < x.high for x in (down, across)]
            whole = visited[0] & visited[1]
            for samples, axis in zip((down, across), self.axes, strict=True):
                whole = whole & t.equal(samples.low, 0)
                whole = whole & t.equal(samples.high, t.cast(axis.count, S64))
            start = t.select(whole, self._number(float("-inf")), start)
        start = self.b.let("start", start)
        self._update(at, lambda *_: start)

    def _update(self, at: Expr, new: Callable[[Expr, Expr], Expr]) -> None:
        """Replace all channels of a cell by `new(value, channel)`."""
        b = self.b
        with b.loop("c", 0, self.shape.channels, "vector") as c:
            offset = (at + c,)
            b.store(self.buffers.result, offset, new(self.buffers.result[offset], c))

    def _add(self, at: Expr, rows: Taps, columns: Taps) -> None:
        """Add the four weighted pixels of a sample, or take the largest."""
        b = self.b
        parts = []
        for y, down in rows:
            for x, across in columns:
                pixel = y * self.shape.sizes[1] + x
                start = b.let("start", self.image + pixel * self.shape.channels)
                parts.append((start, b.let("weight", down * across)))

        def combined(value: Expr, c: Expr) -> Expr:
            for start, weight in parts:
                pixel = self.buffers.images[start + c]
                if self.shape.largest:
                    value = t.maximum(value, pixel * weight)
                else:
                    value = t.fma(pixel, weight, value)
            return value

        self._update(at, combined)
