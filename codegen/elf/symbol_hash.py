"""The hash table of exported symbols (`DT_GNU_HASH`): a Bloom filter, buckets, and hashes in the order of symbols."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from .combine import Section
from .object_file import Symbol

_SHIFT, _WORD_BITS = 6, 64
_SYMBOLS_PER_BUCKET = 2


def hash_table(section: Section, symbols: Sequence[Symbol], first: int) -> list[Symbol]:
    """Append the table to a section; return the symbols in its order, of which the first gets the number `first`."""
    count = max(1, len(symbols) // _SYMBOLS_PER_BUCKET)
    found = sorted((_hash(s.name) % count, s.name, _hash(s.name), s) for s in symbols)
    heads, chain, word = [0] * count, [], 0
    for number, (bucket, _, value, _) in enumerate(found):
        heads[bucket] = heads[bucket] or first + number
        is_last = number + 1 == len(found) or found[number + 1][0] != bucket
        chain.append(value & ~1 | is_last)
        word |= 1 << value % _WORD_BITS | 1 << (value >> _SHIFT) % _WORD_BITS
    head = struct.pack("<4IQ", count, first, 1, _SHIFT, word)
    section.append(head + struct.pack(f"<{len(heads + chain)}I", *heads, *chain), 8)
    return [symbol for *_, symbol in found]


def _hash(name: bytes) -> int:
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value
