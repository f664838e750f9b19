"""Storage types of block-quantized weights, as the rows of one table: how bytes become integers, scales and minima.

A weight is `scale * level - minimum`. Levels are small integers: a field of bits less a zero point, or an entry of a
code book. `scale` and `minimum` belong to a group of neighboring elements; in a super-block each is an f16 of
the whole block times a small integer of the group. Every result of an operation is rounded once to f32, in the
order written here, which makes the values equal bit for bit to those of the package `gguf`.

Types and layouts: GGUF version 3; numbers of blocks are little-endian.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from .records import dataclass

Array = np.ndarray[Any, Any]


class Field(Protocol):
    """A field of a block."""

    def read(self, blocks: Array) -> Array:
        """Return the values [blocks, count] of blocks u8 [blocks, bytes]."""
        ...


@dataclass(frozen=True)
class Bits:
    """Integers of `bits` bits in `size` bytes from `offset` on.

    Of every `run` bytes, element i is in the lowest bits of byte i, element run + i in the next bits of byte i, and so
    on. `shift`: the position of these bits in the integer, where other fields hold the rest.
    """

    offset: int
    size: int
    bits: int
    run: int
    shift: int = 0

    def read(self, blocks: Array) -> Array:
        """Return u8 [blocks, size * 8 / bits]."""
        packed = np.ascontiguousarray(blocks[:, self.offset : self.offset + self.size])
        mask, fields = (1 << self.bits) - 1, 8 // self.bits
        found = np.empty((len(blocks), self.size // self.run, fields, self.run), np.uint8)
        # One constant at a time: NumPy shifts by an array element by element.
        for i in range(fields):
            part = packed >> (i * self.bits) & mask
            found[:, :, i] = (part << self.shift).reshape(len(blocks), -1, self.run)
        return found.reshape(len(blocks), -1)


@dataclass(frozen=True)
class Joined:
    """Integers whose bits are in several fields."""

    parts: tuple[Bits, ...]

    def read(self, blocks: Array) -> Array:
        """Return u8 [blocks, count]."""
        found = self.parts[0].read(blocks)
        for part in self.parts[1:]:
            found |= part.read(blocks)
        return found


@dataclass(frozen=True)
class Part:
    """`count` integers of a field, from `start` on."""

    field: Field
    start: int
    count: int

    def read(self, blocks: Array) -> Array:
        """Return what the field has, [blocks, count]."""
        return self.field.read(blocks)[:, self.start : self.start + self.count]


@dataclass(frozen=True)
class SixBits:
    """One half of the 8 scales and 8 minima of 6 bits that Q4_K and Q5_K keep in 12 bytes from `offset` on.

    The first four are the low bits of bytes 0-3 (scales) or 4-7 (minima). Of the last four, the low nibble is in bytes
    8-11 (the high nibble for minima), and the two high bits are those that the first four leave free.
    """

    offset: int
    minima: bool = False

    def read(self, blocks: Array) -> Array:
        """Return u8 [blocks, 8]."""
        packed = blocks[:, self.offset : self.offset + 12]
        own = packed[:, 4:8] if self.minima else packed[:, :4]
        rest = packed[:, 8:] >> 4 if self.minima else packed[:, 8:] & 15
        return np.hstack([own & 63, rest | own >> 6 << 4])


@dataclass(frozen=True)
class Signed:
    """`size` integers s8 from `offset` on."""

    offset: int
    size: int

    def read(self, blocks: Array) -> Array:
        """Return s8 [blocks, size]."""
        return blocks[:, self.offset : self.offset + self.size].view(np.int8)


@dataclass(frozen=True)
class Floats:
    """`count` floats from `offset` on, of the NumPy dtype `dtype` or by `decode`, which takes u8."""

    offset: int
    count: int = 1
    dtype: str = "<f2"
    decode: Callable[[Array], Array] | None = None

    def read(self, blocks: Array) -> Array:
        """Return f32 [blocks, count]."""
        size = self.count * np.dtype(self.dtype).itemsize
        raw = np.ascontiguousarray(blocks[:, self.offset : self.offset + size])
        return self.decode(raw) if self.decode else raw.view(self.dtype).astype(np.float32)


@dataclass(frozen=True)
class Factor:
    """The scale of each group: floats of the block, times `of_group - zero` where there is an integer per group."""

    floats: Floats
    of_group: Field | None = None
    zero: int = 0

    def read(self, blocks: Array) -> Array:
        """Return f32 [blocks, groups]."""
        found, numbers = self.floats.read(blocks), self.numbers(blocks)
        return found if numbers is None else found * numbers.astype(np.float32)

    def numbers(self, blocks: Array) -> Array | None:
        """Return the integers, u8 or s8 [blocks, groups]; None where a scale is a float."""
        if self.of_group is None:
            return None
        numbers = self.of_group.read(blocks)
        return numbers.view(np.int8) - np.int8(self.zero) if self.zero else numbers


_ELEMENTS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class BlockType:
    """A storage type: `elements` neighboring weights of a row in `size` bytes; `code` is its number in GGUF.

    Levels are `levels - zero`, or `book[levels]`. `sign` is that of the minimum: scale * level + sign * minimum.
    """

    name: str
    code: int
    elements: int
    size: int
    levels: Field
    scale: Factor
    zero: int = 0
    book: tuple[int, ...] = ()
    minimum: Factor | None = None
    sign: int = -1

    @property
    def groups(self) -> int:
        """Number of scales in a block."""
        return self.scale.read(np.zeros((1, self.size), np.uint8)).shape[1]

    @property
    def group(self) -> int:
        """Neighboring weights that share a scale."""
        return self.elements // self.groups

    @property
    def min_level(self) -> int:
        """The smallest level."""
        if self.book:
            return min(self.book)
        return -128 if isinstance(self.levels, Signed) else -self.zero

    @property
    def level_count(self) -> int:
        """Number of integers from the smallest level to the largest."""
        if self.book:
            return max(self.book) - min(self.book) + 1
        whole = Joined((self.levels,)) if isinstance(self.levels, Bits) else self.levels
        return 1 << max(p.bits + p.shift for p in whole.parts) if isinstance(whole, Joined) else 256

    def values(self, raw: Array) -> Array:
        """Return the weights, f32 [rows, k], of u8 [rows, bytes]."""
        blocks = raw.reshape(-1, self.size)
        found = np.empty((len(blocks), self.groups, self.group), np.float32)
        with np.errstate(over="ignore", invalid="ignore"):  # any bytes have a value
            for part in self._parts(len(blocks)):
                levels, scale, minimum = self._split(blocks[part])
                here = found[part]
                np.multiply(scale[:, :, None], levels.reshape(here.shape), out=here)
                if minimum is not None:
                    here += minimum[:, :, None]
        return found.reshape(len(raw), -1)

    @property
    def bits(self) -> int:
        """Bits of a level, or of an index of the code book."""
        return 4 if self.book else self.level_count.bit_length() - 1

    def _parts(self, blocks: int) -> Iterator[slice]:
        """Yield runs of blocks whose temporary arrays stay in cache."""
        step = max(_ELEMENTS_AT_ONCE // self.elements, 1)
        return (slice(first, first + step) for first in range(0, blocks, step))

    def _split(self, blocks: Array) -> tuple[Array, Array, Array | None]:
        with np.errstate(over="ignore", invalid="ignore"):
            least = None if self.minimum is None else self.sign * self.minimum.read(blocks)
            return self._levels(blocks), self.scale.read(blocks), least

    def _levels(self, blocks: Array) -> Array:
        levels = self.levels.read(blocks)
        if self.book:
            return np.array(self.book, np.int8)[levels]
        return levels.view(np.int8) - np.int8(self.zero)


def _power_of_two(exponents: Array) -> Array:
    """E8M0, halved, as the levels of MXFP4 are doubled: 2**(e - 128), which is subnormal where e < 2."""
    return np.ldexp(np.float32(1), exponents.astype(np.int32) - 128)


def _unsigned_e4m3(raw: Array) -> Array:
    """E4M3 without a sign, halved, as the levels of NVFP4 are doubled; 0 and 0x7F are 0."""
    exponent, mantissa = (raw >> 3 & 15).astype(np.int32), (raw & 7).astype(np.float32)
    normal = np.ldexp(1 + mantissa / 8, exponent - 7)
    found = np.where(exponent == 0, np.ldexp(mantissa, -9), normal).astype(np.float32)
    return np.where((raw == 0x7F) | (raw == 0), np.float32(0), found / 2)


_HALF = Factor(Floats(0))
_NONLINEAR = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
_E2M1_DOUBLED = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


def _nibbles(offset: int, size: int, run: int = 16) -> Bits:
    return Bits(offset, size, 4, run)


_PAIRS = _nibbles(0, 16)
"""The scales of Q2_K's groups in the low nibbles, their minima in the high ones."""

