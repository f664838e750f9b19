"""Unsigned keys in the order of values of any dtype, and stable sorts of keys with their indices."""

from __future__ import annotations

from collections.abc import Callable

from ...base.dtypes import BF16, BOOL, F16, S32, S64, U32, U64, DType
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr

INSERTED = 32
"""Up to so many keys are sorted by insertion."""

WIDE_ROWS = 2048
"""From so many keys on, digits have 11 bits: fewer passes, whose counts pay."""


@dataclass(frozen=True)
class KeyKind:
    """Keys of elements of `of`: unsigned integers `dtype`, which differ in the bits from `low` to `high` only."""

    of: DType
    dtype: DType
    low: int
    high: int

    @property
    def is_packed(self) -> bool:
        """Whether a key and its index share a word of 64 bits: then one store moves both."""
        return self.dtype == U32

    def shifts(self, width: int) -> range:
        """Return the first bit of each digit of `width` bits in a word, least significant digit first."""
        packed = 32 if self.is_packed else 0
        return range(self.low + packed, self.high + packed, width)


@dataclass(frozen=True)
class Entries:
    """Keys and the index of each, from element `start` of two buffers on: words (u64) that end in the index, or of keys
    of 64 bits, keys and `indices` (u32)."""

    words: Buffer
    indices: Buffer | None
    start: Expr

    def put(self, b: t.LoopBuilder, at: Expr, key: Expr, index: Expr) -> None:
        """Store an entry."""
        if self.indices is None:
            high = t.binary("shl", t.cast(key, U64), t.const(32, U64))
            self._store(b, self.words, at, t.binary("or", high, t.cast(index, U64)))
        else:
            self._store(b, self.words, at, key)
            self._store(b, self.indices, at, t.cast(index, U32))

    def word(self, b: t.LoopBuilder, at: Expr) -> Expr:
        """Return what entries are ordered by."""
        return b.load(self.words, (t.add(self.start, at),))

    def key(self, b: t.LoopBuilder, at: Expr) -> Expr:
        """Return the key of an entry."""
        word = self.word(b, at)
        return (
            t.cast(t.binary("shr", word, t.const(32, U64)), U32) if self.indices is None else word
        )

    def index(self, b: t.LoopBuilder, at: Expr) -> Expr:
        """Return the index of an entry, s64."""
        if self.indices is None:
            return t.cast(t.binary("and", self.word(b, at), t.const(0xFFFFFFFF, U64)), S64)
        return t.cast(b.load(self.indices, (t.add(self.start, at),)), S64)

    def held(self, b: t.LoopBuilder, at: Expr) -> tuple[Expr, ...]:
        """Return an entry, bound to names: its word, and its index if that is stored apart."""
        word = b.let("word", self.word(b, at))
        if self.indices is None:
            return (word,)
        return word, b.let("index", b.load(self.indices, (t.add(self.start, at),)))

    def store(self, b: t.LoopBuilder, at: Expr, entry: tuple[Expr, ...]) -> None:
        """Store an entry that was `held`."""
        self._store(b, self.words, at, entry[0])
        if self.indices is not None:
            self._store(b, self.indices, at, entry[1])

    def _store(self, b: t.LoopBuilder, buffer: Buffer, at: Expr, value: Expr) -> None:
        b.store(buffer, (t.add(self.start, at),), value)


def key_kind(dtype: DType) -> KeyKind:
    """Return the keys of elements of a dtype. 16-bit floats have those of f32, whose low bits are the same for all."""
    if dtype.is_float and dtype.bits < 64:
        return KeyKind(dtype, U32, {BF16: 16, F16: 13}.get(dtype, 0), 32)
    if dtype.bits == 64:
        return KeyKind(dtype, U64, 0, 64)
    return KeyKind(dtype, U32, 0, 1 if dtype == BOOL else dtype.bits)


