"""Rows of f32 in fixed point: digits that dot products of bytes multiply exactly.

A group of k of a row becomes X = step * N. The step is a power of two, 2^-22 to 2^-23 of the largest magnitude of the
group, and N has three signed digits of 8 bits, N = d2 * 2^16 + d1 * 2^8 + d0. Multiples of the step are exact, whole
numbers below 2^22 among them; others lose at most half a step. That is 2^-19 of a number of more than a 16th of the
largest, as much as a sum of 32 terms in f32 may lose of it. Where the smaller ones are more than half of the group and
together lose more than 2^-17 of the sum of their magnitudes, as beside a number 200 times as large, the group stays as
it is, to be multiplied as floats. So do infinities, NaN, and groups so large or small that a step or a sum might not
be normal.
"""

from __future__ import annotations

from ...base.dtypes import F32, S8, S32
from ...base.packed_words import WORD_BYTES
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Allocate, Buffer, Expr, Load, Var
from ..schedule.nbits_instructions import DIGITS
from .nbits_rows import GivenRows

SMALL = 2.0**-4
"""Share of the power of two at or below the largest magnitude below which numbers are small."""

MAX_LOST = 2.0**-17
"""Maximum lost share of the sum of magnitudes of the small ones."""

MAGNITUDE, EXPONENT = 0x7FFFFFFF, 0x7F800000
"""The bits of an f32 but its sign; those of its exponent."""

HEADROOM = 1 + 2.0**-7
"""The largest magnitude times this is below 2^23 steps: the third digit does not reach 128."""

STEPS = 2.0**22
"""Number of steps of the fixed-point scale up to the power of two at or below the maximum."""

LEAST, MOST = 2.0**-80, 2.0**100
"""The powers of two that a group may have."""


