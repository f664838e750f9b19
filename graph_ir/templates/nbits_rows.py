"""The rows that packed weights are multiplied by: floats or bytes where they lie, and the sums of their groups."""

from __future__ import annotations

from ...base.dtypes import F32, S32
from ...base.packed_words import WORD_BYTES
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Allocate, Buffer, Expr, Load, Stmt
from ..nest.problem import View
from .packed_weights import PackedWeights


@dataclass(frozen=True)
class GivenRows:
    """At most `most` rows of X from `first` on, unconverted: f32, or s8 with `scale` [m, groups of X].

    Sums of bytes begin at -zero * sum of X where one zero point serves all weights, so that nothing is subtracted.
    `step`: neighboring k with one scale of X and one of the weights, a group in the following. `scales`: of a row of X.
    """

    x: View
    scale: Buffer | None
    weights: PackedWeights
    k: int
    step: int
    scales: int
    most: int
    first: Expr = t.ZERO

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

    def quad(self, row: Expr, digit: int, k: Expr) -> Expr:
        """Four neighboring s8 of a row from `k` on, as one s32."""
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
