"""Files mapped into memory: their pages stay resident only as long as they are needed."""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

_MIN_BYTES = 1 << 20
"""Below this size a system call is not worth its cost."""


def map_file(path: Path) -> memoryview:
    """Map a regular file read-only; its pages are read on access. Empty files are allowed. May raise OSError.

    The file must not be truncated while the result, or an array made from it, is in use.
    """
    with path.open("rb") as file:
        return map_handle(file.fileno())


def map_handle(handle: int) -> memoryview:
    """Map an open file, like `map_file`; it may be closed afterwards."""
    if not os.fstat(handle).st_size:
        return memoryview(b"")
    return memoryview(mmap.mmap(handle, 0, access=mmap.ACCESS_READ))


def release(array: np.ndarray[Any, Any]) -> None:
    """Let the system reclaim the pages of an array in a mapped file; they are read again on access."""
    if array.nbytes < _MIN_BYTES or not hasattr(mmap.mmap, "madvise"):
        return
    low, high = np.lib.array_utils.byte_bounds(array)
    owner = _owner(array)
    if owner is None:
        return
    file = np.frombuffer(owner.obj, np.uint8)
    start, end = low - file.ctypes.data, high - file.ctypes.data
    begin = start - start % mmap.PAGESIZE
    owner.obj.madvise(mmap.MADV_DONTNEED, begin, end - begin)


def spilled(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy of an array in a temporary file without a name, so that the system may take its memory.

    The array itself if it is mapped already, or if no file can be made.
    """
    if not array.size or _owner(array) is not None:
        return array
    try:
        with tempfile.TemporaryFile(prefix="graphc-") as file:
            np.ascontiguousarray(array).tofile(file)
            file.flush()
            return np.frombuffer(map_handle(file.fileno()), array.dtype).reshape(array.shape)
    except OSError:
        return array


def _owner(array: np.ndarray[Any, Any]) -> Any:
    """The view of a mapped file that an array is part of; None for an array in other memory."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    is_mapped = isinstance(owner, memoryview) and isinstance(owner.obj, mmap.mmap)
    return owner if is_mapped else None
