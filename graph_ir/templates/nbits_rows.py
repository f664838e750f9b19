"""The rows that packed weights are multiplied by: floats or bytes where they lie, and the sums of their groups."""

from __future__ import annotations

from ...base.dtypes import F32, S32
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Allocate, Block, Buffer, Expr, Load, Stmt, Store, Var
from ..nest.packing import loop
from ..nest.problem import View
from .packed_weights import WORD, PackedWeights


@dataclass(frozen=True)
class GivenRows:
    """At most `most` rows of X from `first` on, unconverted: f32, or s8 with `scale` [m, groups].

    Sums of bytes begin at -zero * sum of X where one zero point serves all weights, so that nothing is subtracted.
    """

    x: View
    scale: Buffer | None
    weights: PackedWeights
    k: int
    most: int
    first: Expr = t.ZERO

    @property
    def digits(self) -> int:
        """Bytes that a number is multiplied as."""
        return 1

    @property
    def groups(self) -> int:
        """Groups of a row."""
        return self.k // self.weights.group

    @property
    def has_starts(self) -> bool:
        """Return whether accumulators start with the contributions of zero points."""
        return self.scale is not None and self.weights.has_one_zero

    @property
    def _sums(self) -> Buffer:
        kind = S32 if self.has_starts else F32
        return Buffer("x_sums", kind, (self.most * self.groups,), "local")

    def prepared(self, rows: int) -> list[Stmt]:
        """Compute the sum of each group of each row, or, if zero points are constant, its multiple by the
        zero point."""
        sums, r, g, i = self._sums, Var("sr"), Var("sg"), Var("si")
        zero, kind = (t.as_expr(0),), sums.dtype
        total = Buffer("x_sum", kind, (1,), "local")
        at = self._index(r, g * self.weights.group + i)
        new = total[zero] + t.cast(self.x.buffer[at], kind)
        found: Expr = total[zero]
        if self.has_starts:
            middle = t.cast(self.weights.zero[zero], kind)
            found = t.const(0, kind) - middle * found
        body = Block((
            Allocate(total),
            Store(total, zero, t.const(0, kind)),
            loop(i, self.weights.group, Store(total, zero, new), "vector"),
            Store(sums, (self._of_group(r, g),), found),
        ))  # fmt: skip
        groups = loop(g, self.groups, body, "serial")
        return [Allocate(sums), loop(r, rows, groups, "serial")]

    def number(self, row: Expr, k: Expr) -> Expr:
        """X[first + row, k]."""
        return self.x.buffer[self._index(row, k)]

    def quad(self, row: Expr, digit: int, k: Expr) -> Expr:
        """Four neighboring s8 of a row from `k` on, as one s32."""
        return t.bitcast(Load(self.x.buffer, (self._index(row, k),), WORD), S32)

    def start(self, row: Expr, group: Expr, digit: int) -> Expr:
        """-zero * sum of X of a group."""
        return self._sums[self._of_group(row, group)]

    def total(self, row: Expr, group: Expr) -> Expr:
        """The sum of X of a group."""
        return self._sums[self._of_group(row, group)]

    def factor(self, row: Expr, group: Expr) -> Expr:
        """The scale of a group of s8."""
        assert self.scale is not None
        at = (self.first + row) * self.groups + group
        return self.scale[at]

    def _index(self, row: Expr, k: Expr) -> Expr:
        return (self.first + row) * self.x.step("m") + k

    def _of_group(self, row: Expr, group: Expr) -> Expr:
        return row * self.groups + group