@dataclass(frozen=True)
class FixedPointRows(GivenRows):
    """At most `most` rows of f32 from `first` on, as digits in local buffers."""

    @property
    def digits(self) -> int:
        """Bytes that a number is multiplied as."""
        return DIGITS

    @property
    def has_starts(self) -> bool:
        """Return whether accumulators start with the contributions of zero points."""
        return self.weights.has_one_zero

    @property
    def _digits(self) -> Buffer:
        return Buffer("x_digits", S8, (self.most * DIGITS * self.k,), "local")

    @property
    def _steps(self) -> Buffer:
        """Return a buffer with the step of each group, 0 where the group is multiplied as floats."""
        return Buffer("x_steps", F32, (self.most * self.groups,), "local")

    @property
    def _starts(self) -> Buffer:
        """-zero * sum of each digit of each group."""
        size = self.most * self.groups * DIGITS if self.has_starts else 1
        return Buffer("x_starts", S32, (size,), "local")

    @property
    def _totals(self) -> Buffer:
        """The sum of each group, in steps."""
        return Buffer(
            "x_totals", F32, (1 if self.has_starts else self.most * self.groups,), "local"
        )

    @property
    def _fits(self) -> Buffer:
        """0 for each row that has such groups."""
        return Buffer("x_fits", F32, (self.most,), "local")

    def prepare(self, b: t.LoopBuilder, rows: int | Expr) -> None:
        """Compute digits, steps, and what zero points are multiplied by."""
        local = self._digits, self._steps, self._starts, self._totals, self._fits
        b.emit(*map(Allocate, local), *self._allocated())
        zero = b.let("x_zero", t.cast(self.weights.zero[0], S32))
        with b.loop("xr", 0, rows) as row:
            b.store(self._fits, (row,), MOST)
            with b.loop("xg", 0, self.groups) as group:
                self._convert(b, row, group, zero)

    def _convert(self, b: t.LoopBuilder, row: Var, group: Var, zero: Var) -> None:
        """One group of one row."""
        most = b.allocate("x_most", S32, (1,))
        b.store(most, (0,), 0)
        with b.loop("xi", 0, self.step, "vector") as i:
            size = t.bitcast(self.number(row, self._k(group, i)), S32) & MAGNITUDE
            b.store(most, (0,), t.maximum(most[0], size))  # above all others for NaN
        top = t.bitcast(t.bitcast(most[0], F32) * HEADROOM, S32)
        found = t.bitcast(top & EXPONENT, F32)
        power = b.let("x_power", t.larger(found, LEAST))
        inside = b.let("x_inside", power <= MOST)  # neither infinite nor NaN
        step = b.let("x_step", t.select(inside, power, 1.0) * (1 / STEPS))
        sums = [b.allocate(f"x_sum{digit}", S32, (1,)) for digit in range(DIGITS)]
        edge = b.let("x_edge", step * (STEPS * SMALL))
        fits = self._split(b, row, group, step, edge, sums)
        at = (self._of_group(row, group),)
        with b.when(inside & fits):
            b.store(self._steps, at, step)
            self._store_sums(b, row, group, [x[0] for x in sums], zero)
        with b.otherwise():
            b.store(self._steps, at, 0.0)
            b.store(self._fits, (row,), 0.0)
            for digit in range(DIGITS):
                with b.loop("xi", 0, self.step, "vector") as i:
                    b.store(self._digits, (self._of_digit(row, digit, self._k(group, i)),), 0)
            self._store_sums(b, row, group, [t.const(0, S32)] * DIGITS, zero)

    def _split(
        self, b: t.LoopBuilder, row: Var, group: Var, step: Var, edge: Var, sums: list[Buffer]
    ) -> Expr:
        """Write the digits and their sums. Returns whether they hold enough of the group."""
        lost, size, count = (
            b.allocate(f"x_{name}", F32, (1,)) for name in ("lost", "size", "count")
        )
        steps = b.let("x_per_step", t.const(1.0, F32) / step)
        for total in (lost, size, count, *sums):
            b.store(total, (0,), t.const(0, total.dtype))
        with b.loop("xi", 0, self.step, "vector") as i:
            k = self._k(group, i)
            x = b.let("x", self.number(row, k))
            whole = t.cast(t.unary("round_even", x * steps), S32)
            left = b.let("x_whole", whole)
            magnitude = b.let("x_size", abs(x))
            small = b.let("x_small", magnitude < edge)
            error = abs(x - t.cast(left, F32) * step)
            for total, value in ((lost, error), (size, magnitude), (count, t.const(1.0, F32))):
                b.store(total, (0,), total[0] + t.select(small, value, 0.0))
            for digit, total in enumerate(sums):
                low = b.let("x_digit", t.cast(left, S8))  # the lowest 8 bits, as a signed number
                b.store(self._digits, (self._of_digit(row, digit, k),), low)
                b.store(total, (0,), total[0] + t.cast(low, S32))
                left = b.let("x_left", left + 128 >> 8)
        few = count[0] <= float(self.step // 2)
        little = lost[0] <= size[0] * MAX_LOST
        return few | little

    def _store_sums(
        self, b: t.LoopBuilder, row: Var, group: Var, sums: list[Expr], zero: Var
    ) -> None:
        """Store the sums of the digits of each group, which zero points are multiplied by."""
        total = t.cast(sums[-1], F32)
        for one in reversed(sums[:-1]):
            total = total * 256.0 + t.cast(one, F32)
        self._store_scaled(b, row, group, total)
        if self.has_starts:
            for digit, one in enumerate(sums):
                start = t.const(0, S32) - zero * one
                b.store(self._starts, (self._of_start(row, group, digit),), start)
            return
        b.store(self._totals, (self._of_group(row, group),), total)

    def is_float(self, row: Expr, group: Expr) -> Expr:
        """Return whether a group is to be multiplied as floats."""
        return t.equal(self._steps[self._of_group(row, group)], 0.0)

    def has_floats(self, row: Expr) -> Expr:
        """Return whether any group of a row is."""
        return t.equal(self._fits[row], 0.0)

    def word(self, row: Expr, digit: int, k: Expr) -> Expr:
        """A digit of four neighboring numbers of a row from `k` on, as one s32."""
        return t.bitcast(Load(self._digits, (self._of_digit(row, digit, k),), WORD_BYTES), S32)

    def start(self, row: Expr, group: Expr, digit: int) -> Expr:
        """-zero * sum of a digit of a group."""
        return self._starts[self._of_start(row, group, digit)]

    def total(self, row: Expr, group: Expr) -> Expr:
        """The sum of X of a group, in steps."""
        return self._totals[self._of_group(row, group)]

    def factor(self, row: Expr, group: Expr) -> Expr:
        """The step of a group."""
        return self._steps[self._of_group(row, group)]

    def _k(self, group: Expr, i: Expr) -> Expr:
        return group * self.step + i

    def _of_digit(self, row: Expr, digit: int, k: Expr) -> Expr:
        return row * (DIGITS * self.k) + digit * self.k + k

    def _of_start(self, row: Expr, group: Expr, digit: int) -> Expr:
        return self._of_group(row, group) * DIGITS + digit
