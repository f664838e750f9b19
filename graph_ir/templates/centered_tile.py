"""Rows of bytes times packed weights, where 16 bits hold the sum of a group: levels less their zero point are small.

    for each group of X: for each group of weights in it: pairs = -zero * sums of X, then pairs += X * Q
                                                          sum += pairs * the integer scale, or 1
                         acc += sum * scale of X * scale of the block, or of the group

`pairs` has two sums for each column: of terms 0 and 1 of each four, and of terms 2 and 3. It wraps until all terms are
in it, and is exact then.
"""

from __future__ import annotations

from ...base.dtypes import F32, S8, S16, S32, U8
from ...base.packed_words import WORD_BYTES
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Allocate, Broadcast, Buffer, Expr, Load
from .nbits_rows import GivenRows
from .nbits_tile import DotTile
from .packed_weights import Word


@dataclass(frozen=True)
class CenteredRows(GivenRows):
    """Rows of bytes, and -zero * sum of X for both sums of each group of weights."""

    @property
    def unit(self) -> int:
        """Neighboring k with one integer scale of weights."""
        return min(self.step, self.weights.group)

    @property
    def _starts(self) -> Buffer:
        return Buffer("x_starts", S16, (2 * self.most * self.k // self.unit,), "local")

    def prepare(self, b: t.LoopBuilder, rows: int | Expr) -> None:
        """Compute what the sums of each group of weights begin at, and what minima are multiplied by."""
        b.emit(Allocate(self._starts), *self._allocated())
        with b.loop("sr", 0, rows) as row, b.loop("su", 0, self.k // self.unit) as unit:
            part, lanes = b.allocate("x_part", S16, (self.unit // 2,)), self.unit // 2
            x = Load(self.x.buffer, (self._index(row, unit * self.unit),), self.unit)
            new: Expr = t.call("dot2", t.const(0, S16, lanes), t.const(1, U8, self.unit), x)
            while lanes > 2:
                b.store(part, (0,), new)
                lanes //= 2
                new = t.load(part, (0,), lanes) + t.load(part, (lanes,), lanes)
            both = b.let("x_both", new)
            if self.weights.known_zero:
                start = both * t.const(-self.weights.known_zero, S16, 2)
                b.store(self._starts, (self._start_at(row, unit),), start)
            self._store_scaled(b, row, unit, t.call("reduce_add", t.cast(both, S32)))

    def start(self, row: Expr, group: Expr, digit: int) -> Expr:
        """Return both sums of a group of weights before its terms, as one s32."""
        if not self.weights.known_zero:
            return t.const(0, S32)
        return t.bitcast(Load(self._starts, (self._start_at(row, group),), 2), S32)

    def _start_at(self, row: Expr, group: Expr) -> Expr:
        return (row * (self.k // self.unit) + group) * 2


class CenteredTile(DotTile):
    """Rows of s8, times two neighboring numbers of a word at once."""

    x: CenteredRows

    def sums(self) -> None:
        """Leave the sums in `acc`."""
        self._zero(self.acc)
        self.units = self.x.step // self.x.unit
        each = self.x.unit // self.weights.weights.numbers
        with self.b.loop("wg", 0, self.x.groups) as group:
            high = [self.weights.high_words(group, self.x.step, v) for v in range(self.vectors)]
            self.totals: dict[tuple[int, int], Expr] = {}
            for unit in range(self.units):
                self._begin(group * self.units + unit)
                for number in range(unit * each, (unit + 1) * each):
                    self._add_word(group * (self.units * each) + number, high, number)
                self._add_unit(group * self.units + unit)
            self._scale(group)

    def _begin(self, group: Expr) -> None:
        """Let the sums of a group of weights begin."""
        self.terms: dict[tuple[int, int], Expr] = {}
        for r in range(self.rows):
            word = Broadcast(self.x.start(self._row(r), group, 0), self.lanes)
            start = self.b.let("xs", t.bitcast(word, S16))
            self.terms |= {(r, v): start for v in range(self.vectors)}

    def _multiply(self, packed: list[Word], k: Expr, number: int) -> None:
        b = self.b
        for i in range(self.weights.weights.numbers // WORD_BYTES):
            q = [b.let("wq", self.weights.quad(word, i)) for word in packed]
            for r in range(self.rows):
                four = self.x.quad(self._row(r), 0, k + i * WORD_BYTES)
                x = b.let("wx", t.bitcast(Broadcast(four, self.lanes), S8))
                for v in range(self.vectors):
                    self.terms[r, v] = b.let("wt", t.call("dot2", self.terms[r, v], q[v], x))

    def _add_unit(self, group: Expr) -> None:
        """Add the sums of a group of weights, times its integer scale if there is one, to those of 32 bits."""
        for v in range(self.vectors):
            scales: Expr = t.const(1, S16, 2 * self.lanes)
            if self.weights.weights.has_integer_scales:
                scales = self.b.let("wi", self.weights.pair_scales(group, v))
            for r in range(self.rows):
                old = self.totals.get((r, v), t.const(0, S32, self.lanes))
                self.totals[r, v] = self.b.let("wd", t.call("dot2", old, self.terms[r, v], scales))

    def _factors(self, group: Expr, v: int) -> list[Expr]:
        if not self.weights.weights.has_integer_scales:
            return super()._factors(group, v)
        first = group * self.units
        return [self.weights.of_block("block_scale", first, v), self.weights.zero(first, v)]

    def _value(self, r: int, v: int, group: Expr) -> Expr:
        return t.cast(self.totals[r, v], F32)
