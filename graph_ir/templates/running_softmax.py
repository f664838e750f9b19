"""Softmax of rows whose scores come in blocks of columns, and the results that it weights.

    for each block of columns, each row:
      the new maximum; scores become powers = exp(score - new maximum)
      total = total * factor + sum(powers); result = result * factor      factor = exp(old maximum - new maximum)

Results differ from a softmax of whole rows by the rounding of the rescaling. After Milakov and Gimelshein, Online
normalizer calculation for softmax (arXiv 1805.02867), and Dao et al., FlashAttention (arXiv 2205.14135).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ...base.dtypes import DType
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.builder import Value
from ...tensor_ir.nodes import Buffer, Expr, Stmt
from ..ir.computation import Index
from ..nest.tasks import ceil_div

RowWork = Callable[[Index, Callable[[Expr], Index], Index], Sequence[Sequence[Stmt]]]
"""(plain index of the row, column -> index into the panel, index into the divisors) -> statements that rewrite the row
in place, and store its divisor if rows are divided after the second matmul: parts, each run for all rows at once."""

Score = Callable[[Expr, Expr], Expr]
"""(column, element of the panel) -> the score, if that is not the element."""


@dataclass(frozen=True)
class RunningSoftmax:
    """The results [rows, `width`], maxima and totals of rows; code goes to `b`."""

    b: t.LoopBuilder
    width: int
    result: Buffer
    maxima: Buffer
    totals: Buffer

    @classmethod
    def allocate(cls, b: t.LoopBuilder, rows: int, width: int, dtype: DType) -> RunningSoftmax:
        """Allocate the buffers of `rows` rows."""
        sizes = {"result": rows * width, "maxima": rows, "totals": rows}
        return cls(b, width, *(b.allocate(name, dtype, (n,)) for name, n in sizes.items()))

    def start(self, rows: int | Expr, first: Expr = t.ZERO) -> None:
        """Start `rows` rows from row `first` on, which have seen no column."""
        fills = (self.result, 0.0), (self.maxima, -math.inf), (self.totals, 0.0)
        for buffer, value in fills:
            each = self.width if buffer is self.result else 1
            with self.b.loop("i", 0, rows * each, "vector") as i:
                self.b.store(buffer, (first * each + i,), value)

    def add(
        self,
        row: Expr,
        panel: Buffer,
        at: Expr,
        columns: tuple[Value, Value],
        score: Score | None = None,
    ) -> None:
        """Replace the scores of a row, at `at` + column of `panel`, by powers, and rescale what was summed before."""
        b, dtype = self.b, self.result.dtype
        biggest = largest(b, panel, lambda c: (at + c,), columns, score)
        summed = b.allocate("summed", dtype, (1,))
        old = b.let("old", self.maxima[row])
        new = b.let("new", t.larger(old, biggest))
        base = b.let("base", finite(new))
        factor = b.let("factor", t.exp_weight(old - base))
        b.store(self.maxima, (row,), new)
        b.store(summed, (0,), 0.0)
        with b.loop("e", *columns, "vector") as e:
            power = b.let("power", t.exp_weight(panel[at + e] - base))
            b.store(panel, (at + e,), power)
            b.store(summed, (0,), summed[0] + power)
        b.store(self.totals, (row,), self.totals[row] * factor + summed[0])
        with b.loop("i", 0, self.width, "vector") as i:
            index = (row * self.width + i,)
            b.store(self.result, index, self.result[index] * factor)

    def finish(
        self, rows: int | Expr, store: Callable[[Expr, Expr, Expr], None], first: Expr = t.ZERO
    ) -> None:
        """Call `store` (row, column, value) for the results of `rows` rows from row `first` on, divided by their
        totals."""
        b = self.b
        with b.loop("row", 0, rows) as row:
            own = b.let("own", first + row)
            total = b.let("total", self.totals[own])
            with b.loop("i", 0, self.width, "vector") as i:
                quotient = b.let("quotient", self.result[own * self.width + i] / total)
                store(row, i, quotient)


def padded_softmax(
    panel: Buffer,
    columns: Expr,
    lanes: int,
    score: Callable[[t.LoopBuilder, Index, Expr], Expr],
    of_rows: tuple[Buffer, Buffer],
) -> RowWork:
    """Return row work that leaves powers in the panel, and the maximum and divisor of each row in `of_rows`.

    Loops over a dynamic number of columns take the last ones one at a time. The one of the powers has none: it goes on
    in the padding, to whole vectors of `lanes`.
    """
    padded, (maxima, divisors) = ceil_div(columns, lanes) * lanes, of_rows

    def work(index: Index, at: Callable[[Expr], Index], row: Index) -> list[list[Stmt]]:
        parts = maximum, power, divisor = t.LoopBuilder(), t.LoopBuilder(), t.LoopBuilder()

        def scaled(c: Expr, element: Expr) -> Expr:
            return score(maximum, (*index, c), maximum.let("score", element))

        maximum.store(maxima, row, largest(maximum, panel, at, (0, columns), scaled))
        biggest = power.let("biggest", maxima[row])
        with power.loop("ec", 0, padded, "vector") as c:
            power.store(panel, at(c), t.exp_weight(panel[at(c)] - biggest))
        total = divisor.allocate("total", panel.dtype, (1,))
        divisor.store(total, (0,), 0.0)
        with divisor.loop("sc", 0, columns, "vector") as c:
            divisor.store(total, (0,), total[0] + panel[at(c)])
        divisor.store(divisors, row, total[0])
        return [part.statements() for part in parts]

    return work


def largest(
    b: t.LoopBuilder,
    panel: Buffer,
    at: Callable[[Expr], Index],
    columns: tuple[Value, Value],
    score: Score | None,
) -> Expr:
    """Return the largest score of a row, whose columns are `at` elements of `panel`; leave the scores there."""
    found = b.allocate("biggest", panel.dtype, (1,))
    b.store(found, (0,), -math.inf)
    with b.loop("c", *columns, "vector") as c:
        value: Expr = panel[at(c)]
        if score is not None:
            value = b.let("seen", score(c, value))
            b.store(panel, at(c), value)
        b.store(found, (0,), t.larger(found[0], value))
    return found[0]


def finite(maximum: Expr) -> Expr:
    """Return a maximum that can be subtracted: 0 for a row that has seen nothing, whose powers are then all 0."""
    return t.select(t.equal(maximum, -math.inf), 0.0, maximum)