def key_of(b: t.LoopBuilder, value: Expr, kind: KeyKind, largest: bool) -> Expr:
    """Return the key of a value, f32 for 16-bit floats. NaN is the largest value, and -0 equals 0."""
    if kind.of.is_float:
        key = _float_key(b, value, kind)
    elif kind.of.is_signed:
        signed = t.cast(value, S64 if kind.dtype == U64 else S32)
        offset = t.const(1 << (kind.of.bits - 1), kind.dtype)
        key = t.binary("add", t.bitcast(signed, kind.dtype), offset)  # wraps
    else:
        key = t.cast(value, kind.dtype)
    return t.unary("not", key) if largest else key


def value_of(b: t.LoopBuilder, key: Expr, kind: KeyKind, largest: bool) -> Expr:
    """Return the value that has a key: the inverse of `key_of`, where `is_exact`."""
    plain = b.let("plain", t.unary("not", key) if largest else key)
    if kind.of.is_float:
        signed, bits = (S32, 32) if kind.dtype == U32 else (S64, 64)
        sign = t.const(1 << (bits - 1), kind.dtype)
        raw = b.let("raw", t.bitcast(t.binary("xor", plain, sign), signed))
        below = t.binary("shr", raw, t.const(bits - 1, signed))
        flip = t.binary("and", below, t.const((1 << (bits - 1)) - 1, signed))
        return t.cast(t.bitcast(t.binary("xor", raw, flip), kind.of.accumulator), kind.of)
    if kind.of.is_signed:
        signed = S64 if kind.dtype == U64 else S32
        offset = t.const(1 << (kind.of.bits - 1), kind.dtype)
        return t.cast(t.bitcast(t.binary("sub", plain, offset), signed), kind.of)
    return t.cast(plain, kind.of)


def is_exact(key: Expr, kind: KeyKind, largest: bool) -> Expr | None:
    """Return whether a key belongs to one value only, unlike those of NaN and of zeros; None if every key does."""
    if not kind.of.is_float:
        return None
    mask = (1 << kind.dtype.bits) - 1
    zero, nan = (
        (value ^ mask) if largest else value for value in (1 << (kind.dtype.bits - 1), mask)
    )
    differ = [t.compare("ne", key, t.const(value, kind.dtype)) for value in (zero, nan)]
    return t.binary("and", *differ)


def _float_key(b: t.LoopBuilder, value: Expr, kind: KeyKind) -> Expr:
    """Return the bits; those of negative numbers complemented but for the sign, which is then inverted for all."""
    number = b.let("number", value)
    signed, bits = (S32, 32) if kind.dtype == U32 else (S64, 64)
    zero = t.compare("eq", number, 0.0)
    raw = b.let("raw", t.bitcast(t.select(zero, t.const(0.0, number.dtype), number), signed))
    below = t.binary("shr", raw, t.const(bits - 1, signed))
    flip = t.binary("and", below, t.const((1 << (bits - 1)) - 1, signed))
    ordered = t.bitcast(t.binary("xor", raw, flip), kind.dtype)
    key = t.binary("xor", ordered, t.const(1 << (bits - 1), kind.dtype))
    is_nan = t.compare("ne", number, number)
    return t.select(is_nan, t.const((1 << bits) - 1, kind.dtype), key)


def sort(
    b: t.LoopBuilder,
    kind: KeyKind,
    pair: tuple[Entries, Entries],
    count: Expr,
    known: int,
    write: Callable[[Entries], None],
    width: int = 0,
) -> None:
    """Sort the first `count` entries of `pair[0]` in ascending order of keys and use the result.

    Args:
        known: `count` where it is a number, 0 where it is computed.
        width: bits of a digit; 0 chooses by `known`.
    """
    width = width or (11 if known >= WIDE_ROWS else 8)
    if 0 < known <= INSERTED:
        _insert(b, pair[0], count)
        write(pair[0])
    elif known:
        write(_by_digits(b, kind, pair, count, width))
    else:
        with b.when(t.compare("le", count, INSERTED)):
            _insert(b, pair[0], count)
            write(pair[0])
        with b.otherwise():
            write(_by_digits(b, kind, pair, count, width))


