"""Weights in blocks as operands of matmul_nbits: the numbers of the file, none of them expanded.

Levels take the bits they have in the file; scales and minima of super-blocks take a byte each, beside the f16 of their
block: at most 1.04 times the bytes of the file.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...base.block_types import Array, BlockType, Factor, Part
from ...base.dtypes import by_name
from ...base.packed_words import LOW_BITS, packed_words

AT_ONCE = 1 << 18
"""Weights that are converted at once: temporary arrays stay in cache."""

_SMALL_SCALES = ((by_name("f8e8m0fnu"), 1.0), (by_name("f8e4m3fn"), 0.5))
"""Dtypes and factors of floats of 8 bits that files have as scales."""


def packed_operands(kind: BlockType, raw: Array) -> dict[str, Array]:
    """Return the operands of `matmul_nbits` after x by name, of rows u8 [n, bytes]."""
    k = raw.shape[1] // kind.size * kind.elements
    rows, found = max(AT_ONCE // max(k, 1), 1), dict[str, Array]()
    for first in range(0, len(raw), rows):
        blocks = np.ascontiguousarray(raw[first : first + rows])
        count = len(blocks)
        for name, values in _parts(kind, blocks.reshape(-1, kind.size)):
            part = values.reshape(count, -1)
            whole = found.setdefault(name, np.empty((len(raw), part.shape[1]), part.dtype))
            whole[first : first + count] = part
    if kind.book:
        found["book"] = (np.array(kind.book) - kind.min_level).astype(np.uint8)
    found["zero_point"] = np.full((1, 1), -kind.min_level, np.float32)
    return found | _small_scales(found["scale"])


def _parts(kind: BlockType, blocks: Array) -> Iterator[tuple[str, Array]]:
    """Yield the names and values of blocks."""
    levels, low = kind.levels.read(blocks), LOW_BITS[kind.bits]
    if levels.dtype == np.int8:
        levels = levels.view(np.uint8) ^ np.uint8(128)
    yield "w", packed_words(levels & np.uint8((1 << low) - 1) if kind.bits > low else levels, low)
    if kind.bits > low:
        yield "high", packed_words(levels >> low, kind.bits - low)
    scale, minimum = kind.scale, kind.minimum
    if minimum is None:
        yield from _factor(scale, "scale", 1, blocks)
        return
    found = dict(_factor(scale, "scale", 1, blocks))
    found |= _factor(minimum, "minimum", kind.sign, blocks)
    if isinstance(scale.of_group, Part):  # halves of one field
        found["scale"] |= found.pop("minimum") << 4
    yield from found.items()


def _factor(factor: Factor, name: str, sign: int, blocks: Array) -> Iterator[tuple[str, Array]]:
    """Yield the integers and the floats of a factor."""
    floats, numbers = factor.floats, factor.numbers(blocks)
    values = floats.read(blocks)
    if floats.decode is None:
        values = (-values if sign < 0 else values).astype(np.float16)
    if numbers is not None:
        yield name, numbers
    yield name if numbers is None else f"block_{name}", values


def _small_scales(scale: Array) -> dict[str, Array]:
    """Return scales f32 as smaller floats, where these hold them exactly."""
    if scale.dtype != np.float32:
        return {}
    for dtype, factor in _SMALL_SCALES:
        with np.errstate(all="ignore"):
            small = (scale / np.float32(factor)).astype(dtype.numpy)
            same = np.array_equal(small.astype(np.float32) * np.float32(factor), scale)
        if same and factor != 1:
            return {"scale": small, "block_scale": np.full((len(scale), 1), factor, np.float32)}
        if same:
            return {"scale": small}
    return {}
