"""Softmax of rows whose scores come in blocks of columns, and the results that it weights.

    for each block of columns, each row:
      the new maximum; scores become powers = exp(score - new maximum)
      total = total * factor + sum(powers); result = result * factor      factor = exp(old maximum - new maximum)

Results differ from a softmax of whole rows by the rounding of the rescaling. After Milakov and Gimelshein, Online
normalizer calculation for softmax (arXiv 1805.02867), and Dao et al., FlashAttention (arXiv 2205.14135).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ...base.dtypes import DType
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.builder import Value
from ...tensor_ir.nodes import Buffer, Expr


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

    def start(self, rows: int, first: Expr = t.ZERO) -> None:
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
        score: Callable[[Expr, Expr], Expr] | None = None,
    ) -> None:
        """Replace the scores of a row, at `at` + column of `panel`, by powers, and rescale what was summed before.

        `score`: (column, element of the panel) -> the score, if that is not the element.
        """
        b, dtype = self.b, self.result.dtype
        biggest, summed = b.allocate("biggest", dtype, (1,)), b.allocate("summed", dtype, (1,))
        b.store(biggest, (0,), -math.inf)
        with b.loop("c", *columns, "vector") as c:
            value: Expr = panel[at + c]
            if score is not None:
                value = b.let("seen", score(c, value))
                b.store(panel, (at + c,), value)
            b.store(biggest, (0,), t.larger(biggest[0], value))
        old = b.let("old", self.maxima[row])
        new = b.let("new", t.larger(old, biggest[0]))
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


def finite(maximum: Expr) -> Expr:
    """Return a maximum that can be subtracted: 0 for a row that has seen nothing, whose powers are then all 0."""
    return t.select(t.equal(maximum, -math.inf), 0.0, maximum)
