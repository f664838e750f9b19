"""Weights of 2 to 8 bits in words, with a scale and a zero point per group of k: how a panel of them is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from ...base.dtypes import F32, S32, S64, U8, U16, U32
from ...base.packed_words import LOW_BITS, NIBBLE, WORD_BYTES
from ...base.records import dataclass
from ...targets.machines import ZEN5
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Block,
    Broadcast,
    Buffer,
    Expr,
    Let,
    Load,
    Prefetch,
    Slice,
    Stmt,
    Store,
    Var,
)
from ..nest.packing import loop

LINE = 64
"""Bytes of a cache line."""

HALF_BF16, UPPER_HALF = 0x8000, 0xFFFF0000
"""The number that rounds an f32 to its upper half when it is added, and the mask of that half."""


@dataclass(frozen=True)
class PackedWeights:
    """Buffers of the weights [n, k], their scales and zero points, all in panels as wide as the register tile.

    `zero` may hold one number for all weights; `parts` are other operands of the op; `ahead`: bytes between words that
    are multiplied and those that are fetched.
    """

    words: Buffer
    scale: Buffer
    zero: Buffer
    bits: int
    group: int
    parts: Mapping[str, Buffer] = field(default_factory=dict)
    ahead: int = ZEN5.fetch_ahead

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
        return 8 * WORD_BYTES // self.low_bits

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
    """One panel of `columns` columns, as vectors of 32-bit lanes. `is_copy`: its words alone are in their buffer.

    `floats`: the scales and the minima of all groups in f32, where they were converted before.
    """

    weights: PackedWeights
    panel: Expr
    columns: int
    k: int
    lanes: int
    is_copy: bool = False
    floats: Buffer | None = None

    def word(self, number: Expr, v: int) -> Expr:
        """Word `number` of each column of vector `v`."""
        return self._word(self.weights.words, self.weights.low_bits, number, v)

    def _word(self, words: Buffer, bits: int, number: Expr, v: int) -> Expr:
        each = WORD_BYTES // words.dtype.size
        row = self.columns * each
        at = number * row + v * self.lanes * each
        if not self.is_copy:
            at = self.panel * (row * (self.k * bits // (8 * WORD_BYTES))) + at
        return t.bitcast(Load(words, (at,), self.lanes * each), U32)

    def high_words(self, body: list[Stmt], part: Expr, step: int, name: str, v: int) -> list[Expr]:
        """Bind the words with the upper bits of `step` k, part `part` of all: field 0 is in the lowest bits."""
        bits, found = self.weights.high_bits, list[Expr]()
        if not bits:
            return found
        size = step * bits
        for i in range(-(-size // (8 * WORD_BYTES))):
            at = (
                part * (size // (8 * WORD_BYTES)) + i
                if size >= 8 * WORD_BYTES
                else part // (8 * WORD_BYTES // size)
            )
            word = self._word(self.weights.parts["high"], bits, at, v)
            if size < 8 * WORD_BYTES:
                shift = t.cast(part % (8 * WORD_BYTES // size) * (size // WORD_BYTES), U32)
                word = word >> Broadcast(shift, self.lanes)
            var = Var(f"{name}{i}", U32, self.lanes)
            body.append(Let(var, word))
            found.append(var)
        return found

    def joined(self, low: Expr, high: Sequence[Expr], number: int) -> Word:
        """Return word `number` of those whose upper bits are `high`."""
        if not high:
            return Word(low)
        at = number * self.weights.numbers // WORD_BYTES * self.weights.high_bits
        return Word(low, high[at // 8], at % 8)

    def fetched(self, number: Expr) -> list[Stmt]:
        """Hints for the words that come `ahead` bytes after word `number` of each column.

        Dequantizing takes enough instructions that only few loads are under way at a time, which is too few where
        weights do not stay in the L3: 1x11008x4096 takes 0.80 of the time for rows in f32, 0.91 for rows in s8.
        """
        row, size = self.columns * WORD_BYTES, self.weights.words.dtype.size
        start = self.panel * (row // size * (self.k // self.weights.numbers)) + number * (
            row // size
        )
        lines = range(self.weights.ahead, self.weights.ahead + row, LINE)
        return [Prefetch(Slice(self.weights.words, (start + at // size,)), 1) for at in lines]

    def number(self, word: Word, index: int) -> Expr:
        """Level `index` of each word as f32."""
        if (dtype := self.weights.words.dtype).is_float:
            half = word.low >> dtype.bits if index else word.low
            return t.cast(t.bitcast(t.cast(half, U16), dtype), F32)
        part, byte = divmod(index, WORD_BYTES)
        low = word.low
        if "book" in self.weights.parts:
            low, bits, shift = t.bitcast(self.quad(word, part), U32), 8, 8 * byte
        else:
            bits = self.weights.low_bits
            shift = 8 * byte + part * bits
        low = _field(low, shift, (1 << bits) - 1, shift + bits < 32)
        if word.high is not None:
            low = low | self._upper(word, part, 8 * byte, 1)
        return t.cast(t.bitcast(low, S32), F32)

    def _upper(self, word: Word, part: int, shift: int, each: int) -> Expr:
        """Return the upper bits of field `part` above the lower ones."""
        assert word.high is not None
        weights = self.weights
        at = shift + word.shift + part * weights.high_bits - weights.low_bits
        return _field(word.high, at, ((1 << weights.high_bits) - 1 << weights.low_bits) * each)

    def picked(self, word: Word, index: int, table: Expr) -> Expr:
        """Level `index` of each word through a table with a lane for each of the 4-bit numbers."""
        part, byte = divmod(index, WORD_BYTES)
        low, shift = word.low, 8 * byte + part * self.weights.low_bits
        return t.call("pick", table, t.bitcast(low >> shift if shift else low, S32))

    def quad(self, word: Word, part: int) -> Expr:
        """Levels of four neighboring k of each word, as bytes."""
        bits, each = self.weights.low_bits, 0x01010101
        low = _field(word.low, part * bits, ((1 << bits) - 1) * each, bits < 8)
        if word.high is not None:
            low = low | self._upper(word, part, 0, each)
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

    def as_floats(self, local: Buffer, vectors: int) -> tuple[WeightPanel, Stmt]:
        """(the same panel with the scales and minima in `local`, the copy): several tiles read them."""
        group, copy = Var("fg"), replace(self, floats=local)
        made = (self.scale, self.minimum)[: 1 + self.weights.has_minima]
        stores = [
            Store(local, (copy._float_at(kind, group, v),), make(group, v))
            for v in range(vectors)
            for kind, make in enumerate(made)
        ]
        return copy, loop(group, self.k // self.weights.group, Block(tuple(stores)), "serial")

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
        blocks = self.weights.parts.get(name)
        if blocks is None:
            return value
        groups = self.k // self.weights.group
        panels = self.weights.scale.elements // (groups * self.columns)
        count = blocks.elements // (panels * self.columns)
        at = (self.panel * count + group // (groups // count)) * self.columns + v * self.lanes
        return value * t.cast(Load(blocks, (at,), self.lanes), F32)

    def as_bytes(
        self,
        local: Buffer,
        vectors: int,
        fetches: bool,
        step: int,
        parts: tuple[Expr, int] | None = None,
        start: Expr = t.ZERO,
        less_zero: bool = False,
    ) -> tuple[WeightPanel, Stmt]:
        """(the same panel with a byte for each level, in `local`; the copy, `step` k at a time, which `fetches` words
        ahead). `parts`: the first and the number of steps of k that are copied, all by default; `start`: the offset in
        `local`. `less_zero`: less their one zero point."""
        first, count = parts or (t.ZERO, self.k // step)
        zero = Var("bz", U8, self.lanes * WORD_BYTES)
        numbers, part, body = self.weights.numbers, Var("bw"), list[Stmt]()
        for i in range(step // numbers):
            body += self.fetched((first + part) * (step // numbers) + i) if fetches else []
        for v in range(vectors):
            high = self.high_words(body, first + part, step, f"bh{v}_", v)
            for i in range(step // numbers):
                packed, number = Var(f"bp{v}_{i}", U32, self.lanes), part * (step // numbers) + i
                body.append(Let(packed, self.word(first * (step // numbers) + number, v)))
                for j in range(numbers // WORD_BYTES):
                    row = (number * (numbers // WORD_BYTES) + j) * (self.columns * WORD_BYTES)
                    quad = self.quad(self.joined(packed, high, i), j)
                    if less_zero:
                        quad = quad - zero
                    if local.dtype != quad.dtype:
                        quad = t.bitcast(quad, local.dtype)
                    body.append(Store(local, (start + row + v * self.lanes * WORD_BYTES,), quad))
        copy: Stmt = loop(part, count, Block(tuple(body)), "serial")
        if less_zero:
            one = t.cast(t.cast(self.weights.zero[(t.ZERO,)], S32), U8)
            copy = Block((Let(zero, Broadcast(one, zero.lanes)), copy))
        others = {x: b for x, b in self.weights.parts.items() if x not in ("high", "book")}
        weights = replace(self.weights, words=local, bits=8, parts=others)
        return replace(self, weights=weights, is_copy=True), copy

    def unpack(self, k0: int, k: int, local: Buffer, vectors: int) -> Stmt:
        """Write the weights of `k` k from `k0` on to a panel of floats, row after row.

        Both are multiples of the group, or `k` divides it.
        """
        size, part, body = min(self.weights.group, k), Var("ug"), list[Stmt]()
        group, numbers = part + k0 // self.weights.group, self.weights.numbers
        is_unrolled = self.weights.high_bits > 0
        word = Var("uw")
        inner: list[Stmt] = []
        for v in range(vectors):
            weight = self.scaled(body, group, v)
            high = self.high_words(body, part + k0 // size, size, f"uh{v}_", v)
            for number in range(size // numbers) if is_unrolled else [0]:
                at = t.as_expr(number) if is_unrolled else word
                first = part * (size // numbers) + (at + k0 // numbers)
                packed = Var(f"up{v}_{number}", U32, self.lanes)
                inner.append(Let(packed, self.word(first, v)))
                row = part * size + at * numbers
                for i in range(numbers):
                    value = weight(self.joined(packed, high, number), i)
                    inner.append(Store(local, ((row + i) * self.columns + v * self.lanes,), value))
        if is_unrolled:
            return loop(part, k // size, Block((*body, *inner)), "serial")
        words = loop(word, size // numbers, Block(tuple(inner)), "serial")
        return loop(part, k // size, Block((*body, words)), "serial")

    def unpack_pairs(self, k0: int, k: int, local: Buffer, vectors: int) -> Stmt:
        """Write the weights of `k` k from `k0` on to a panel of bf16, two neighboring k in each 32-bit lane.

        Both are multiples of the group. Halves between two numbers are rounded away from zero.
        """
        size, part, numbers = self.weights.group, Var("ug"), self.weights.numbers
        group, count = part + k0 // size, size // numbers
        body: list[Stmt] = []
        for number in range(count):
            body += self.fetched(group * count + number)
        for v in range(vectors):
            weight = self._fused(body, group, v)
            high = self.high_words(body, group, size, f"uh{v}_", v)
            for number in range(count):
                packed = Var(f"up{v}_{number}", U32, self.lanes)
                body.append(Let(packed, self.word(group * count + number, v)))
                word = self.joined(packed, high, number)
                for i in range(0, numbers, 2):
                    low, upper = (t.bitcast(weight(word, i + j), U32) + HALF_BF16 for j in (0, 1))
                    pair = t.bitcast(low >> 16 | upper & UPPER_HALF, local.dtype)
                    row = (part * size + (number * numbers + i)) * self.columns
                    body.append(Store(local, (row + v * self.lanes * 2,), pair))
        return loop(part, k // size, Block(tuple(body)), "serial")

    def _fused(self, body: list[Stmt], group: Expr, v: int) -> Callable[[Word, int], Expr]:
        """Bind a scale and an offset; return the function that makes weights of a group's levels of one operation."""
        scale, offset = (Var(f"{name}{v}", F32, self.lanes) for name in ("us", "uo"))
        start = t.const(0.0, F32, self.lanes) - self.zero(group, v) * scale
        if self.weights.has_minima:
            start = start + self.minimum(group, v)
        body += [Let(scale, self.scale(group, v)), Let(offset, start)]
        return lambda word, index: t.fma(self.number(word, index), scale, offset)

    def scaled(self, body: list[Stmt], group: Expr, v: int) -> Callable[[Word, int], Expr]:
        """Bind what levels of a group are scaled by; return the function that makes weights of them."""
        names = ("us", "uz", "um") if self.weights.has_minima else ("us", "uz")
        made = (self.scale, self.zero, self.minimum)
        scale, zero, *minimum = [Var(f"{name}{v}", F32, self.lanes) for name in names]
        for var, make in zip((scale, zero, *minimum), made, strict=False):
            body.append(Let(var, make(group, v)))

        def weight(word: Word, index: int) -> Expr:
            scaled = (self.number(word, index) - zero) * scale
            return scaled + minimum[0] if minimum else scaled

        return weight


def _field(word: Expr, shift: int, mask: int, is_masked: bool = True) -> Expr:
    """Return the bits of `mask` of a word that is shifted right, or left where `shift` is negative."""
    if shift:
        word = word >> shift if shift > 0 else word << -shift
    return word & mask if is_masked else word
