"""The thread pool as LLVM IR text: the support object that is loaded beside every model that runs parallel loops.

`support_loop.py` holds the protocol of one parallel loop; this file has the pool's memory, startup and shutdown. A pool
runs one loop at a time.

Fork. All mutable state lives in pages marked MADV_WIPEONFORK: a child finds them zero, which is the state of a pool
whose workers were not started yet, and starts its own on its first loop. Where the kernel lacks that, the pool
remembers its process and runs serially in any other.
"""

from __future__ import annotations

from string import Template

from ..runtime.abi import MAX_THREADS, RT_BYTES, RT_POOL, RT_STOPPED
from ..targets.isa import POOL_MACHINES
from .interruption import CYCLES_DECLARATION, POLL_TEXT
from .support_loop import LOOP_TEXT
from .support_system import system_text

SPIN_NANOSECONDS = 70_000
"""Nanoseconds an idle thread spins before it sleeps: longer than the gap between two layers, far below 1 ms."""

CHUNKS_PER_THREAD = 16
"""Most chunks a thread owns: enough to even out unequal iterations, few enough that claiming stays cheap."""

WORKER_STACK_BYTES = 8 << 20
"""Stack of a worker: the same as a main thread's, since locals of kernels live there."""

_EXCEPTIONS = (4, 5, 7, 8, 11)
"""Signals that a worker does not block: its own exceptions (ILL, TRAP, BUS, FPE, SEGV)."""

_PROFILING = 27
"""The signal of profilers (PROF), whose handler needs a thread of the C library."""

_POOL = {
    "RT_POOL": RT_POOL,
    "RT_STOPPED": RT_STOPPED,
    "P_THREADS": RT_BYTES,
    "P_STATE": RT_BYTES + 8,
    "P_STATE_BYTES": RT_BYTES + 16,
    "P_OWNER": RT_BYTES + 24,
}
"""Byte offsets in the pool, which begins as an `rt` that nobody stops. Written once."""

_STATE = {
    "GENERATION": 0,  # i32, futex: the number of the newest loop; in the same cache line as the job it announces
    "MXCSR": 4,
    "CHUNK": 8,
    "COUNT": 16,
    "TASK": 24,
    "CTX": 32,
    "BASE": 40,
    "EXTRA": 48,
    "RT": 56,
    "LOCK": 128,
    "STARTED": 132,
    "STOP": 136,
    "CPU": 140,  # i32: where the caller ran when it announced the newest loop
    "DONE": 256,  # i32, futex: chunks finished by workers
    "WAITER": 260,
    "SLEEPERS": 384,
    "SLOTS": 512,
}
"""Byte offsets in the wiped pages. Groups are 128 bytes apart: neighboring cache lines are fetched in pairs."""

_SLOT = {"SLOT_BYTES": 128, "S_POOL": 8, "S_INDEX": 16, "S_HANDLE": 24, "S_ALIVE": 32}
"""Byte offsets in a thread's slot; offset 0 is its ticket."""

_LINUX = {
    "WAIT": 128,  # FUTEX_WAIT | FUTEX_PRIVATE_FLAG
    "WAKE": 129,
    "POLL_NANOSECONDS": 100_000_000,
    "POOL_BYTES": 4096,
    "MAX_THREADS": MAX_THREADS,
}

_DECLARATIONS = """
target triple = "$TRIPLE"
$MODES
declare i64 @llvm.umin.i64(i64, i64)
"""

# Workers touch no tile register before their first loop does: they start inside the first run of a model, so the
# touch would delay the same run (0.04 ms, and 0.1 ms for starting a worker: Sapphire Rapids, 2 threads), and the system
# would save 8 KB more at each switch from a worker that never runs a model with tiles.
_START = """
; Starts the workers; fewer than requested if the system refuses, since the caller can finish alone.
define internal void @start_workers(ptr %pool, ptr %state, i64 %threads) nounwind uwtable {
entry:
  %old_signals = alloca [16 x i64], align 16
  call void @block_signals(ptr %old_signals)
  %slots = getelementptr i8, ptr %state, i64 $SLOTS
  br label %each
each:
  %t = phi i64 [ 1, %entry ], [ %t_next, %create ]
  %more = icmp ult i64 %t, %threads
  br i1 %more, label %create, label %finish
create:
  %offset = mul i64 %t, $SLOT_BYTES
  %slot = getelementptr i8, ptr %slots, i64 %offset
  %pool_at = getelementptr i8, ptr %slot, i64 $S_POOL
  store ptr %pool, ptr %pool_at
  %index_at = getelementptr i8, ptr %slot, i64 $S_INDEX
  store i64 %t, ptr %index_at
  %handle_at = getelementptr i8, ptr %slot, i64 $S_HANDLE
  %code = call i32 @start_thread(ptr %handle_at, ptr @worker, ptr %slot)
  %created = icmp eq i32 %code, 0
  %alive = zext i1 %created to i64
  %alive_at = getelementptr i8, ptr %slot, i64 $S_ALIVE
  store i64 %alive, ptr %alive_at
  %t_next = add i64 %t, 1
  br label %each
finish:
  call void @restore_signals(ptr %old_signals)
  %started_at = getelementptr i8, ptr %state, i64 $STARTED
  store i32 1, ptr %started_at
  ret void
}
"""

