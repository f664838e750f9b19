"""A native library of a model, called on arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from ..graph_ir.ir.graph import Array
from ..runtime.abi import ALIGNMENT


def library_call(
    path: Path, prefix: str, inputs: Sequence[Array], outputs: Sequence[Array]
) -> Callable[[], int]:
    """Load a library of static shapes; return a function that runs it on one thread and returns its status."""
    library = ctypes.CDLL(str(path))
    arena_bytes, run = (getattr(library, f"{prefix}_{name}") for name in ("arena_bytes", "run"))
    arena_bytes.restype = ctypes.c_int64
    arena = np.zeros(arena_bytes(None) + ALIGNMENT, np.uint8)
    pointers = [
        (ctypes.c_void_p * len(side))(*(array.ctypes.data for array in side))
        for side in (inputs, outputs)
    ]
    at = ctypes.c_void_p(arena.ctypes.data + -arena.ctypes.data % ALIGNMENT)
    room = ctypes.c_int64(arena.nbytes - ALIGNMENT)
    addresses = (ctypes.cast(side, ctypes.c_void_p) for side in pointers)
    call = partial(run, *addresses, None, None, at, room, None)
    call.kept = (arena, inputs, outputs, pointers)  # type: ignore[attr-defined]
    return call
