"""Weights of 2 to 8 bits in words, with a scale and a zero point per group of k: how a panel of them is read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from ...base.dtypes import F16, F32, S8, S16, S32, S64, U8, U16, U32
from ...base.packed_words import LOW_BITS, NIBBLE, WORD_BYTES
from ...base.records import dataclass
from ...targets.machines import ZEN5
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Broadcast, Buffer, Expr, Load, Prefetch, Slice

LINE = 64
"""Bytes of a cache line."""

HALF_BF16, UPPER_HALF = 0x8000, 0xFFFF0000
"""The number that rounds an f32 to its upper half when it is added, and the mask of that half."""


@dataclass(frozen=True)
class PackedWeights:
    """Buffers of the weights [n, k], their scales and zero points, all in panels as wide as the register tile.

    `zero` may hold one number for all weights; `parts` are other operands of the op; `ahead`: bytes between words that
    are multiplied and those that are fetched; `known_zero`: the zero point of all weights, -1 where it is not known;
    `is_centered`: 16 bits hold sums less it; `is_fused`: multiply and add are one instruction.
    """

    words: Buffer
    scale: Buffer
    zero: Buffer
    bits: int
    group: int
    parts: Mapping[str, Buffer] = field(default_factory=dict)
    ahead: int = ZEN5.fetch_ahead
    known_zero: int = -1
    is_centered: bool = False
    is_fused: bool = False

    @property
    def has_one_zero(self) -> bool:
        """Return whether all weights have one zero point."""
        return self.zero.elements == 1

    @property
    def has_minima(self) -> bool:
        """Return whether something is added to scaled levels."""
        return "minimum" in self.parts or "block_minimum" in self.parts

    @property
    def low_bits(self) -> int:
        """Bits of a level in `words`."""
        return LOW_BITS[self.bits]

    @property
    def high_bits(self) -> int:
        """Bits of a level in other words."""
        return self.bits - self.low_bits

    @property
    def numbers(self) -> int:
        """Weights in a word."""
        return 8 * self.word_bytes // self.low_bits

    @property
    def word_bytes(self) -> int:
        """Bytes of a word: each f16 is one, as a vector of these is converted at once."""
        return F16.size if self.words.dtype == F16 else WORD_BYTES

    @property
    def has_integer_scales(self) -> bool:
        """Return whether sums of bytes, less the zero point, are multiplied by integers before they become f32."""
        is_integer = self.scale.dtype in (S8, U8) and "block_scale" in self.parts
        return self.is_centered and is_integer and not self.has_minima

    @property
    def max_level(self) -> int:
        """Bound of levels."""
        return 255 if "book" in self.parts else (1 << self.bits) - 1


@dataclass(frozen=True)
class Word:
    """A word of each column; its upper bits are in `high`, those of field 0 from bit `shift` of each byte on."""

    low: Expr
    high: Expr | None = None
    shift: int = 0


@dataclass(frozen=True)
class WeightPanel:
    """One panel of `columns` columns, as vectors of 32-bit lanes; code goes to `b`.

    `fetches`: words are fetched ahead. `is_copy`: its words alone are in their buffer.

    `floats`: the scales and the minima of all groups in f32, where they were converted before.
    """

    b: t.LoopBuilder
    weights: PackedWeights
    panel: Expr
    columns: int
    k: int
    lanes: int
    fetches: bool = False
    is_copy: bool = False
    floats: Buffer | None = None

    def word(self, number: Expr, v: int) -> Expr:
        """Word `number` of each column of vector `v`."""
        return self._word(self.weights.words, self.weights.low_bits, number, v)

    def _word(self, words: Buffer, bits: int, number: Expr, v: int) -> Expr:
        size = self.weights.word_bytes
        each = size // words.dtype.size
        row = self.columns * each
        at = number * row + v * self.lanes * each
        if not self.is_copy:
            at = self.panel * (row * (self.k * bits // (8 * size))) + at
        found = Load(words, (at,), self.lanes * each)
        return found if words.dtype == F16 else t.bitcast(found, U32)

    def high_words(self, part: Expr, step: int, v: int) -> list[Expr]:
        """Bind the words with the upper bits of `step` k, part `part` of all: field 0 is in the lowest bits."""
        bits = self.weights.high_bits
        size, whole = step * bits, 8 * WORD_BYTES
        if not size or size >= whole:
            first, count = part * (size // whole), -(-size // whole)
            high = (self._high_word(first + i, v) for i in range(count))
            return [self.b.let("high", word) for word in high]
        word = self._high_word(part // (whole // size), v)
        shift = t.cast(part % (whole // size) * (size // WORD_BYTES), U32)
        return [self.b.let("high", word >> Broadcast(shift, self.lanes))]

    def _high_word(self, number: Expr, v: int) -> Expr:
        return self._word(self.weights.parts["high"], self.weights.high_bits, number, v)

    def joined(self, low: Expr, high: Sequence[Expr], number: int) -> Word:
        """Return word `number` of those whose upper bits are `high`."""
        if not high:
            return Word(low)
        at = number * self.weights.numbers // WORD_BYTES * self.weights.high_bits
        return Word(low, high[at // 8], at % 8)

    def fetch(self, number: Expr) -> None:
        """Hint at the words that come `ahead` bytes after word `number` of each column.

        Dequantizing takes enough instructions that only few loads are under way at a time, which is too few where
        weights do not stay in the L3: 1x11008x4096 takes 0.80 of the time for rows in f32, 0.91 for rows in s8.
        """
        row, size = self.columns * self.weights.word_bytes, self.weights.words.dtype.size
        start = self.panel * (row // size * (self.k // self.weights.numbers)) + number * (
            row // size
        )
        lines = range(self.weights.ahead, self.weights.ahead + row, LINE)
        for at in lines:
            self.b.emit(Prefetch(Slice(self.weights.words, (start + at // size,)), 1))

    def number(self, word: Word, index: int) -> Expr:
        """Level `index` of each word as f32."""
        if (dtype := self.weights.words.dtype) == F16:
            return t.cast(word.low, F32)
        if dtype.is_float:
            half = word.low >> dtype.bits if index else word.low
            return t.cast(t.bitcast(t.cast(half, U16), dtype), F32)
        part, byte = divmod(index, WORD_BYTES)
        low, bits = word.low, self.weights.low_bits
        shift = 8 * byte + part * bits
        if (
            "book" in self.weights.parts or word.high is not None
        ):  # bytes of four levels are made at once
            low, bits, shift = t.bitcast(self.quad(word, part), U32), 8, 8 * byte
        low = _field(low, shift, (1 << bits) - 1, shift + bits < 32)
        return t.cast(t.bitcast(low, S32), F32)

    def picked(self, word: Word, index: int, table: Expr) -> Expr:
        """Level `index` of each word through a table with a lane for each of the 4-bit numbers."""
        part, byte = divmod(index, WORD_BYTES)
        low, shift = word.low, 8 * byte + part * self.weights.low_bits
        return t.call("pick", table, t.bitcast(low >> shift if shift else low, S32))

    def quad(self, word: Word, part: int) -> Expr:
        """Levels of four neighboring k of each word, as bytes."""
        bits, upper, each = self.weights.low_bits, self.weights.high_bits, 0x01010101
        low = _field(word.low, part * bits, ((1 << bits) - 1) * each, bits < 8)
        if word.high is not None:
            mask = ((1 << upper) - 1 << bits) * each
            low = low | _field(word.high, word.shift + part * upper - bits, mask)
        level = t.bitcast(low, U8)
        if "book" not in self.weights.parts:
            return level
        return Load(self.weights.parts["book"], (t.cast(level, S64),), level.lanes)

    def scale(self, group: Expr, v: int) -> Expr:
        """The scales of a group."""
        if self.floats is not None:
            return self._float(0, group, v)
        scale = self._of_group(self.weights.scale, group, v)
        if self._shares_bytes:
            scale = scale & NIBBLE
        return self._times_block(t.cast(scale, F32), "block_scale", group, v)

    def pair_scales(self, group: Expr, v: int) -> Expr:
        """The integer scales of a group, in both 16-bit halves of each lane."""
        scale = t.bitcast(t.cast(self._of_group(self.weights.scale, group, v), S32), U32)
        return t.bitcast(scale << 16 | scale & UPPER_HALF >> 16, S16)

    def minimum(self, group: Expr, v: int) -> Expr:
        """The minima of a group."""
        if self.floats is not None:
            return self._float(1, group, v)
        minimum = self.weights.parts.get("minimum")
        if minimum is not None:
            found = self._of_group(minimum, group, v)
        else:
            found = self._of_group(self.weights.scale, group, v) >> 4
        return self._times_block(t.cast(found, F32), "block_minimum", group, v)

    def factors(self, group: Expr, v: int) -> list[Expr]:
        """The scales, the zero points and, if there are any, the minima of a group."""
        minima = [self.minimum(group, v)] if self.weights.has_minima else []
        return [self.scale(group, v), self.zero(group, v), *minima]

    @property
    def floats_size(self) -> int:
        """Elements of a buffer for `floats`."""
        return (1 + self.weights.has_minima) * self.k // self.weights.group * self.columns

    def as_floats(self, local: Buffer, vectors: int) -> WeightPanel:
        """Copy the scales and minima to `local`, as several tiles read them; return the panel that has them there."""
        copy = replace(self, floats=local)
        made = (self.scale, self.minimum)[: 1 + self.weights.has_minima]
        with self.b.loop("fg", 0, self.k // self.weights.group) as group:
            for v in range(vectors):
                for kind, make in enumerate(made):
                    self.b.store(local, (copy._float_at(kind, group, v),), make(group, v))
        return copy

    def _float(self, kind: int, group: Expr, v: int) -> Expr:
        assert self.floats is not None
        return Load(self.floats, (self._float_at(kind, group, v),), self.lanes)

    def _float_at(self, kind: int, group: Expr, v: int) -> Expr:
        first = kind * (self.k // self.weights.group)
        return (group + first) * self.columns + v * self.lanes

    @property
    def _shares_bytes(self) -> bool:
        """Return whether scales and minima are nibbles of the same bytes."""
        parts = self.weights.parts
        return "block_minimum" in parts and "minimum" not in parts

    def zero(self, group: Expr, v: int) -> Expr:
        """The zero points of a group."""
        if self.weights.has_one_zero:
            return Broadcast(Load(self.weights.zero, (t.as_expr(0),)), self.lanes)
        return self._of_group(self.weights.zero, group, v)

    def _of_group(self, values: Buffer, group: Expr, v: int) -> Expr:
        groups = self.k // self.weights.group
        at = (self.panel * groups + group) * self.columns
        return Load(values, (at + v * self.lanes,), self.lanes)

    def _times_block(self, value: Expr, name: str, group: Expr, v: int) -> Expr:
        return value * self.of_block(name, group, v) if name in self.weights.parts else value

    def of_block(self, name: str, group: Expr, v: int) -> Expr:
        """The scales or minima, as f32, of the blocks that a group is in."""
        blocks = self.weights.parts[name]
        groups = self.k // self.weights.group
        panels = self.weights.scale.elements // (groups * self.columns)
        count = blocks.elements // (panels * self.columns)
        at = (self.panel * count + group // (groups // count)) * self.columns + v * self.lanes
        return t.cast(Load(blocks, (at,), self.lanes), F32)

    def as_bytes(
        self,
        local: Buffer,
        vectors: int,
        step: int,
        parts: tuple[Expr, int] | None = None,
        start: Expr = t.ZERO,
        less_zero: bool = False,
    ) -> WeightPanel:
        """Copy a byte for each level to `local`, `step` k at a time; return their panel.

        `parts`: the first and the number of steps of k that are copied, all by default; `start`: the offset in
        `local`. `less_zero`: less their one zero point.
        """
        b, words, zero = self.b, step // self.weights.numbers, None
        first, count = parts or (t.ZERO, self.k // step)
        if less_zero:
            one = t.cast(t.cast(self.weights.zero[(t.ZERO,)], S32), U8)
            zero = b.let("bz", Broadcast(one, self.lanes * WORD_BYTES))
        with b.loop("bw", 0, count) as part:
            for i in range(words) if self.fetches else ():
                self.fetch((first + part) * words + i)
            for v in range(vectors):
                high = self.high_words(first + part, step, v)
                for i in range(words):
                    number = part * words + i
                    packed = b.let("bp", self.word(first * words + number, v))
                    self._store_bytes(local, start, number, v, self.joined(packed, high, i), zero)
        others = {x: b for x, b in self.weights.parts.items() if x not in ("high", "book")}
        weights = replace(self.weights, words=local, bits=8, parts=others)
        return replace(self, weights=weights, fetches=False, is_copy=True)

    def _store_bytes(
        self, local: Buffer, start: Expr, number: Expr, v: int, word: Word, zero: Expr | None
    ) -> None:
        """Store the levels of word `number` of vector `v`, a row for each four k."""
        quads = self.weights.numbers // WORD_BYTES
        for j in range(quads):
            quad = self.quad(word, j)
            if zero is not None:
                quad = quad - zero
            if local.dtype != quad.dtype:
                quad = t.bitcast(quad, local.dtype)
            row = (number * quads + j) * (self.columns * WORD_BYTES)
            self.b.store(local, (start + row + v * self.lanes * WORD_BYTES,), quad)

    def unpack(self, k0: int, k: int, local: Buffer, vectors: int) -> None:
        """Write the weights of `k` k from `k0` on to a panel of floats, row after row.

        Both are multiples of the group, or `k` divides it.
        """
        b, size, numbers = self.b, min(self.weights.group, k), self.weights.numbers
        words = size // numbers
        with b.loop("ug", 0, k // size) as part:
            made = [
                (
                    self.scaled(part + k0 // self.weights.group, v),
                    self.high_words(part + k0 // size, size, v),
                )
                for v in range(vectors)
            ]

            def write(v: int, word: Expr, number: int) -> None:
                weight, high = made[v]
                packed = b.let("up", self.word(part * words + (word + k0 // numbers), v))
                for i in range(numbers):
                    row = (part * size + word * numbers + i) * self.columns
                    value = weight(self.joined(packed, high, number), i)
                    b.store(local, (row + v * self.lanes,), value)

            if self.weights.high_bits:
                for v, number in itertools.product(range(vectors), range(words)):
                    write(v, t.as_expr(number), number)
                return
            with b.loop("uw", 0, words) as word:
                for v in range(vectors):
                    write(v, word, 0)

    def unpack_pairs(self, k0: int, k: int, local: Buffer, vectors: int) -> None:
        """Write the weights of `k` k from `k0` on to a panel of bf16, two neighboring k in each 32-bit lane.

        Both are multiples of the group. Halves between two numbers are rounded away from zero.
        """
        b, size, numbers = self.b, self.weights.group, self.weights.numbers
        words = size // numbers
        with b.loop("ug", 0, k // size) as part:
            group = part + k0 // size
            for number in range(words):
                self.fetch(group * words + number)
            for v in range(vectors):
                weight, high = (
                    self.scaled(group, v, is_exact=False),
                    self.high_words(group, size, v),
                )
                for number in range(words):
                    packed = b.let("up", self.word(group * words + number, v))
                    word = self.joined(packed, high, number)
                    for i in range(0, numbers, 2):
                        low, upper = (
                            t.bitcast(weight(word, i + j), U32) + HALF_BF16 for j in (0, 1)
                        )
                        pair = t.bitcast(low >> 16 | upper & UPPER_HALF, local.dtype)
                        row = (part * size + (number * numbers + i)) * self.columns
                        b.store(local, (row + v * self.lanes * 2,), pair)

    def scaled(self, group: Expr, v: int, is_exact: bool = True) -> Callable[[Word, int], Expr]:
        """Bind what levels of a group are scaled by; return the function that makes weights of them.

        One operation makes a weight where the zero point times the scale is exact, or need not be.
        """
        known, b = self.weights.known_zero, self.b
        scale, zero, *minimum = self.factors(group, v)
        scale = b.let("us", scale)
        is_power = known >= 0 and not known & (known - 1)
        if is_exact and not (self.weights.is_fused and is_power):
            less, added = b.let("uz", zero), [b.let("um", one) for one in minimum]
            return lambda word, index: sum(added, (self.number(word, index) - less) * scale)
        if known:
            minimum = [sum(minimum, t.const(0.0, F32, self.lanes) - zero * scale)]
        if not minimum:
            return lambda word, index: self.number(word, index) * scale
        offset = b.let("uo", minimum[0])
        return lambda word, index: t.fma(self.number(word, index), scale, offset)


def _field(word: Expr, shift: int, mask: int, is_masked: bool = True) -> Expr:
    """Return the bits of `mask` of a word that is shifted right, or left where `shift` is negative."""
    if shift:
        word = word >> shift if shift > 0 else word << -shift
    return word & mask if is_masked else word