def _insert(b: t.LoopBuilder, found: Entries, count: Expr) -> None:
    """Move each entry before the greater ones in front of it."""
    with b.loop("i", 1, count) as i:
        entry = found.held(b, i)
        at = b.allocate("at", S64, (1,))
        b.store(at, (0,), i)
        here = b.load(at, (0,))
        before = t.maximum(t.sub(here, 1), 0)
        greater = t.compare("gt", found.word(b, before), entry[0])
        with b.repeat(t.binary("and", t.compare("gt", here, 0), greater)):
            to = b.let("to", here)
            found.store(b, to, found.held(b, t.sub(to, 1)))
            b.store(at, (0,), t.sub(to, 1))
        found.store(b, b.let("hole", here), entry)


def _by_digits(
    b: t.LoopBuilder, kind: KeyKind, pair: tuple[Entries, Entries], count: Expr, width: int
) -> Entries:
    """Distribute by each digit, least significant first; return where the result lies.

    One pass counts all digits, and a digit that all keys share needs no distribution.
    """
    shifts, size = kind.shifts(width), 1 << width
    starts = b.allocate("starts", S32, (len(shifts) * size,))
    with b.loop("d", 0, len(shifts) * size, "vector") as d:
        b.store(starts, (d,), 0)
    with b.loop("i", 0, count) as i:
        word = b.let("word", pair[0].word(b, i))
        for number, shift in enumerate(shifts):
            at = b.let("at", t.add(_digit(word, t.const(shift, U64), size), number * size))
            b.store(starts, (at,), t.add(b.load(starts, (at,)), 1))
    ends = b.allocate("ends", S64, (2,))
    for number, entries in enumerate(pair):
        b.store(ends, (number,), entries.start)
    with b.loop("digit", 0, len(shifts)) as which:
        _distribute(b, pair[0], ends, starts, count, (which, shifts, size))
    return Entries(pair[0].words, pair[0].indices, b.let("sorted", b.load(ends, (0,))))


def _digit(word: Expr, shift: Expr, size: int) -> Expr:
    moved = t.binary("shr", word, shift)
    return t.cast(t.binary("and", moved, t.const(size - 1, U64)), S64)


def _distribute(
    b: t.LoopBuilder,
    entries: Entries,
    ends: Buffer,
    starts: Buffer,
    count: Expr,
    digits: tuple[Expr, range, int],
) -> None:
    """Add up where the entries of each digit begin, and move them there in order: from ends[0] on to ends[1] on."""
    number, shifts, size = digits
    source, target = (
        Entries(entries.words, entries.indices, b.let(name, b.load(ends, (at,))))
        for at, name in enumerate(("source", "target"))
    )
    shift = t.cast(b.let("shift", t.add(t.mul(number, shifts.step), shifts.start)), U64)
    base = b.let("base", t.mul(number, size))
    first = t.add(base, _digit(source.word(b, t.ZERO), shift, size))
    with b.when(t.compare("lt", t.cast(b.load(starts, (first,)), S64), count)):
        total = b.allocate("total", S32, (1,))
        b.store(total, (0,), 0)
        with b.loop("d", 0, size) as d:
            at = b.let("at", t.add(base, d))
            amount = b.let("amount", b.load(starts, (at,)))
            so_far = b.let("so_far", b.load(total, (0,)))
            b.store(starts, (at,), so_far)
            b.store(total, (0,), t.add(so_far, amount))
        with b.loop("i", 0, count) as i:
            entry = source.held(b, i)
            which = b.let("digit", t.add(base, _digit(entry[0], shift, size)))
            to = b.let("to", b.load(starts, (which,)))
            target.store(b, t.cast(to, S64), entry)
            b.store(starts, (which,), t.add(to, 1))
        b.store(ends, (0,), target.start)
        b.store(ends, (1,), source.start)
