"""Unsigned keys in the order of values of any dtype."""

from __future__ import annotations

from ...base.dtypes import BF16, BOOL, F16, S32, S64, U32, U64, DType
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr


@dataclass(frozen=True)
class KeyKind:
    """Keys of elements of `of`: unsigned integers `dtype`, which differ in the bits from `low` to `high` only."""

    of: DType
    dtype: DType
    low: int
    high: int

    @property
    def is_packed(self) -> bool:
        """Return whether a key and its index share a word of 64 bits: then one store moves both."""
        return self.dtype == U32

    def shifts(self, width: int) -> range:
        """Return the first bit of each digit of `width` bits in a word, least significant digit first."""
        packed = 32 if self.is_packed else 0
        return range(self.low + packed, self.high + packed, width)


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
        key = t.bitcast(signed, kind.dtype) + offset  # wraps
    else:
        key = t.cast(value, kind.dtype)
    return ~key if largest else key


def value_of(b: t.LoopBuilder, key: Expr, kind: KeyKind, largest: bool) -> Expr:
    """Return the value that has a key: the inverse of `key_of`, where `is_exact`."""
    plain = b.let("plain", ~key if largest else key)
    if kind.of.is_float:
        signed, bits = (S32, 32) if kind.dtype == U32 else (S64, 64)
        sign = t.const(1 << (bits - 1), kind.dtype)
        raw = b.let("raw", t.bitcast(plain ^ sign, signed))
        below = raw >> t.const(bits - 1, signed)
        flip = below & t.const((1 << (bits - 1)) - 1, signed)
        return t.cast(t.bitcast(raw ^ flip, kind.of.accumulator), kind.of)
    if kind.of.is_signed:
        signed = S64 if kind.dtype == U64 else S32
        offset = t.const(1 << (kind.of.bits - 1), kind.dtype)
        return t.cast(t.bitcast(plain - offset, signed), kind.of)
    return t.cast(plain, kind.of)


def is_exact(key: Expr, kind: KeyKind, largest: bool) -> Expr | None:
    """Return whether a key belongs to one value only, unlike those of NaN and of zeros; None if every key does."""
    if not kind.of.is_float:
        return None
    mask = (1 << kind.dtype.bits) - 1
    zero, nan = (
        (value ^ mask) if largest else value for value in (1 << (kind.dtype.bits - 1), mask)
    )
    differ = [t.unequal(key, t.const(value, kind.dtype)) for value in (zero, nan)]
    return differ[0] & differ[1]


def _float_key(b: t.LoopBuilder, value: Expr, kind: KeyKind) -> Expr:
    """Return the bits; those of negative numbers complemented except for the sign, which is then inverted for all."""
    number = b.let("number", value)
    signed, bits = (S32, 32) if kind.dtype == U32 else (S64, 64)
    zero = t.equal(number, 0.0)
    raw = b.let("raw", t.bitcast(t.select(zero, t.const(0.0, number.dtype), number), signed))
    below = raw >> t.const(bits - 1, signed)
    flip = below & t.const((1 << (bits - 1)) - 1, signed)
    ordered = t.bitcast(raw ^ flip, kind.dtype)
    key = ordered ^ t.const(1 << (bits - 1), kind.dtype)
    is_nan = t.unequal(number, number)
    return t.select(is_nan, t.const((1 << bits) - 1, kind.dtype), key)
