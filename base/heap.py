"""The memory that the C library keeps for the next allocation."""

from __future__ import annotations

import ctypes


def trim_heap() -> None:
    """Give freed memory back to the system, where the C library can (glibc).

    It keeps freed blocks of up to 32 MB, and the arrays of weights are of that size: a hundred megabytes for ResNet-50.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
