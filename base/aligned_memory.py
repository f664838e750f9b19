"""Arrays aligned to a given number of bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

ALIGNMENT = 64
"""Bytes of a cache line: the alignment of every tensor in memory."""

HUGE_PAGE = 2 << 20
"""Bytes of a transparent huge page. Buffers of several pages are aligned to it."""

SHARED_FROM = 64 << 10
"""Bytes from which a constant fills whole pages, so that processes may share them: 4 KB more are little then."""

HUGE_SHARED_FROM = 8 * HUGE_PAGE
"""Bytes from which a constant begins where its file may be mapped in huge pages: at most 2 MB more are little then."""

_HUGE_FROM = 2 * HUGE_PAGE


def aligned_empty(shape: Sequence[int], dtype: np.dtype, alignment: int = ALIGNMENT) -> np.ndarray:
    """Return an uninitialized C-contiguous array whose data starts at a multiple of `alignment` bytes.

    `alignment` is any power of two. Raises MemoryError when memory is short.
    """
    size = math.prod(shape) * dtype.itemsize
    raw = np.empty(size + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return np.ndarray(tuple(shape), dtype, buffer=raw, offset=start)


def aligned_copy(array: np.ndarray, alignment: int = ALIGNMENT) -> np.ndarray:
    """Return `array` itself if it is C-contiguous and aligned, else an aligned copy."""
    if array.flags.c_contiguous and array.ctypes.data % alignment == 0:
        return array
    copy = aligned_empty(array.shape, array.dtype, alignment)
    copy[...] = array
    return copy


def large_alignment(size: int) -> int:
    """Return the alignment in bytes for a buffer of `size` bytes: a huge page when it spans several."""
    return HUGE_PAGE if size >= _HUGE_FROM else ALIGNMENT
