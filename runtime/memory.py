"""The address of an array's data, and the scratch memory of one call."""

from __future__ import annotations

import ctypes
import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from ..base.aligned_memory import ALIGNMENT, aligned_empty, large_alignment
from ..base.errors import InternalError, UserError
from .abi import pointer
from .interruption import WatchedRuntime

_ALIGNED_FROM = 8 << 10

DATA_POINTER_OFFSET = object.__basicsize__
"""Offset of the data pointer in an array object: the first field after the object header, which is part of NumPy's
frozen C interface (compiled extensions read it inline)."""


def output_allocator(shape: tuple[int, ...], dtype: np.dtype) -> Callable[[], np.ndarray]:
    """Return a function that makes an uninitialized output array.

    For small arrays NumPy's own 16-byte alignment is free and costs little to use; for larger ones, vector stores that
    straddle cache lines cost more than aligning.
    """
    if math.prod(shape) * dtype.itemsize < _ALIGNED_FROM:
        return partial(np.empty, shape, dtype)
    return partial(aligned_empty, shape, dtype)


def data_address(array: np.ndarray) -> int:
    """Return the address of an array's first element.

    Like `array.ctypes.data`, which takes ten times as long: more than the rest of a call.
    """
    return ctypes.c_void_p.from_address(id(array) + DATA_POINTER_OFFSET).value or 0


def _check_offset() -> None:
    probe = np.zeros(3, np.float32)
    if any(data_address(a) != a.ctypes.data for a in (probe, probe[1:], probe.reshape(3, 1))):
        raise InternalError("this Python keeps NumPy arrays in another layout than CPython does")


_check_offset()


class Frame(NamedTuple):
    """Scratch memory of one running call: two arrays of data pointers, and the arena.

    `pointers` are the native arguments for inputs, outputs, arena and `rt`, made once.
    """

    inputs: ctypes.Array[ctypes.c_void_p]
    outputs: ctypes.Array[ctypes.c_void_p]
    pointers: tuple[ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    arena: np.ndarray
    rt: WatchedRuntime


def _make_frame(
    arena_bytes: int, inputs: int, outputs: int, pool: int | None, is_bound: bool
) -> Frame:
    size = max(arena_bytes, ALIGNMENT)
    arena = aligned_empty((size,), np.dtype(np.uint8), large_alignment(size))
    sources = (ctypes.c_void_p * inputs)()
    targets = (ctypes.c_void_p * outputs)()
    rt = WatchedRuntime(pool, is_bound)
    pointers = (pointer(sources), pointer(targets), pointer(data_address(arena)), rt.pointer)
    return Frame(sources, targets, pointers, arena, rt)


class FrameList(deque[Frame]):
    """Free frames of one model: as many as calls ever ran at the same time, so usually one.

    `pop` (IndexError when empty: make a `new` one) and `append` are atomic: two threads never get the same frame.
    """

    def __init__(self, model: str, inputs: int, outputs: int, pool: int | None = None) -> None:
        super().__init__()
        self._model = model
        self._counts = (inputs, outputs)
        self._pool = pool

    def new(self, arena_bytes: int, is_bound: bool = False) -> Frame:
        """Return an unused frame, for a bound call or for checked ones. Raise UserError if memory is short."""
        try:
            return _make_frame(arena_bytes, *self._counts, self._pool, is_bound)
        except MemoryError as error:
            raise UserError(
                f"model '{self._model}': no memory for the {arena_bytes} bytes of scratch memory one call needs"
            ) from error

    def take(self, arena_bytes: int) -> Frame:
        """A free frame with so much scratch memory; one that has less is given back to the system."""
        try:
            frame = self.pop()
        except IndexError:
            return self.new(arena_bytes)
        return frame if frame.arena.nbytes >= arena_bytes else self.new(arena_bytes)