_CREATE = """
; A pool of %threads threads including the caller; null without memory, or for a number out of range. Workers start with
; the first loop.
define ptr @graphc_pool_create(i64 %threads) nounwind uwtable {
entry:
  %before_first = sub i64 %threads, 1
  %invalid = icmp uge i64 %before_first, $MAX_THREADS
  br i1 %invalid, label %fail, label %valid
valid:
  %slot_bytes = mul i64 %threads, $SLOT_BYTES
  %exact = add i64 %slot_bytes, $SLOTS
  %above = add i64 %exact, 4095
  %bytes = and i64 %above, -4096
  %state = call ptr @map(i64 %bytes)
  %refused = icmp eq ptr %state, null
  br i1 %refused, label %fail, label %mapped
mapped:
  %pool = call ptr @map(i64 $POOL_BYTES)
  %no_memory = icmp eq ptr %pool, null
  br i1 %no_memory, label %unmap, label %fill
unmap:
  call void @unmap(ptr %state, i64 %bytes)
  br label %fail
fill:
  %advice = call i32 @wipe_on_fork(ptr %state, i64 %bytes)
  %wipes = icmp eq i32 %advice, 0
  %pid = call i32 @own_process()
  %owner = select i1 %wipes, i32 -1, i32 %pid
  store ptr @parallel_for, ptr %pool
  %pool_at = getelementptr i8, ptr %pool, i64 $RT_POOL
  store ptr %pool, ptr %pool_at
  %threads_at = getelementptr i8, ptr %pool, i64 $P_THREADS
  store i64 %threads, ptr %threads_at
  %state_at = getelementptr i8, ptr %pool, i64 $P_STATE
  store ptr %state, ptr %state_at
  %bytes_at = getelementptr i8, ptr %pool, i64 $P_STATE_BYTES
  store i64 %bytes, ptr %bytes_at
  %owner_at = getelementptr i8, ptr %pool, i64 $P_OWNER
  store i32 %owner, ptr %owner_at
  ret ptr %pool
fail:
  ret ptr null
}
"""

_DESTROY = """
; Stops the workers and frees the pool, unless it is null. No loop may be running or start any more.
define void @graphc_pool_destroy(ptr %pool) nounwind uwtable {
entry:
  %nothing = icmp eq ptr %pool, null
  br i1 %nothing, label %finish, label %some
some:
  %threads_at = getelementptr i8, ptr %pool, i64 $P_THREADS
  %threads = load i64, ptr %threads_at
  %state_at = getelementptr i8, ptr %pool, i64 $P_STATE
  %state = load ptr, ptr %state_at
  %bytes_at = getelementptr i8, ptr %pool, i64 $P_STATE_BYTES
  %bytes = load i64, ptr %bytes_at
  %owner_at = getelementptr i8, ptr %pool, i64 $P_OWNER
  %owner = load i32, ptr %owner_at
  %pid = call i32 @own_process()
  %wipes = icmp slt i32 %owner, 0
  %same = icmp eq i32 %pid, %owner
  %ours = or i1 %wipes, %same
  %started_at = getelementptr i8, ptr %state, i64 $STARTED
  %started = load i32, ptr %started_at
  %running = icmp ne i32 %started, 0
  %joinable = and i1 %ours, %running
  br i1 %joinable, label %stop, label %release
stop:
  %stop_at = getelementptr i8, ptr %state, i64 $STOP
  store atomic i32 1, ptr %stop_at release, align 4
  %generation_at = getelementptr i8, ptr %state, i64 $GENERATION
  %old = atomicrmw add ptr %generation_at, i32 1 seq_cst
  %w = call i64 @futex(ptr %generation_at, i64 $WAKE, i64 2147483647, ptr null)
  %slots = getelementptr i8, ptr %state, i64 $SLOTS
  br label %each
each:
  %t = phi i64 [ 1, %stop ], [ %t_next, %next ]
  %more = icmp ult i64 %t, %threads
  br i1 %more, label %look, label %release
look:
  %offset = mul i64 %t, $SLOT_BYTES
  %slot = getelementptr i8, ptr %slots, i64 %offset
  %alive_at = getelementptr i8, ptr %slot, i64 $S_ALIVE
  %alive = load i64, ptr %alive_at
  %exists = icmp ne i64 %alive, 0
  br i1 %exists, label %join, label %next
join:
  %handle_at = getelementptr i8, ptr %slot, i64 $S_HANDLE
  %handle = load i64, ptr %handle_at
  call void @join_thread(i64 %handle)
  br label %next
next:
  %t_next = add i64 %t, 1
  br label %each
release:
  call void @unmap(ptr %state, i64 %bytes)
  call void @unmap(ptr %pool, i64 $POOL_BYTES)
  br label %finish
finish:
  ret void
}
"""

_PARTS = (_DECLARATIONS, f"{CYCLES_DECLARATION}\n", POLL_TEXT, LOOP_TEXT, _START, _CREATE, _DESTROY)


def thread_pool_module(triple: str, freestanding: bool = False) -> str:
    """Return the LLVM IR text of the thread pool for a target triple, or "" where models run serially.

    The module exports `ptr @graphc_pool_create(i64 threads)` and `void @graphc_pool_destroy(ptr)`. The result of the
    first can be passed to `graphc_entry` as `rt`; its first two fields are what other `rt`s that use its threads hold.
    The module needs Linux on one of `POOL_MACHINES` and, from libc, only the functions it declares; none if it is
    `freestanding`.
    """
    architecture, _, rest = triple.partition("-")
    if architecture not in POOL_MACHINES or "linux" not in rest:
        return ""
    kept = () if freestanding else (_PROFILING,)
    names: dict[str, object] = {
        "TRIPLE": triple,
        "SPIN": SPIN_NANOSECONDS,
        "CHUNKS_PER_THREAD": CHUNKS_PER_THREAD,
        **_POOL,
        **_STATE,
        **_SLOT,
        **_LINUX,
        **POOL_MACHINES[architecture],
    }
    system = system_text(architecture, WORKER_STACK_BYTES, (*_EXCEPTIONS, *kept), freestanding)
    return Template("".join(_PARTS)).substitute(names).lstrip() + system
