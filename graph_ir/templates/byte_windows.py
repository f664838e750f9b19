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

from ...base.dtypes import F32
from ...tensor_ir import builder as t
from ...tensor_ir.first_addend import Addend, first_addend
from ...tensor_ir.joint_vectors import PACKED
from ...tensor_ir.nodes import Expr, Var
from ...tensor_ir.visitor import walk
from .channel_windows import ResultBlock, WindowTemplate

_SUM = Var("sum", F32)


class ByteWindowTemplate(WindowTemplate):
    """The loop nest for an image of bytes and weights [rows][columns][channels] in f32."""

    def _block(self, block: ResultBlock) -> None:
        for group in self._parts("cg", block, PACKED * self.target.lanes(F32)):
            self._group(group)

    def _group(self, block: ResultBlock) -> None:
        """Store the results of channels that are packed together."""
        b, lanes, count = self.b, self.target.lanes(F32), block.count
        with b.block():
            sums = b.allocate("sums", F32, (count, -(-block.channels // lanes) * lanes))
            line = self._line(block.row)
            with b.loop("c", 0, block.channels, "vector") as offset:
                one = block.part(offset, 1)
                start: Expr = t.const(0, F32)
                if (addend := self._addend(one.index(0))) is not None:
                    b.emit(*addend.lets)
                    start = b.let("start", addend.value)
                acc = self._sums(one, line, start)
                for slot in range(count):
                    b.store(sums, (slot, offset), acc[slot])
            for slot in range(count):
                with b.loop("col", 0, block.channels, "vector") as col:
                    value = b.let("sum", sums[t.as_expr(slot), col])
                    self._finish(block.part(col, 1).index(slot), value, addend is not None)

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
        self.b.emit(*lets)
        self.b.store(self.problem.y, (self._index(index),), value)
