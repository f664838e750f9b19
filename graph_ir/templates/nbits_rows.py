"""The rows that packed weights are multiplied by: floats or bytes where they lie or in 16 bits, and the sums of their
groups."""

from __future__ import annotations

import math

from ...base.dtypes import F32, S16, S32, S64, U8, U32
from ...base.packed_words import WORD_BYTES
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Allocate, Buffer, Expr, Load, Stmt
from ..nest.problem import View
from ..schedule.nbits_instructions import APART
from .packed_weights import PackedWeights

WIDEST = 32
"""Bytes of a row that are widened at once."""


@dataclass(frozen=True)
class GivenRows:
    """At most `most` rows of X from `first` on, unconverted: f32, or s8 with `scale` [m, groups of X].

    Sums of bytes begin at -zero * sum of X where one zero point serves all weights, so that nothing is subtracted.
    `step`: neighboring k with one scale of X and one of the weights, a group in the following. `scales`: of a row of X.
    `in_pairs`: groups of four levels that are summed in two lanes of 16 bits, 0 if sums have 32 bits.
    """

    x: View
    scale: Buffer | None
    weights: PackedWeights
    k: int
    step: int
    scales: int
    most: int
    first: Expr = t.ZERO
    in_pairs: int = 0

    is_wide = False
    """Rows and levels are widened to 16 bits."""
    starts_pairs = False
    """Sums of 16 bits begin at -zero * sum of X, and have all terms of a group of weights."""

    @property
    def units(self) -> int:
        """Groups of weights in a group."""
        return 1

    @property
    def digits(self) -> int:
        """Bytes that a number is multiplied as."""
        return 1

    @property
    def groups(self) -> int:
        """Groups of a row."""
        return self.k // self.step

    @property
    def has_starts(self) -> bool:
        """Return whether accumulators start with the contributions of zero points."""
        return self.scale is not None and self.weights.has_one_zero

    @property
    def _sums(self) -> Buffer:
        kind = S32 if self.has_starts else F32
        return Buffer("x_sums", kind, (self.most * self.groups,), "local")

    @property
    def _scaled_sums(self) -> Buffer:
        """The sums of groups as floats, which minima of weights are multiplied by."""
        return Buffer("x_scaled", F32, (self.most * self.groups,), "local")

    def prepare(self, b: t.LoopBuilder, rows: int | Expr) -> None:
        """Compute the sum of each group of each row, or, if zero points are constant, its multiple by the
        zero point; and the sum as a float where weights have minima."""
        sums = self._sums
        b.emit(Allocate(sums), *self._allocated())
        with b.loop("sr", 0, rows) as row, b.loop("sg", 0, self.groups) as group:
            total = b.allocate("x_sum", sums.dtype, (1,))
            b.store(total, (0,), 0)
            with b.loop("si", 0, self.step, "vector") as i:
                x = self.x.buffer[self._index(row, group * self.step + i)]
                b.store(total, (0,), total[0] + t.cast(x, sums.dtype))
            found: Expr = total[0]
            if self.has_starts:
                found = t.const(0, sums.dtype) - t.cast(self.weights.zero[0], sums.dtype) * found
            b.store(sums, (self._of_group(row, group),), found)
            self._store_scaled(b, row, group, total[0])

    def _allocated(self) -> list[Stmt]:
        return [Allocate(self._scaled_sums)] if self.weights.has_minima else []

    def _store_scaled(self, b: t.LoopBuilder, row: Expr, group: Expr, total: Expr) -> None:
        """Store the sum of a group of a row as a float, where it is needed."""
        if self.weights.has_minima:
            value = t.cast(total, F32) * self.factor(row, group)
            b.store(self._scaled_sums, (self._of_group(row, group),), value)

    def scaled_total(self, row: Expr, group: Expr) -> Expr:
        """The sum of a group, as a float."""
        return self._scaled_sums[self._of_group(row, group)]

    def number(self, row: Expr, k: Expr) -> Expr:
        """X[first + row, k]."""
        return self.x.buffer[self._index(row, k)]

    def word(self, row: Expr, digit: int, k: Expr) -> Expr:
        """Return the operand of an instruction from `k` of a row on, four s8, as one s32."""
        return t.bitcast(Load(self.x.buffer, (self._index(row, k),), WORD_BYTES), S32)

    def start(self, row: Expr, group: Expr, digit: int) -> Expr:
        """-zero * sum of X of a group."""
        return self._sums[self._of_group(row, group)]

    def total(self, row: Expr, group: Expr) -> Expr:
        """The sum of X of a group."""
        return self._sums[self._of_group(row, group)]

    def factor(self, row: Expr, group: Expr) -> Expr:
        """The scale of a group; of floats 1."""
        if self.scale is None:
            return t.const(1.0, F32)
        return self.scale[(self.first + row) * self.scales + group // (self.groups // self.scales)]

    def _index(self, row: Expr, k: Expr) -> Expr:
        return (self.first + row) * self.x.step("m") + k

    def _of_group(self, row: Expr, group: Expr) -> Expr:
        return row * self.groups + group


@dataclass(frozen=True)
class CenteredRows(GivenRows):
    """Rows of bytes, and -zero * sum of X for both sums of each group of weights."""

    starts_pairs = True

    @property
    def unit(self) -> int:
        """Neighboring k with one integer scale of weights."""
        return WORD_BYTES * self.in_pairs

    @property
    def units(self) -> int:
        """Groups of weights in a group."""
        return self.step // self.unit

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


@dataclass(frozen=True)
class WideRows(GivenRows):
    """Rows of bytes, widened to 16 bits once for all panels; tiles widen bytes of weights.

    Of four neighboring k, 0 and 2 are a pair, then 1 and 3: shifts within 16 bits separate them.
    """

    is_wide = True

    @property
    def _pairs(self) -> Buffer:
        return Buffer("x_pairs", S16, (self.most * (self.k + APART),), "local")

    def prepare(self, b: t.LoopBuilder, rows: int | Expr) -> None:
        """Compute sums of groups, and widen rows."""
        super().prepare(b, rows)
        b.emit(Allocate(self._pairs))
        width = math.gcd(self.k, WIDEST)
        with b.loop("pr", 0, rows) as row, b.loop("pk", 0, self.k // width) as part:
            x = t.bitcast(Load(self.x.buffer, (self._index(row, part * width),), width), S16)
            even, odd = (t.cast(t.bitcast(one, U32), S64) for one in (x << 8 >> 8, x >> 8))
            b.store(self._pairs, (self._at(row, part * width),), t.bitcast(odd << 32 | even, S16))

    def word(self, row: Expr, digit: int, k: Expr) -> Expr:
        """Return the pair at `k` of a row as one s32."""
        return t.bitcast(Load(self._pairs, (self._at(row, k),), 2), S32)

    def _at(self, row: Expr, k: Expr) -> Expr:
        return row * (self.k + APART) + k
