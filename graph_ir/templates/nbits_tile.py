"""Register tiles of matmuls with packed weights: floats by multiply-adds, bytes and digits by dot products."""

from __future__ import annotations

import itertools

from ...base.dtypes import F32, S8, S16, S32
from ...base.packed_words import WORD_BYTES
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Allocate,
    Block,
    Broadcast,
    Buffer,
    Expr,
    For,
    If,
    Let,
    Load,
    Ramp,
    Stmt,
    Store,
    Var,
)
from ...tensor_ir.tiling import k_splits, split_rows
from ..nest.packing import loop
from .fixed_point_rows import FixedPointRows
from .nbits_rows import GivenRows
from .packed_weights import WeightPanel, Word

MAX_UNROLLED = 4
"""Words of a column that one iteration multiplies: enough to hide its counter."""

MAX_S32 = 2**31
"""Upper bound of s32 accumulators."""


@dataclass(frozen=True)
class Means:
    """`fetches`: words are fetched ahead. `fused`: multiply and add are one instruction. `in_pairs`: groups of four
    levels that are summed in two lanes of 16 bits, two terms at a time; 0 if sums have 32 bits."""

    fetches: bool
    fused: bool
    in_pairs: int


class RegisterTile:
    """The sums of `rows` rows, from `row` of the rows `x` on, times one panel of `vectors` vectors.

    A group at a time is summed in `part`, which has `sets` accumulators of each element, and then added to `acc`.
    """

    dtype = F32

    def __init__(
        self, x: GivenRows, row: Var, rows: int, weights: WeightPanel, vectors: int, means: Means
    ) -> None:
        self.x = x
        self.row = row
        self.rows = rows
        self.weights = weights
        self.vectors = vectors
        self.lanes = weights.lanes
        self.means = means
        self.acc = Buffer("nb_acc", F32, (rows, vectors * self.lanes), "local")
        # sums of one vector wait for each other
        self.splits = 1 if means.in_pairs else k_splits(rows * x.digits, vectors)
        sets = x.digits * self.splits
        self.part = Buffer("nb_part", self.dtype, (sets * rows, vectors * self.lanes), "local")

    def sums(self) -> list[Stmt]:
        """Statements that leave the sums in `acc`."""
        group = Var("wg")
        body = Block((
            Allocate(self.part),
            *(self._starts(group) if self.x.has_starts else self._zeros(self.part)),
            self._accumulate_group(group),
            *self._scaled(group),
        ))  # fmt: skip
        groups = loop(group, self.x.groups, body, "serial")
        return [Allocate(self.acc), *self._zeros(self.acc), groups]

    def _zeros(self, buffer: Buffer) -> list[Stmt]:
        zero = t.const(0, buffer.dtype, self.lanes)
        return [
            Store(buffer, (t.as_expr(row), t.as_expr(v * self.lanes)), zero)
            for row in range(buffer.shape[0])
            for v in range(self.vectors)
        ]

    def _starts(self, group: Expr) -> list[Stmt]:
        """Store the contributions of zero points in the first accumulator of each sum, zero in the others."""
        body: list[Stmt] = []
        for digit in range(self.x.digits):
            for r in range(self.rows):
                start = Broadcast(self.x.start(self._row(r), group, digit), self.lanes)
                for v in range(self.vectors):
                    body.append(Store(self.part, self._at(r, v, digit, 0), start))
                    body += [
                        Store(self.part, self._at(r, v, digit, split), t.const(0, S32, self.lanes))
                        for split in range(1, self.splits)
                    ]
        return body

    def _row(self, r: int) -> Expr:
        return self.row + r

    def _at(self, r: int, v: int, digit: int = 0, split: int = 0) -> tuple[Expr, ...]:
        row = (digit * self.splits + split) * self.rows + r
        return t.as_expr(row), t.as_expr(v * self.lanes)

    def _accumulate_group(self, group: Expr) -> Stmt:
        """part += X * Q over the words of a group; all of them at once where their upper bits are in other words."""
        weights = self.weights.weights
        words = self.x.step // weights.numbers
        step = max(d for d in range(1, MAX_UNROLLED + 1) if not words % d)
        if weights.high_bits:
            step = words
        word, body = Var("ww"), list[Stmt]()
        high = [
            self.weights.high_words(body, group, self.x.step, f"wh{v}_", v)
            for v in range(self.vectors)
        ]
        for i in range(step):
            body += self._word(group, word + i, i, high)
        body += self._ended()
        return For(word, t.as_expr(0), t.as_expr(words), Block(tuple(body)), "serial", step)

    def _word(self, group: Expr, word: Expr, number: int, high: list[list[Expr]]) -> list[Stmt]:
        weights = self.weights.weights
        body: list[Stmt] = []
        at = group * (self.x.step // weights.numbers) + word
        if self.means.fetches:
            body += self.weights.fetched(at)
        packed = [
            self.weights.joined(
                self._let(body, f"wp{number}_{v}", self.weights.word(at, v)), high[v], number
            )
            for v in range(self.vectors)
        ]
        return [*body, *self._multiplied(packed, at * weights.numbers, number)]

    def _multiplied(self, packed: list[Word], k: Expr, number: int) -> list[Stmt]:
        """Return the multiplications of a word of each column, which begins at `k`; `number` makes names unique."""
        raise NotImplementedError

    def _ended(self) -> list[Stmt]:
        """Return the statements after the multiplications."""
        return []

    def _value(self, r: int, v: int, group: Expr) -> Expr:
        """The sum of a group, in f32."""
        raise NotImplementedError

    def _scaled(self, group: Expr) -> list[Stmt]:
        """acc += (part - zero * sum of X) * factor of the row * scale + minimum * sum of X."""
        body, weights = list[Stmt](), self.weights.weights
        for v in range(self.vectors):
            scale, zero, *minima = [
                self._let(body, f"{name}{v}", value)
                for name, value in zip(("ws", "wz", "wm"), self._factors(group, v), strict=False)
            ]
            for r in range(self.rows):
                value = self._value(r, v, group)
                if not self.x.has_starts:
                    total = Broadcast(self.x.total(self._row(r), group), self.lanes)
                    value = value - zero * total
                if self.dtype != F32:
                    factor = Broadcast(self.x.factor(self._row(r), group), self.lanes)
                    value = value * factor
                old: Expr = Load(self.acc, self._at(r, v), self.lanes)
                if weights.has_minima:
                    total = Broadcast(self.x.scaled_total(self._row(r), group), self.lanes)
                    old = self._fma(total, minima[0], old)
                body.append(Store(self.acc, self._at(r, v), self._fma(value, scale, old)))
        return body

    def _factors(self, group: Expr, v: int) -> list[Expr]:
        """The scales, the zero points and, if there are any, the minima of a group."""
        return self.weights.factors(group // (self.weights.weights.group // self.x.step), v)

    def _sum(self, r: int, v: int, digit: int = 0) -> Expr:
        """The accumulators of one vector, joined."""
        found: Expr = Load(self.part, self._at(r, v, digit), self.lanes)
        for split in range(1, self.splits):
            found = found + Load(self.part, self._at(r, v, digit, split), self.lanes)
        return found

    def _fma(self, a: Expr, b: Expr, c: Expr) -> Expr:
        return t.fma(a, b, c) if self.means.fused else c + a * b

    @staticmethod
    def _let(body: list[Stmt], name: str, value: Expr) -> Expr:
        var = Var(name, value.dtype, value.lanes)
        body.append(Let(var, value))
        return var


class FloatTile(RegisterTile):
    """Rows of f32, times each number of a word."""

    def _multiplied(self, packed: list[Word], k: Expr, number: int) -> list[Stmt]:
        body: list[Stmt] = []
        for i in range(self.weights.weights.numbers):
            x = [
                self._let(body, f"wx{number}_{i}_{r}", self._x(r, k + i)) for r in range(self.rows)
            ]
            for v, var in enumerate(packed):
                q = self._let(body, f"wq{number}_{i}_{v}", self._number(var, i))
                for r in range(self.rows):
                    index = self._at(r, v, split=i % self.splits)
                    old = Load(self.part, index, self.lanes)
                    body.append(Store(self.part, index, self._fma(q, x[r], old)))
        return body

    def _number(self, word: Word, index: int) -> Expr:
        """A level of each word; those of 4 bits are lanes of a table where a vector has 16."""
        weights = self.weights.weights
        if weights.bits != 4 or self.lanes != 16:
            return self.weights.number(word, index)
        table: Expr = Ramp(t.const(0, S32), self.lanes)
        if "book" in weights.parts:
            table = Load(weights.parts["book"], (t.ZERO,), self.lanes)
        return self.weights.picked(word, index, t.cast(table, F32))

    def _x(self, r: int, k: Expr) -> Expr:
        return Broadcast(self.x.number(self._row(r), k), self.lanes)

    def _value(self, r: int, v: int, group: Expr) -> Expr:
        return self._sum(r, v)


class DotTile(RegisterTile):
    """Rows of s8, times four numbers of a word at once."""

    dtype = S32

    @property
    def _pairs(self) -> Buffer:
        """The sums of a few words in 16 bits, two for each lane."""
        shape = (self.x.digits * self.rows, self.vectors * 2 * self.lanes)
        return Buffer("nb_pairs", S16, shape, "local")

    def _pair(self, r: int, v: int, digit: int) -> tuple[Expr, ...]:
        return t.as_expr(digit * self.rows + r), t.as_expr(v * 2 * self.lanes)

    def _ended(self) -> list[Stmt]:
        """Add the sums of 16 bits to those of 32 bits."""
        body, ones = list[Stmt](), t.const(1, S16, 2 * self.lanes)
        for at in self._sums() if self.means.in_pairs else ():
            pairs = Load(self._pairs, self._pair(*at), 2 * self.lanes)
            old = Load(self.part, self._at(*at), self.lanes)
            body.append(Store(self.part, self._at(*at), t.call("dot2", old, pairs, ones)))
        return body

    def _sums(self) -> list[tuple[int, int, int]]:
        """(row, vector, digit) of each sum."""
        return list(itertools.product(range(self.rows), range(self.vectors), range(self.x.digits)))

    def _multiplied(self, packed: list[Word], k: Expr, number: int) -> list[Stmt]:
        body: list[Stmt] = []
        each = self.weights.weights.numbers // WORD_BYTES
        for i in range(each):
            at, quad = k + i * WORD_BYTES, number * each + i
            begins = self.means.in_pairs and quad % self.means.in_pairs == 0
            if begins:
                body += self._ended() if quad else [Allocate(self._pairs)]
            q = [
                self._let(body, f"wq{number}_{i}_{v}", self.weights.quad(var, i))
                for v, var in enumerate(packed)
            ]
            for digit, r in itertools.product(range(self.x.digits), range(self.rows)):
                x = self._let(body, f"wx{number}_{i}_{digit}_{r}", self._x(r, digit, at))
                for v in range(self.vectors):
                    if self.means.in_pairs:
                        index = self._pair(r, v, digit)
                        kind = S16, 2 * self.lanes
                        pairs = t.const(0, *kind) if begins else Load(self._pairs, index, kind[1])
                        body.append(Store(self._pairs, index, t.call("dot2", pairs, q[v], x)))
                        continue
                    index = self._at(r, v, digit, i % self.splits)
                    old = Load(self.part, index, self.lanes)
                    body.append(Store(self.part, index, t.call("dot4", old, q[v], x)))
        return body

    def _x(self, r: int, digit: int, k: Expr) -> Expr:
        """Four s8 of a row from `k` on, in all lanes."""
        return t.bitcast(Broadcast(self.x.quad(self._row(r), digit, k), self.lanes), S8)

    def _value(self, r: int, v: int, group: Expr) -> Expr:
        return t.cast(self._sum(r, v), F32)


class FixedPointTile(DotTile):
    """Rows of f32 as digits, and as floats where digits do not hold enough of a group."""

    def __init__(
        self,
        x: FixedPointRows,
        row: Var,
        rows: int,
        weights: WeightPanel,
        vectors: int,
        means: Means,
    ) -> None:
        super().__init__(x, row, rows, weights, vectors, means)
        self.rows_of_digits = x

    def sums(self) -> list[Stmt]:
        """Statements that leave the sums in `acc`."""
        body = super().sums()
        for r in range(self.rows):
            group, row = Var("wf"), self._row(r)
            one = If(self.rows_of_digits.is_float(row, group), self._as_floats(r, group))
            groups = loop(group, self.x.groups, one, "serial")
            body.append(If(self.rows_of_digits.has_floats(row), groups))
        return body

    def _as_floats(self, r: int, group: Expr) -> Stmt:
        """acc += X * W over a group: what f32 makes of infinities, NaN and outliers."""
        weights, body = self.weights.weights, list[Stmt]()
        size = weights.group if weights.high_bits else weights.numbers
        part, parts = Var("wo"), weights.group // size
        at, row = group * parts + part, self._row(r)
        kept = Buffer("nb_kept", F32, (1, self.vectors * self.lanes), "local")
        ends: list[Stmt] = []
        for v in range(self.vectors):
            weight = self.weights.scaled(body, group, v)
            high = self.weights.high_words(body, at, size, f"woh{v}_", v)
            index = (t.ZERO, t.as_expr(v * self.lanes))
            new: Expr = Load(kept, index, self.lanes)
            for number in range(size // weights.numbers):
                word = at * (size // weights.numbers) + number
                packed = self._let(body, f"wop{v}_{number}", self.weights.word(word, v))
                joined = self.weights.joined(packed, high, number)
                for i in range(weights.numbers):
                    x = Broadcast(self.x.number(row, word * weights.numbers + i), self.lanes)
                    new = self._fma(x, weight(joined, i), new)
            body.append(Store(kept, index, new))
            old = Load(self.acc, self._at(r, v), self.lanes)
            total = old + Load(kept, index, self.lanes)
            ends.append(Store(self.acc, self._at(r, v), total))
        sums = loop(part, parts, Block(tuple(body)), "serial")
        return Block((Allocate(kept), *self._zeros(kept), sums, *ends))

    def _value(self, r: int, v: int, group: Expr) -> Expr:
        """d2 * 2^16 + d1 * 2^8 + d0, the lower two joined as integers where s32 holds them."""
        low, middle, high = (self._sum(r, v, digit) for digit in range(3))
        largest = self.x.step * self.weights.weights.max_level << 7
        if largest * 257 < MAX_S32:
            rest = t.cast((middle << 8) + low, F32)
        else:
            by = t.const(2.0**8, F32, self.lanes)
            rest = self._fma(t.cast(middle, F32), by, t.cast(low, F32))
        return self._fma(t.cast(high, F32), t.const(2.0**16, F32, self.lanes), rest)


def row_runs(m: int | Expr, height: int) -> list[tuple[Expr, Expr, int]]:
    """Return (first row, end, rows of a tile) of runs of equal tiles; the rest of dynamic rows are tiles of one row."""
    if isinstance(m, int):
        runs = split_rows(m, height)
        return [(t.as_expr(first), t.as_expr(first + n * rows), rows) for first, n, rows in runs]
    full = m // height * height
    return [(t.ZERO, full, height), (full, m, 1)]
