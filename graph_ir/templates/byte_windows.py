"""Depthwise convolutions of bytes by multiply-adds of f32, for results that become bytes several vectors at a time.

    for each image, piece of rows, slice of channels, row, block of pixels:
      for each group of channels that is packed together:
        for each vector of it:
          acc[pixels] = what the epilogue would add first: the bias
          for each row of the window inside the image:
            each element is loaded and converted once, for all results of the block that use it
          sums[pixels, vector] = acc
        y[pixels] = epilogue(sums)

A 3 x 3 window takes 9 multiply-adds and 7.5 instructions for elements per vector of results, instead of 6 dot products,
6 sums and 7 for words of two rows (`dot_windows`), and its sums need no conversion. They are kept in L1 for the
epilogue, as sums of several vectors for all pixels would leave no registers for elements and weights.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base.dtypes import F32
from ...tensor_ir import builder as t
from ...tensor_ir.first_addend import Addend, first_addend
from ...tensor_ir.joint_vectors import PACKED
from ...tensor_ir.nodes import Buffer, Expr, Load, Var
from ...tensor_ir.visitor import walk
from .channel_windows import WindowTemplate

Tap = tuple[int, int, int]
"""(column of the window, pixel of the block, image column relative to that of the block)."""

_SUM = Var("sum", F32)


class ByteWindowTemplate(WindowTemplate):
    """The loop nest for an image of bytes and weights [rows][columns][channels] in f32."""

    def _block(
        self,
        index: tuple[Expr, ...],
        channels: int,
        count: int,
        taps: Sequence[Tap],
        begin: Expr,
        end: Expr,
    ) -> None:
        b, width = self.b, PACKED * self.target.lanes(F32)
        image, channel, row, at = index
        full, rest = divmod(channels, width)
        if full:
            with b.loop("cg", 0, full) as number:
                c = channel + number * width
                self._group((image, c, row, at), width, count, taps, (begin, end))
        if rest:
            c = channel + full * width
            self._group((image, c, row, at), rest, count, taps, (begin, end))

    def _group(
        self,
        index: tuple[Expr, ...],
        channels: int,
        count: int,
        taps: Sequence[Tap],
        rows: tuple[Expr, Expr],
    ) -> None:
        """Store `count` results of `channels` channels from [image, channel, row, column] on."""
        b, lanes = self.b, self.target.lanes(F32)
        image, channel, row, at = index
        with b.block():
            sums = b.allocate("sums", F32, (count, -(-channels // lanes) * lanes))
            full, rest = divmod(channels, lanes)
            is_started = not rest and self._addend(index) is not None
            with b.loop("cv", 0, full) as number:
                vector = (image, channel + number * lanes, row, at)
                acc = self._vector(vector, lanes, taps, rows, count, is_started)
                self._keep(acc, sums, number * lanes)
            if rest:
                vector = (image, channel + full * lanes, row, at)
                acc = self._vector(vector, rest, taps, rows, count, False)
                self._keep(acc, sums, t.as_expr(full * lanes))
            for slot in range(count):
                with b.loop("col", 0, channels, "vector") as col:
                    value = b.let("sum", sums[t.as_expr(slot), col])
                    c = channel + col
                    self._finish((image, c, row, at + slot), value, is_started)

    def _addend(self, index: tuple[Expr, ...], acc: Var = _SUM) -> Addend | None:
        """Return the initial value shared by all results of a channel; the accumulators, exact, may start with it."""
        if self.epilogue is None:
            return None
        image, _, row, at = index
        varying = {e.name for x in (image, row, at) for e in walk(x) if isinstance(e, Var)}
        lets, value = self.epilogue(index, acc)
        return first_addend(lets, value, acc, varying)

    def _finish(self, index: tuple[Expr, ...], acc: Var, is_started: bool) -> None:
        """y[index] = epilogue(acc)."""
        assert self.epilogue is not None
        lets, value = self.epilogue(index, acc)
        if is_started and (addend := self._addend(index, acc)) is not None:
            lets = list(addend.rest)
        for let in lets:
            self.b.emit(let)
        self.b.store(self.problem.y, (self._index(index),), value)

    def _keep(self, acc: Buffer, sums: Buffer, offset: Expr) -> None:
        count, lanes = acc.shape
        for slot in range(count):
            self.b.store(sums, (slot, offset), t.load(acc, (slot, 0), lanes))

    def _vector(
        self,
        index: tuple[Expr, ...],
        active: int,
        taps: Sequence[Tap],
        rows: tuple[Expr, Expr],
        count: int,
        is_started: bool,
    ) -> Buffer:
        """Accumulate `active` channels for `count` results."""
        b, g, lanes = self.b, self.g, self.target.lanes(F32)
        image, channel, row, at = index
        acc = b.allocate("acc", F32, (count, lanes))
        for number in range(count):
            self._start(acc, number, index if is_started else None)
        first = image * g.image[0] + (row * g.strides[0] - g.before[0])
        column = at * g.strides[1] - g.before[1]
        c = b.let("c", channel)
        with b.loop("tap", *rows) as tap_row:
            line = first + tap_row * g.dilations[0]
            pixel = line * g.image[1] + column
            start = b.let("start", pixel * g.groups + c)
            self._row_of_taps(start, tap_row, c, active, taps, acc)
        return acc

    def _start(self, acc: Buffer, slot: int, index: tuple[Expr, ...] | None) -> None:
        """The first value of a vector of sums: their bias, or 0."""
        b, lanes = self.b, self.target.lanes(F32)
        if index is None:
            b.store(acc, (slot, 0), t.const(0, F32, lanes))
            return
        image, channel, row, at = index
        with b.loop("col", 0, lanes, "vector") as col:
            addend = self._addend((image, channel + col, row, at))
            assert addend is not None
            for let in addend.lets:
                b.emit(let)
            b.store(acc, (slot, col), addend.value)

    def _row_of_taps(
        self,
        start: Expr,
        tap_row: Expr,
        c: Expr,
        active: int,
        taps: Sequence[Tap],
        acc: Buffer,
    ) -> None:
        b, g, lanes = self.b, self.g, self.target.lanes(F32)
        assert self.problem.weights is not None
        part = active if active < lanes else None
        weights: dict[int, Expr] = {}
        for tap in sorted({tap for tap, _, _ in taps}):
            number = tap_row * g.kernel[1] + tap
            slot = number * g.groups + c
            weights[tap] = b.let("w", Load(self.problem.weights, (slot,), lanes, part))
        for offset in sorted({offset for _, _, offset in taps}):
            element = Load(self.problem.x, (start + offset * g.groups,), lanes, part)
            value = b.let("v", t.cast(element, F32))
            for tap, result, where in taps:
                if where == offset:
                    old = t.load(acc, (result, 0), lanes)
                    b.store(acc, (result, 0), t.fma(value, weights[tap], old))
