"""Register tiles of matmuls with packed weights: floats by multiply-adds, bytes and digits by dot products.

    for each group: part = 0, or -zero * sum of X; part += X * Q; acc += part * scale of X * scale of the weights

Where 16 bits hold the sum of some terms, `pairs` has two sums for each column, of terms 0 and 1 of each four and
of terms 2 and 3, which then are added to `part`. Sums of a group of weights may wrap until all its terms are in.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ...base.dtypes import F32, S8, S16, S32, U16
from ...base.packed_words import WORD_BYTES
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Broadcast, Buffer, Expr, Load, Ramp, Var
from ...tensor_ir.tiling import k_splits, split_rows
from .fixed_point_rows import FixedPointRows
from .nbits_rows import GivenRows
from .packed_weights import LINE, WeightPanel, Word

MAX_UNROLLED = 4
"""Words of a column that one iteration multiplies: enough to hide its counter."""

MAX_S32 = 2**31
"""Upper bound of s32 accumulators."""


class RegisterTile:
    """The sums of `rows` rows, from `row` of the rows `x` on, times one panel of `vectors` vectors.

    A group at a time is summed in `part`, which has `sets` accumulators of each element, and then added to `acc`.
    Code goes to the builder of the panel.
    """

    dtype = F32

    def __init__(
        self, x: GivenRows, row: Var, rows: int, weights: WeightPanel, vectors: int
    ) -> None:
        self.b = weights.b
        self.x = x
        self.row = row
        self.rows = rows
        self.weights = weights
        self.vectors = vectors
        self.lanes = weights.lanes
        self.in_pairs = x.in_pairs * WORD_BYTES // weights.weights.numbers
        """Words that are summed in 16 bits, 0 if sums have 32 bits."""
        self.acc = self.b.allocate("nb_acc", F32, (rows, vectors * self.lanes))
        # sums of one vector wait for each other
        self.splits = 1 if x.in_pairs else k_splits(rows * x.digits, vectors)

    def sums(self) -> None:
        """Leave the sums in `acc`."""
        self._zero(self.acc)
        with self.b.loop("wg", 0, self.x.groups) as group:
            self.group: Expr = group
            self._start(group)
            self._accumulate_group(group)
            self._scale(group)

    def _zero(self, buffer: Buffer) -> None:
        zero = t.const(0, buffer.dtype, self.lanes)
        for row, v in itertools.product(range(buffer.shape[0]), range(self.vectors)):
            self.b.store(buffer, (row, v * self.lanes), zero)

    def _start(self, group: Expr) -> None:
        """Store the contributions of zero points in the first accumulator of each sum, zero in the others."""
        sets = self.x.digits * self.splits
        shape = sets * self.rows, self.vectors * self.lanes
        self.part = self.b.allocate("nb_part", self.dtype, shape)
        if self.x.starts_pairs or not self.x.has_starts:
            self._zero(self.part)
            return
        zero = t.const(0, S32, self.lanes)
        for digit, r in itertools.product(range(self.x.digits), range(self.rows)):
            start = Broadcast(self.x.start(self._row(r), group, digit), self.lanes)
            for v, split in itertools.product(range(self.vectors), range(self.splits)):
                self.b.store(self.part, self._at(r, v, digit, split), zero if split else start)

    def _row(self, r: int) -> Expr:
        return self.row + r

    def _at(self, r: int, v: int, digit: int = 0, split: int = 0) -> tuple[int, int]:
        return (digit * self.splits + split) * self.rows + r, v * self.lanes

    def _accumulate_group(self, group: Expr) -> None:
        """part += X * Q over the words of a group; all of them at once where their upper bits are in other words."""
        weights = self.weights.weights
        words = self.x.step // weights.numbers
        most = MAX_UNROLLED * WORD_BYTES // weights.word_bytes
        step = max(d for d in range(1, most + 1) if not words % d)
        if weights.high_bits or self.x.starts_pairs:
            step = words
        with self.b.loop("ww", 0, words, step=step) as word:
            high = [self.weights.high_words(group, self.x.step, v) for v in range(self.vectors)]
            for i in range(step):
                if self.in_pairs and i % self.in_pairs == 0:
                    self._begin(i // self.in_pairs)
                self._add_word(group * words + (word + i), high, i)
            self._end(self.x.units - 1)

    def _add_word(self, at: Expr, high: list[list[Expr]], number: int) -> None:
        """Multiply word `at` of each column, which is word `number` of those whose upper bits are `high`."""
        row = self.weights.columns * self.weights.weights.word_bytes
        if self.weights.fetches and number * row % LINE < row:  # once for each line
            self.weights.fetch(at)
        packed = [self.b.let("wp", self.weights.word(at, v)) for v in range(self.vectors)]
        joined = [self.weights.joined(x, y, number) for x, y in zip(packed, high, strict=True)]
        self._multiply(joined, at * self.weights.weights.numbers, number)

    def _multiply(self, packed: list[Word], k: Expr, number: int) -> None:
        """Multiply word `number` of an iteration of each column, which begins at `k`."""
        raise NotImplementedError

    def _begin(self, unit: int) -> None:
        """Do what comes before the multiplications of group `unit` of weights in a group."""

    def _end(self, unit: int) -> None:
        """Do what comes after the multiplications of group `unit` of weights in a group."""

    def _value(self, r: int, v: int, group: Expr) -> Expr:
        """The sum of a group, in f32."""
        raise NotImplementedError

    def _scale(self, group: Expr) -> None:
        """acc += (part - zero * sum of X) * factor of the row * scale + minimum * sum of X."""
        for v in range(self.vectors):
            scale, zero, *minima = (self.b.let("ws", one) for one in self._factors(group, v))
            for r in range(self.rows):
                row, at = self._row(r), self._at(r, v)
                value = self._value(r, v, group)
                if not self.x.has_starts:
                    value = value - zero * Broadcast(self.x.total(row, group), self.lanes)
                if self.dtype != F32:
                    value = value * Broadcast(self.x.factor(row, group), self.lanes)
                old: Expr = t.load(self.acc, at, self.lanes)
                if minima:
                    total = Broadcast(self.x.scaled_total(row, group), self.lanes)
                    old = self._fma(total, minima[0], old)
                self.b.store(self.acc, at, self._fma(value, scale, old))

    def _factors(self, group: Expr, v: int) -> list[Expr]:
        """The scales, the zero points and, if there are any, the minima of a group."""
        weights, first = self.weights.weights, group * self.x.units
        if weights.has_integer_scales:  # of each unit
            return [self.weights.of_block("block_scale", first, v), self.weights.zero(first, v)]
        return self.weights.factors(first // (weights.group // self.x.step), v)

    def _sum(self, r: int, v: int, digit: int = 0) -> Expr:
        """The accumulators of one vector, joined."""
        found: Expr = t.load(self.part, self._at(r, v, digit), self.lanes)
        for split in range(1, self.splits):
            found = found + t.load(self.part, self._at(r, v, digit, split), self.lanes)
        return found

    def _fma(self, a: Expr, b: Expr, c: Expr) -> Expr:
        return t.fma(a, b, c) if self.weights.weights.is_fused else c + a * b


class FloatTile(RegisterTile):
    """Rows of f32, times each number of a word."""

    def _multiply(self, packed: list[Word], k: Expr, number: int) -> None:
        b, count = self.b, self.weights.weights.numbers
        for i in range(count):
            split = (number * count + i) % self.splits
            numbers = (self.x.number(self._row(r), k + i) for r in range(self.rows))
            x = [b.let("wx", Broadcast(one, self.lanes)) for one in numbers]
            for v, word in enumerate(packed):
                q = b.let("wq", self._number(word, i))
                for r in range(self.rows):
                    at = self._at(r, v, split=split)
                    self.b.store(
                        self.part, at, self._fma(q, x[r], t.load(self.part, at, self.lanes))
                    )

    def _number(self, word: Word, index: int) -> Expr:
        """A level of each word; those of 4 bits are lanes of a table where a vector has 16."""
        weights = self.weights.weights
        if weights.bits != 4 or self.lanes != 16:
            return self.weights.number(word, index)
        table: Expr = Ramp(t.const(0, S32), self.lanes)
        if "book" in weights.parts:
            table = Load(weights.parts["book"], (t.ZERO,), self.lanes)
        return self.weights.picked(word, index, t.cast(table, F32))

    def _value(self, r: int, v: int, group: Expr) -> Expr:
        return self._sum(r, v)


class DotTile(RegisterTile):
    """Rows of s8 or digits, times several numbers of a word at once."""

    dtype = S32
    pairs: dict[tuple[int, int, int], Expr]
    """The sums of a few words in 16 bits, two for each lane, by row, vector and digit."""

    def _multiply(self, packed: list[Word], k: Expr, number: int) -> None:
        each = self.weights.weights.numbers // WORD_BYTES
        for i in range(each):
            for offset, q in self._levels(packed, i):
                for digit, r in itertools.product(range(self.x.digits), range(self.rows)):
                    word = self.x.word(self._row(r), digit, k + i * WORD_BYTES + offset)
                    dtype = S16 if q[0].dtype == S16 else S8
                    x = self.b.let("wx", t.bitcast(Broadcast(word, self.lanes), dtype))
                    for v in range(self.vectors):
                        self._add(r, v, digit, i, q[v], x)

    def _levels(self, packed: list[Word], part: int) -> Iterator[tuple[int, list[Expr]]]:
        """Yield (offset in k, operands) of the instructions that multiply four levels of each word: at once, or
        widened to 16 bits two by two."""
        b, quads = self.b, (self.weights.quad(word, part) for word in packed)
        if not self.x.is_wide:
            yield 0, [b.let("wq", quad) for quad in quads]
            return
        words = [b.let("wb", t.bitcast(quad, U16)) for quad in quads]
        for odd in (0, 1):
            halves = (word >> 8 if odd else word & 0xFF for word in words)
            yield 2 * odd, [b.let("wq", t.bitcast(half, S16)) for half in halves]

    def _add(self, r: int, v: int, digit: int, part: int, q: Expr, x: Expr) -> None:
        """Add the terms of one instruction to the sums of a row and a vector."""
        b, sums = self.b, (r, v, digit)
        if self.in_pairs:
            self.pairs[sums] = b.let("wt", t.call("dot2", self.pairs[sums], q, x))
            return
        at, name = self._at(r, v, digit, part % self.splits), "dot2" if self.x.is_wide else "dot4"
        self.b.store(self.part, at, t.call(name, t.load(self.part, at, self.lanes), q, x))

    def _begin(self, unit: int) -> None:
        """Let the sums of 16 bits of a unit begin, after those before were added."""
        if unit:
            self._end(unit - 1)
        self.pairs = {}
        start: Expr = t.const(0, S16, 2 * self.lanes)
        for digit, r in itertools.product(range(self.x.digits), range(self.rows)):
            if self.x.starts_pairs:
                word = self.x.start(self._row(r), self.group * self.x.units + unit, digit)
                start = self.b.let("xs", t.bitcast(Broadcast(word, self.lanes), S16))
            self.pairs |= {(r, v, digit): start for v in range(self.vectors)}

    def _end(self, unit: int) -> None:
        """Add the sums of 16 bits to those of 32, times the integer scale of a group of weights if there is one."""
        for v in range(self.vectors) if self.in_pairs else ():
            scales: Expr = t.const(1, S16, 2 * self.lanes)
            if self.weights.weights.has_integer_scales:
                group = self.group * self.x.units + unit
                scales = self.b.let("wi", self.weights.pair_scales(group, v))
            for r, digit in itertools.product(range(self.rows), range(self.x.digits)):
                at, pairs = self._at(r, v, digit), self.pairs[r, v, digit]
                self.b.store(
                    self.part, at, t.call("dot2", t.load(self.part, at, self.lanes), pairs, scales)
                )

    def _value(self, r: int, v: int, group: Expr) -> Expr:
        return t.cast(self._sum(r, v), F32)


class FixedPointTile(DotTile):
    """Rows of f32 as digits, and as floats where digits do not hold enough of a group."""

    x: FixedPointRows

    def sums(self) -> None:
        """Leave the sums in `acc`."""
        super().sums()
        for r in range(self.rows):
            row = self._row(r)
            with (
                self.b.when(self.x.has_floats(row)),
                self.b.loop("wf", 0, self.x.groups) as group,
                self.b.when(self.x.is_float(row, group)),
            ):
                self._add_floats(r, group)

    def _add_floats(self, r: int, group: Expr) -> None:
        """acc += X * W over a group: what f32 makes of infinities, NaN and outliers."""
        weights, b = self.weights.weights, self.b
        size = weights.group if weights.high_bits else weights.numbers
        parts, words = weights.group // size, size // weights.numbers
        kept = b.allocate("nb_kept", F32, (1, self.vectors * self.lanes))
        self._zero(kept)
        with b.loop("wo", 0, parts) as part:
            at = group * parts + part
            for v in range(self.vectors):
                weight = self.weights.scaled(group, v)
                high = self.weights.high_words(at, size, v)
                new: Expr = t.load(kept, (0, v * self.lanes), self.lanes)
                for number in range(words):
                    word = at * words + number
                    packed = b.let("wop", self.weights.word(word, v))
                    joined = self.weights.joined(packed, high, number)
                    for i in range(weights.numbers):
                        x = self.x.number(self._row(r), word * weights.numbers + i)
                        new = self._fma(Broadcast(x, self.lanes), weight(joined, i), new)
                b.store(kept, (0, v * self.lanes), new)
        for v in range(self.vectors):
            old = t.load(self.acc, self._at(r, v), self.lanes)
            new = t.load(kept, (0, v * self.lanes), self.lanes)
            b.store(self.acc, self._at(r, v), old + new)

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
    if height == 1:
        return [(t.ZERO, m, 1)]
    full = m // height * height
    return [(t.ZERO, full, height), (full, m, 1)]
