"""Unsigned keys in the order of values of any type, and sorts of keys with their indices that keep the order of equal
ones."""

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
class Keys:
    """Keys, and the index each belongs to (s32)."""

    keys: Buffer
    indices: Buffer


@dataclass(frozen=True)
class KeyKind:
    """Keys of elements of `of`: unsigned integers `dtype`, which differ in the bits from `low` to `high` only."""

    of: DType
    dtype: DType
    low: int
    high: int

    def shifts(self, width: int) -> range:
        """Where the digits of `width` bits begin, the least first."""
        return range(self.low, self.high, width)


def key_kind(dtype: DType) -> KeyKind:
    """The keys of elements of a type. 16-bit floats have those of f32, whose low bits are the same for all."""
    if dtype.is_float and dtype.bits < 64:
        return KeyKind(dtype, U32, {BF16: 16, F16: 13}.get(dtype, 0), 32)
    if dtype.bits == 64:
        return KeyKind(dtype, U64, 0, 64)
    return KeyKind(dtype, U32, 0, 1 if dtype == BOOL else dtype.bits)


def key_of(b: t.LoopBuilder, value: Expr, kind: KeyKind, largest: bool) -> Expr:
    """The key of a value, which 16-bit floats give as f32: NaN is the largest value, and -0 equals 0."""
    if kind.of.is_float:
        key = _float_key(b, value, kind)
    elif kind.of.is_signed:
        signed = t.cast(value, S64 if kind.dtype == U64 else S32)
        offset = t.const(1 << (kind.of.bits - 1), kind.dtype)
        key = t.binary("add", t.bitcast(signed, kind.dtype), offset)  # wraps
    else:
        key = t.cast(value, kind.dtype)
    return t.unary("not", key) if largest else key


def _float_key(b: t.LoopBuilder, value: Expr, kind: KeyKind) -> Expr:
    """The bits; those of negative numbers complemented but for the sign, which is then inverted for all."""
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
    pair: tuple[Keys, Keys],
    count: Expr,
    known: int,
    write: Callable[[Keys], None],
) -> None:
    """Sort the first `count` keys of `pair[0]` in ascending order and use the result; `known`: that count, 0 if it is
    computed."""
    if 0 < known <= INSERTED:
        _insert(b, pair[0], count)
        write(pair[0])
    elif known:
        write(_by_digits(b, kind, pair, count, 11 if known >= WIDE_ROWS else 8))
    else:
        with b.when(t.compare("le", count, INSERTED)):
            _insert(b, pair[0], count)
            write(pair[0])
        with b.otherwise():
            write(_by_digits(b, kind, pair, count, 8))


def _insert(b: t.LoopBuilder, found: Keys, count: Expr) -> None:
    """Each key moves before the greater ones in front of it."""
    keys, indices = found.keys, found.indices
    with b.loop("i", 1, count) as i:
        key = b.let("key", b.load(keys, (i,)))
        index = b.let("index", b.load(indices, (i,)))
        at = b.allocate("at", S64, (1,))
        b.store(at, (0,), i)
        here = b.load(at, (0,))
        before = t.sub(here, 1)
        greater = t.compare("gt", b.load(keys, (t.maximum(before, 0),)), key)
        with b.repeat(t.binary("and", t.compare("gt", here, 0), greater)):
            to = b.let("to", here)
            b.store(keys, (to,), b.load(keys, (t.sub(to, 1),)))
            b.store(indices, (to,), b.load(indices, (t.sub(to, 1),)))
            b.store(at, (0,), t.sub(to, 1))
        place = b.let("place", here)
        b.store(keys, (place,), key)
        b.store(indices, (place,), index)


def _by_digits(
    b: t.LoopBuilder, kind: KeyKind, pair: tuple[Keys, Keys], count: Expr, width: int
) -> Keys:
    """Distribute by one digit after the other, the least first; the keys that hold the result."""
    source, target = pair
    starts = b.allocate("starts", S32, (1 << width,))
    for shift in kind.shifts(width):
        _distribute(b, source, target, starts, count, shift)
        source, target = target, source
    return source


def _distribute(
    b: t.LoopBuilder, source: Keys, target: Keys, starts: Buffer, count: Expr, shift: int
) -> None:
    """Count the keys of each digit, add up where each digit's begin, and move them there in order."""
    size = starts.shape[0]
    dtype = source.keys.dtype
    mask = size - 1

    def digit(key: Expr) -> Expr:
        moved = t.binary("shr", key, t.const(shift, dtype))
        return t.cast(t.binary("and", moved, t.const(mask, dtype)), S64)

    with b.loop("d", 0, size, "vector") as d:
        b.store(starts, (d,), 0)
    with b.loop("i", 0, count) as i:
        one = b.let("digit", digit(b.load(source.keys, (i,))))
        b.store(starts, (one,), t.add(b.load(starts, (one,)), 1))
    total = b.allocate("total", S32, (1,))
    b.store(total, (0,), 0)
    with b.loop("d", 0, size) as d:
        amount = b.let("amount", b.load(starts, (d,)))
        so_far = b.let("so_far", b.load(total, (0,)))
        b.store(starts, (d,), so_far)
        b.store(total, (0,), t.add(so_far, amount))
    with b.loop("i", 0, count) as i:
        key = b.let("key", b.load(source.keys, (i,)))
        which = b.let("digit", digit(key))
        at = b.let("at", b.load(starts, (which,)))
        place = b.let("place", t.cast(at, S64))
        b.store(target.keys, (place,), key)
        b.store(target.indices, (place,), b.load(source.indices, (i,)))
        b.store(starts, (which,), t.add(at, 1))