BLOCK_TYPES = (
    BlockType("q4_0", 2, 32, 18, _nibbles(2, 16), _HALF, 8),
    BlockType("q4_1", 3, 32, 20, _nibbles(4, 16), _HALF, minimum=Factor(Floats(2)), sign=1),
    BlockType("q5_0", 6, 32, 22, Joined((_nibbles(6, 16), Bits(2, 4, 1, 1, 4))), _HALF, 16),
    BlockType(
        "q5_1", 7, 32, 24, Joined((_nibbles(8, 16), Bits(4, 4, 1, 1, 4))), _HALF,
        minimum=Factor(Floats(2)), sign=1,
    ),
    BlockType("q8_0", 8, 32, 34, Signed(2, 32), _HALF),
    BlockType(
        "q2_k", 10, 256, 84, Bits(16, 64, 2, 32), Factor(Floats(80), Part(_PAIRS, 0, 16)),
        minimum=Factor(Floats(82), Part(_PAIRS, 16, 16)),
    ),
    BlockType(
        "q3_k", 11, 256, 110, Joined((Bits(32, 64, 2, 32), Bits(0, 32, 1, 32, 2))),
        Factor(Floats(108), Joined((Bits(96, 8, 4, 8), Bits(104, 4, 2, 4, 4))), 32), 4,
    ),
    BlockType(
        "q4_k", 12, 256, 144, _nibbles(16, 128, 32), Factor(Floats(0), SixBits(4)),
        minimum=Factor(Floats(2), SixBits(4, minima=True)),
    ),
    BlockType(
        "q5_k", 13, 256, 176, Joined((_nibbles(48, 128, 32), Bits(16, 32, 1, 32, 4))),
        Factor(Floats(0), SixBits(4)), minimum=Factor(Floats(2), SixBits(4, minima=True)),
    ),
    BlockType(
        "q6_k", 14, 256, 210, Joined((_nibbles(0, 128, 64), Bits(128, 64, 2, 32, 4))),
        Factor(Floats(208), Signed(192, 16)), 32,
    ),
    BlockType("iq4_nl", 20, 32, 18, _nibbles(2, 16), _HALF, book=_NONLINEAR),
    BlockType(
        "iq4_xs", 23, 256, 136, _nibbles(8, 128),
        Factor(Floats(0), Joined((Bits(4, 4, 4, 1), Bits(2, 2, 2, 1, 4))), 32), book=_NONLINEAR,
    ),
    BlockType("tq2_0", 35, 256, 66, Bits(0, 64, 2, 32), Factor(Floats(64)), 1),
    BlockType(
        "mxfp4", 39, 32, 17, _nibbles(1, 16), Factor(Floats(0, 1, "u1", _power_of_two)),
        book=_E2M1_DOUBLED,
    ),
    BlockType(
        "nvfp4", 40, 64, 36, _nibbles(4, 32, 8), Factor(Floats(0, 4, "u1", _unsigned_e4m3)),
        book=_E2M1_DOUBLED,
    ),
)  # fmt: skip
"""Every block type that is read."""
