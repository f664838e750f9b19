"""Transposes in vector registers: a square tile of rows becomes its columns by shuffles of pairs of vectors.

Inside 16 bytes, vectors of neighboring rows are interleaved, by one element, then by two, and so on; then 16-byte
parts are exchanged. Each step is one instruction where the ISA has it: unpack, or a shuffle of 128-bit parts.
log2(lanes) steps for each vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...base.dtypes import DType
from ...tensor_ir.nodes import Expr, Shuffle

PART_BYTES = 16

Pair = Callable[[Expr, Expr], Expr]
Bind = Callable[[Expr], Expr]
"""Gives an expression a name, so that it is computed once."""


def transposed(rows: Sequence[Expr], dtype: DType, bind: Bind) -> list[Expr]:
    """The columns of as many rows as they have lanes; the lanes fill whole parts of 16 bytes."""
    lanes = len(rows)
    width = PART_BYTES // dtype.size
    groups = [
        _interleaved(rows[first : first + width], 1, lanes, width, bind)
        for first in range(0, lanes, width)
    ]
    columns: dict[int, Expr] = {}
    for column in range(width):
        parts = _collected([group[column] for group in groups], lanes, width, bind)
        columns |= {column + width * part: vector for part, vector in enumerate(parts)}
    return [columns[i] for i in range(lanes)]


def interleaved(rows: Sequence[Expr], bind: Bind) -> list[Expr]:
    """The columns of rows, one behind the other, in as many vectors: lane 0 of each, lane 1, ..."""
    if len(rows) == 1:
        return list(rows)
    if len(rows).bit_count() > 1:
        return [_collected_lanes(rows, number, bind) for number in range(len(rows))]
    lanes = rows[0].lanes
    low = tuple(lane + source for lane in range(lanes // 2) for source in (0, lanes))
    high = tuple(lanes // 2 + lane for lane in low)
    evens, odds = interleaved(rows[::2], bind), interleaved(rows[1::2], bind)
    return [
        bind(Shuffle(even, odd, pattern))
        for even, odd in zip(evens, odds, strict=True)
        for pattern in (low, high)
    ]


def _collected_lanes(rows: Sequence[Expr], number: int, bind: Bind) -> Expr:
    """Vector `number` of the interleaved rows: what it has of one row after the other is put between the rest."""
    count, lanes = len(rows), rows[0].lanes
    origins = [divmod(number * lanes + lane, count) for lane in range(lanes)]  # (lane, row)
    vector = rows[0]
    for i, row in enumerate(rows[1:], start=1):
        kept = [
            source if i == 1 and owner == 0 else lane
            for lane, (source, owner) in enumerate(origins)
        ]
        pattern = (
            lanes + source if owner == i else old
            for (source, owner), old in zip(origins, kept, strict=True)
        )
        vector = bind(Shuffle(vector, row, tuple(pattern)))
    return vector


def _interleaved(rows: Sequence[Expr], unit: int, lanes: int, width: int, bind: Bind) -> list[Expr]:
    """Within each part of `width` lanes: column j of the rows' parts, `unit` elements of it being together already."""
    if len(rows) == 1:
        return [rows[0]]
    low, high = (_unpack(unit, half, lanes, width) for half in (0, 1))
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    return [
        *_interleaved([bind(low(a, b)) for a, b in pairs], 2 * unit, lanes, width, bind),
        *_interleaved([bind(high(a, b)) for a, b in pairs], 2 * unit, lanes, width, bind),
    ]


def _unpack(unit: int, half: int, lanes: int, width: int) -> Pair:
    """Units of a and b by turns, from the lower or upper half of each part."""
    pattern = [
        source * lanes + part + half * width // 2 + at + i
        for part in range(0, lanes, width)
        for at in range(0, width // 2, unit)
        for source in (0, 1)
        for i in range(unit)
    ]
    return lambda a, b: Shuffle(a, b, tuple(pattern))


def _collected(vectors: Sequence[Expr], lanes: int, width: int, bind: Bind) -> list[Expr]:
    """Vector p: part p of all vectors, in order."""
    if len(vectors) == 1:
        return [vectors[0]]
    even, odd = (_every_second(which, lanes, width) for which in (0, 1))
    pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
    evens = _collected([bind(even(a, b)) for a, b in pairs], lanes, width, bind)
    odds = _collected([bind(odd(a, b)) for a, b in pairs], lanes, width, bind)
    return [vector for pair in zip(evens, odds, strict=True) for vector in pair]


def _every_second(which: int, lanes: int, width: int) -> Pair:
    """The even or the odd parts of a, then those of b."""
    pattern = [
        first + i for first in range(which * width, 2 * lanes, 2 * width) for i in range(width)
    ]
    return lambda a, b: Shuffle(a, b, tuple(pattern))
