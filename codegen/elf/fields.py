"""Fills fields of code and data with addresses, as the relocations of a machine say."""

from __future__ import annotations

import struct

from ...base.errors import InternalError
from ...targets.machine_code import Relocation

_PAGE_BITS, _LOW = 12, 0xFFF


def fill(data: bytearray, offset: int, rule: Relocation, value: int, field: int) -> None:
    """Write `value` into a field at an offset of `data`, whose address is `field`. Raise InternalError if it does not
    fit."""
    if rule.field == "distance":
        data[offset : offset + rule.size] = signed(value - field, rule.size)
        return
    (word,) = struct.unpack_from("<I", data, offset)
    if rule.field == "page":  # the low two of 21 bits come first
        pages = _ranged((value >> _PAGE_BITS) - (field >> _PAGE_BITS), 21)
        word = word & 0x9F00001F | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
    elif rule.field == "low":
        word = word & ~0x3FFC00 | (value & _LOW) >> rule.size << 10
    else:
        word = word & ~0x3FFFFFF | _ranged((value - field) >> 2, 26) & 0x3FFFFFF
    struct.pack_into("<I", data, offset, word)


def signed(value: int, size: int) -> bytes:
    """Return a number in two's complement. Raise InternalError if it does not fit."""
    return _ranged(value, size * 8).to_bytes(size, "little", signed=True)


def _ranged(value: int, bits: int) -> int:
    if not -1 << bits - 1 <= value < 1 << bits - 1:
        raise InternalError(f"a distance of {value} does not fit the {bits} bits of an instruction")
    return value
