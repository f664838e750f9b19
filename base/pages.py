"""Memory made of parts of files: read-only pages that processes share, and pages of this process between them."""

from __future__ import annotations

import ctypes
import mmap
import os
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np

from .aligned_memory import HUGE_PAGE, HUGE_SHARED_FROM

PAGE = 4096
"""Bytes of the smallest page of any system."""

_FIXED = 0x10
"""MAP_FIXED of Linux and macOS, which Python's module lacks."""


class FilePages:
    """A block of `size` bytes, zero at first, over parts of which files are mapped. `array` is u8[size].

    It begins at a huge page. Linux maps huge pages of a file (6.18 does of ext4) where address and position in the file
    have the same offset in one, and processes still share them.
    """

    def __init__(self, size: int) -> None:
        shared = {} if os.name == "nt" else {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS}
        self._memory = mmap.mmap(-1, size + HUGE_PAGE, **shared)
        whole: np.ndarray[Any, Any] = np.frombuffer(self._memory, np.uint8)
        self._begin = -whole.ctypes.data % HUGE_PAGE
        self.array = whole[self._begin : self._begin + size]

    def map(self, offset: int, handle: int, begin: int, size: int) -> None:
        """Map `size` bytes at `begin` of an open file at `offset`, or copy what cannot be mapped. May raise OSError."""
        address = self.array.ctypes.data + offset
        if os.name == "nt" or any(x % mmap.PAGESIZE for x in (address, begin)):
            with open(handle, "rb", closefd=False) as file:
                file.seek(begin)
                if file.readinto(self.array[offset : offset + size].data) != size:
                    raise OSError(None, "it is truncated")
            return
        flags = mmap.MAP_PRIVATE | _FIXED
        if _mmap()(address, size, mmap.PROT_READ, flags, handle, begin) != address:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        if size >= HUGE_SHARED_FROM and hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # a system without them
                self._memory.madvise(mmap.MADV_HUGEPAGE, self._begin + offset, size)


@cache
def _mmap() -> Any:
    function = ctypes.CDLL(None, use_errno=True).mmap
    word, number, length = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
    function.argtypes = [word, length, number, number, number, ctypes.c_ssize_t]
    function.restype = word
    return function
