"""Rows of bytes times levels of up to 8 bits on CPUs without byte dot products: both are widened to 16 bits.

Rows are widened once for all panels, bytes of weights in each tile. Of four neighboring k, 0 and 2 are a pair, then 1
and 3: shifts within 16 bits separate them.
"""

from __future__ import annotations

import math

from ...base.dtypes import S16, S32, S64, U16, U32
from ...base.packed_words import WORD_BYTES
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Allocate, Broadcast, Buffer, Expr, Load
from ..schedule.byte_pairs import APART
from .nbits_rows import GivenRows
from .nbits_tile import DotTile
from .packed_weights import Word

WIDEST = 32
"""Bytes of a row that are widened at once."""


@dataclass(frozen=True)
class WideRows(GivenRows):
    """Rows of bytes, and their pairs in 16 bits."""

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

    def pair(self, row: Expr, k: Expr) -> Expr:
        """Return the pair at `k` of a row as one s32."""
        return t.bitcast(Load(self._pairs, (self._at(row, k),), 2), S32)

    def _at(self, row: Expr, k: Expr) -> Expr:
        return row * (self.k + APART) + k


class WideTile(DotTile):
    """Rows of s8, times two numbers of a word at once."""

    x: WideRows

    def _multiply(self, packed: list[Word], k: Expr, number: int) -> None:
        b = self.b
        for part in range(self.weights.weights.numbers // WORD_BYTES):
            quads = [b.let("wb", t.bitcast(self.weights.quad(word, part), U16)) for word in packed]
            for odd in (0, 1):
                halves = (quad >> 8 if odd else quad & 0xFF for quad in quads)
                q = [b.let("wq", t.bitcast(half, S16)) for half in halves]
                for r in range(self.rows):
                    pair = self.x.pair(self._row(r), k + part * WORD_BYTES + odd * 2)
                    x = b.let("wx", t.bitcast(Broadcast(pair, self.lanes), S16))
                    for v in range(self.vectors):
                        old = t.load(self.part, self._at(r, v), self.lanes)
                        b.store(self.part, self._at(r, v), t.call("dot2", old, q[v], x))
