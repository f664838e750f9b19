"""Records of the iterations of parallel loops: the memory and the `rt` of the runtime in codegen/task_trace.py."""

from __future__ import annotations

import ctypes

import numpy as np

from .abi import Runtime
from .loader import LoadedCode

CAPACITY = 1 << 16


class _TracedRuntime(ctypes.Structure):
    _fields_ = (
        ("rt", Runtime),
        ("records", ctypes.c_void_p),
        ("capacity", ctypes.c_int64),
        ("next", ctypes.c_int64),
    )


class TaskTrace:
    """A tracing runtime in front of the pool at address `real_rt`; `rt` is what `graphc_entry` gets instead of it.

    `object_code` exports `function`; see codegen/task_trace.py.
    """

    def __init__(self, object_code: bytes, function: str, real_rt: int) -> None:
        self._code = LoadedCode(object_code)
        self._records = np.zeros((CAPACITY, 4), np.int64)
        self._runtime = _TracedRuntime(
            Runtime(self._code.address(function), real_rt), self._records.ctypes.data, CAPACITY
        )
        self.rt = ctypes.c_void_p(ctypes.addressof(self._runtime))

    def clear(self) -> None:
        """Forget all records; no loop may be running."""
        self._runtime.next = 0

    def records(self) -> np.ndarray:
        """The records since `clear`, at most `CAPACITY`: s64[n, 4] of thread, begin, end (cycles), iteration."""
        return self._records[: min(self._runtime.next, CAPACITY)].copy()
