"""The C interface between generated code and the runtime: names, signatures and the version that ties them together.

    int32_t graphc_entry(void *rt, void **inputs, void **outputs, void *constants, void *arena);

runs the whole model once and returns 0. `inputs` and `outputs` are arrays of data pointers in the model's order; the
arrays are dense, row-major and aligned to their element. `constants` and `arena` are aligned to `ALIGNMENT` bytes. The
arena is scratch memory of one call; constants and inputs are only read.

`rt` is null (parallel loops run serially) or points to a struct whose first field is

    void (*parallel_for)(void *rt, void (*task)(void *context, int64_t i), void *context, int64_t count);

which calls `task(context, i)` once for every 0 <= i < count, on any threads, and returns when all calls have.
"""

from __future__ import annotations

import ctypes

ABI_VERSION = 1
"""Incremented with every change to anything on this page; an artifact of another version is refused."""

ALIGNMENT = 64
"""Bytes: constants and arena start at a multiple of it (a cache line, and the widest vector register)."""

ENTRY_NAME = "graphc_entry"
POOL_CREATE_NAME = "graphc_pool_create"
POOL_DESTROY_NAME = "graphc_pool_destroy"

EntryFunction = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 5)
"""`graphc_entry`; calling it releases Python's global lock."""

PoolCreateFunction = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)
"""`void *graphc_pool_create(int64_t threads)`: an `rt`, null when memory is short."""

PoolDestroyFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
"""`void graphc_pool_destroy(void *rt)`: stops the workers; no loop may be running."""

TaskFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
"""`void task(void *context, int64_t i)`: one iteration of a parallel loop."""

ParallelForFunction = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
)
"""The first field of `rt`, for callers from Python (tests and benchmarks)."""


def pointer(value: int | ctypes.Array[ctypes.c_void_p] | None) -> ctypes.c_void_p:
    """Return a reusable `void *` argument: from an address, an array of pointers, or null."""
    if isinstance(value, ctypes.Array):
        return ctypes.cast(value, ctypes.c_void_p)
    return ctypes.c_void_p(value)
