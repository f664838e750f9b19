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
from ...tensor_ir.nodes import Expr, Var
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
            line = self._line(row)
            with b.loop("c", 0, channels, "vector") as offset:
                c = channel + offset
                start: Expr = t.const(0, F32)
                if (addend := self._addend((image, c, row, at))) is not None:
                    for let in addend.lets:
                        b.emit(let)
                    start = b.let("start", addend.value)
                acc = self._sums((image, c, line, at), start, count, taps, rows)
                for slot in range(count):
                    b.store(sums, (slot, offset), acc[slot])
            for slot in range(count):
                with b.loop("col", 0, channels, "vector") as col:
                    value = b.let("sum", sums[t.as_expr(slot), col])
                    index = (image, channel + col, row, at + slot)
                    self._finish(index, value, addend is not None)

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
