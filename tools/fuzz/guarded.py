"""Arrays between two pages that may not be touched: an access outside them ends the process by SIGSEGV."""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from graphc.base.dtypes import DType

Edge = Literal["start", "end"]

_PROT_NONE = 0
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def guarded(
    shape: int | Sequence[int], dtype: DType | np.dtype[Any] | type | str, at: Edge = "end"
) -> np.ndarray[Any, Any]:
    """A zeroed C-contiguous array that touches a guard page.

    At "end" the byte after the last element is in the guard page (the data is then aligned to its element only);
    at "start" the byte before the first one is, and the data is aligned to a page. Use both, one after the other.
    `dtype` is a graphc DType or anything NumPy takes. The memory lives as long as the array or a view of it.
    """
    dims = (shape,) if isinstance(shape, int) else tuple(shape)
    element = dtype.numpy if isinstance(dtype, DType) else np.dtype(dtype)
    used = math.prod(dims) * element.itemsize
    page = mmap.PAGESIZE
    inside = max(page, -(-used // page) * page)
    memory = mmap.mmap(-1, inside + 2 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for guard in (address, address + page + inside):
        if _libc.mprotect(guard, page, _PROT_NONE) != 0:
            raise OSError(ctypes.get_errno(), "mprotect failed")
    offset = page if at == "start" else page + inside - used
    return np.ndarray(dims, element, buffer=memory, offset=offset)


def guarded_copy(array: np.ndarray[Any, Any], at: Edge = "end") -> np.ndarray[Any, Any]:
    """The values of `array` in a guarded buffer of its shape and dtype."""
    copy = guarded(array.shape, array.dtype, at)
    copy[...] = array
    return copy
