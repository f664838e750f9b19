"""Depthwise convolutions of bytes by dot products: rows of the window are the neighboring terms.

    for each image, piece of rows, slice of channels, row, block of pixels:
      for each vector of channels:
        acc[pixels] = 0
        for each group of rows of the window (4 for bytes, 2 for bytes widened to 16 bits):
          each column of the group is zipped once (a 32-bit word per channel), for all results of the block that use it
          acc[pixel] = dot(acc[pixel], word, weights of the tap)
        y[pixels] = epilogue(acc)

Of rows outside the image, rows inside are read instead and the weights are zero; columns outside are skipped at compile
time. Per vector of results a 3 x 3 window takes 3 dot products and about 7 instructions for words, or 6 dot products, 6
sums and 5, instead of 9 multiplications, 9 sums and 3 loads.
"""

from __future__ import annotations

from typing import Any

from ...base.dtypes import S8, S16, S32, U8, U16, U32
from ...targets.isa import Microkernel
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Broadcast, Buffer, Expr, Load
from .channel_windows import ResultBlock, WindowTemplate


class DotWindowTemplate(WindowTemplate):
    """The loop nest for weights [groups of kernel rows][kernel columns][channels][k_group]."""

    def __init__(self, *given: Any, kernel: Microkernel) -> None:
        super().__init__(*given)
        self.kernel = kernel
        self.lanes = self.target.lanes(kernel.accumulator)
        # The weights of a tap, before they are widened.
        self.word = U32 if kernel.k_group == 4 else U16
        self.starts: dict[int, Expr] = {}
        self.masks: dict[int, Expr] = {}

    def _row(self, image: Expr, row: Expr, channel: Expr, channels: int) -> None:
        """Bind the addresses of the rows of the window, and their weights, for all blocks of the row."""
        b, g = self.b, self.g
        line = row * g.strides[0] - g.before[0]
        is_whole = not g.before[0] and g.span(0, g.result[0]) <= g.image[0]
        for r in range(g.kernel[0]):
            at = b.let("at", line + r * g.dilations[0])
            inside = at if is_whole else t.minimum(t.maximum(at, 0), g.image[0] - 1)
            number = image * g.image[0] + inside
            self.starts[r] = b.let("start", number * (g.image[1] * g.groups))
            if not is_whole:
                self._mask(r, t.equal(at, inside))
        super()._row(image, row, channel, channels)

    def _mask(self, r: int, is_inside: Expr) -> None:
        """Add the bits of the row's byte to the mask of its group."""
        group, lane = divmod(r, self.kernel.k_group)
        byte = t.const(255 << (8 * lane), self.word)
        bits = t.select(is_inside, byte, t.const(0, self.word))
        before = self.masks.get(group) if lane else None
        self.masks[group] = self.b.let("mask", bits if before is None else before | bits)

    def _kernel_rows(self, row: Expr) -> tuple[Expr, Expr]:
        return t.as_expr(0), t.as_expr(self.g.kernel[0])

    def _block(self, block: ResultBlock) -> None:
        for vector in self._parts("cv", block, self.lanes):
            self._vector(vector)

    def _vector(self, block: ResultBlock) -> None:
        """Store the results of a vector of channels."""
        b, g = self.b, self.g
        column = block.column * g.strides[1] - g.before[1]
        first = b.let("first", column * g.groups + block.channel)
        with b.block():
            acc = b.allocate("acc", S32, (block.count, self.lanes))
            for lane in range(block.count):
                b.store(acc, (lane, 0), t.const(0, S32, self.lanes))
            for group in range(-(-g.kernel[0] // self.kernel.k_group)):
                self._group(group, first, block, acc)
            for lane in range(block.count):
                with b.loop("col", 0, block.channels, "vector") as col:
                    value = acc[t.as_expr(lane), col]
                    self._store(block.part(col, 1).index(lane), value)

    def _group(self, group: int, first: Expr, block: ResultBlock, acc: Buffer) -> None:
        """Accumulate the dot products of the columns of a group of rows."""
        b, taps, active = self.b, block.taps, block.channels
        weights = {
            tap: b.let("w", self._weights(group, tap, block.channel, active))
            for tap in sorted({tap for tap, _, _ in taps})
        }
        for offset in sorted({offset for _, _, offset in taps}):
            word = b.let("word", self._word(group, first + offset * self.g.groups, active))
            for tap, lane, where in taps:
                if where == offset:
                    old = t.load(acc, (lane, 0), self.lanes)
                    name = self.kernel.instruction
                    b.store(acc, (lane, 0), t.call(name, old, word, weights[tap]))

    def _weights(self, group: int, tap: int, c: Expr, active: int) -> Expr:
        """Return the weights of a tap for a vector of channels, in their compute dtype; zero for rows outside
        the image."""
        weights, size = self.problem.weights, self.kernel.k_group
        assert weights is not None
        number = (group * self.g.kernel[1] + tap) * self.g.groups
        lane = (c + number) * size
        part = active * size if active < self.lanes else None
        found: Expr = Load(weights, (lane,), self.lanes * size, part)
        if group in self.masks:
            mask = Broadcast(self.masks[group], self.lanes)
            found = t.bitcast(t.bitcast(found, self.word) & mask, S8)
        return t.cast(found, self.kernel.copied_b)

    def _word(self, group: int, at: Expr, active: int) -> Expr:
        """A column of the rows of a group, `at` elements after the begin of each: the first row in the low bits."""
        size = self.kernel.k_group
        bits, part = 32 // size, active if active < self.lanes else None
        word: Expr | None = None
        for lane, r in enumerate(self._rows_of(group)):
            x = Load(self.problem.x, (self.starts[r] + at,), self.lanes, part)
            narrow = t.bitcast(x, U8) if size == 4 else t.bitcast(t.cast(x, S16), U16)
            wide: Expr = t.cast(narrow, U32)
            if lane:
                wide = wide << t.const(bits * lane, U32, self.lanes)
            word = wide if word is None else word | wide
        assert word is not None
        return t.bitcast(word, self.kernel.copied_a)

    def _rows_of(self, group: int) -> range:
        size = self.kernel.k_group
        return range(group * size, min((group + 1) * size, self.g.kernel[0]))
