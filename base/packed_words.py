"""Small integers in words of 4 bytes, as vectors of 32-bit lanes unpack them.

Of the 32 / bits numbers of a word, number 4 * h + i is in byte i from bit h * bits on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

WORD_BYTES = 4
"""Bytes of a word: what a 32-bit lane unpacks."""

LOW_BITS = {2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 8: 8, 16: 16}
"""Bits of a number in its word, by all its bits; the upper ones are in other words."""

NIBBLE = 15
"""The lower half of a byte."""


def packed_words(numbers: Array, bits: int) -> Array:
    """Return numbers [n, k] below 2**bits as words u8 [n, k * bits / 8]; k is a multiple of the numbers of a word."""
    n, k = numbers.shape
    fields = 8 // bits
    parts = numbers.astype(np.uint8, copy=False).reshape(n, -1, fields, WORD_BYTES)
    found = parts[:, :, 0].copy() if fields > 1 else parts[:, :, 0]
    for i in range(1, fields):
        found |= parts[:, :, i] << i * bits
    return found.reshape(n, k // fields)


def unpacked_words(words: Array, bits: int) -> Array:
    """Return the numbers u8 [..., k] of words [..., bytes]: the inverse of `packed_words`."""
    *lead, size = words.shape
    shifts = np.arange(0, 8, bits, dtype=np.uint8).reshape(-1, 1)
    parts = (words.reshape(*lead, -1, 1, WORD_BYTES) >> shifts) & np.uint8((1 << bits) - 1)
    return parts.reshape(*lead, size * 8 // bits)
