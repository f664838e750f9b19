"""The C interface between generated code and the runtime: names, signatures and the version that ties them together.

    int32_t graphc_entry(const void *const *inputs, void *const *outputs, const int64_t *sizes,
                         const void *constants, void *arena, void *rt);

runs the whole model once and returns 0, or what `rt` stopped it with. `inputs` and `outputs` are arrays of data
pointers in the model's order; the arrays are dense, row-major and aligned to their element. `sizes` are the values of
the dynamic sizes of the model, in the order of its header, each within its range; a model without any may get
null. `constants` and `arena` are aligned to `ALIGNMENT` bytes. The arena is scratch memory of one call; constants and
inputs are only read, except for those that an output is an alias of: the header names such pairs, and both pointers are
the same. A buffer that grows on an axis has more rows than its input: `sizes` has the length P of what it holds, and
P_free, the rows that are left after the run. A size that the data decide without a limit has a room, `max_...` among
`sizes`, which the caller chooses; a run writes the size itself to one of the last outputs (the header's `counts`).
Where that is more than its room, other outputs are not defined: the caller repeats the run with more room.

    int64_t graphc_arena_bytes(const int64_t *sizes);

is how many bytes of scratch memory a call with these sizes needs.

    const char graphc_signature[];

is what the code was compiled for, see `signature`: loading refuses a header that says something else.

`rt` is null (parallel loops run serially, nothing stops the call) or points to a struct of one running call:

    struct graphc_rt {
        void (*parallel_for)(struct graphc_rt *rt, void (*task)(void *context, int64_t i), void *context,
                             int64_t count);
        void *pool;
        int32_t (*hook)(struct graphc_rt *rt);
        int32_t (*ended)(struct graphc_rt *rt);
        int64_t checked;
        int32_t stopped;
        const char *error;
        int64_t error_index;
    };

`parallel_for`, or null, calls `task(context, i)` once for every 0 <= i < count, on any threads, and returns when all
calls have; `pool` is its own. `hook`, or null, is called a few times a second by the thread that called `graphc_entry`:
where it returns another number than 0, the call ends soon and returns that; what its outputs then hold is not defined.
The last thing such a call does is to set `ended`, unless null, to null and to call it.
`checked` and `stopped` are written by the code and start as 0; each call leaves `stopped` as 0. Code with checked
accesses (`-X check-bounds`) ends the call with `VIOLATED` at the first one outside of its buffer: `error` says which,
`error_index` where.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable
from typing import Protocol

from ..base.dims import Size
from ..base.dtypes import DType

ABI_VERSION = 7
"""Incremented with every change to anything on this page; an artifact of another version is refused."""

ALIGNMENT = 64
"""Bytes: constants and arena start at a multiple of it (a cache line, and the widest vector register)."""

MAX_THREADS = 1024
"""Most threads of a pool."""

ENTRY_NAME = "graphc_entry"
ARENA_NAME = "graphc_arena_bytes"
SIGNATURE_NAME = "graphc_signature"
POOL_CREATE_NAME = "graphc_pool_create"
POOL_DESTROY_NAME = "graphc_pool_destroy"

EntryFunction = ctypes.CFUNCTYPE(ctypes.c_int32)
"""`graphc_entry`, to be called with six `c_void_p`, arrays of them, or None; calling it releases Python's global lock.

It declares no types of arguments: ctypes would convert each twice, a tenth of the time of a call.
"""

ArenaFunction = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
"""`graphc_arena_bytes`."""

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


HookFunction = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
"""`hook` and `ended` of `rt`."""

RT_POOL, RT_HOOK, RT_ENDED, RT_CHECKED, RT_STOPPED, RT_ERROR, RT_ERROR_INDEX, RT_BYTES = range(
    8, 72, 8
)
"""Byte offsets in `rt`, and its size."""

VIOLATED = 2
"""Status of code with checked accesses whose access would be outside of its buffer."""


class Runtime(ctypes.Structure):
    """`struct graphc_rt`."""

    _fields_ = (
        ("parallel_for", ctypes.c_void_p),
        ("pool", ctypes.c_void_p),
        ("hook", ctypes.c_void_p),
        ("ended", ctypes.c_void_p),
        ("checked", ctypes.c_int64),
        ("stopped", ctypes.c_int32),
        ("error", ctypes.c_char_p),
        ("error_index", ctypes.c_int64),
    )


class Dense(Protocol):
    """A dense array, as the header of an artifact and the parameters of code describe it."""

    @property
    def dtype(self) -> DType:
        """The element type."""

    @property
    def shape(self) -> tuple[Size, ...]:
        """The sizes of its axes."""


def signature(
    inputs: Iterable[Dense],
    outputs: Iterable[Dense],
    constants_bytes: int,
    arena_bytes: Size,
    sizes: Iterable[str] = (),
) -> str:
    """Return the calling convention of `graphc_entry`: `f32[104] f32[13] -> f32[104], constants 64, arena 416`.

    Arrays have a type and a number of elements, without axes. Constants and arena are in bytes. Dynamic `sizes` follow
    in their order: `f32[13*N] -> f32[N], constants 64, arena 64*N, sizes N`.
    """
    sources, targets = (
        [f"{array.dtype}[{math.prod(array.shape)}]" for array in arrays]
        for arrays in (inputs, outputs)
    )
    types = " ".join((*sources, "->", *targets))
    named = " ".join(sizes)
    tail = f", sizes {named}" if named else ""
    return f"{types}, constants {constants_bytes}, arena {arena_bytes}{tail}"


def pointer(value: int | ctypes.Array[ctypes.c_void_p] | None) -> ctypes.c_void_p:
    """Return a reusable `void *` argument: from an address, an array of pointers, or null."""
    if isinstance(value, ctypes.Array):
        return ctypes.cast(value, ctypes.c_void_p)
    return ctypes.c_void_p(value)
