"""The functions of the system that the thread pool calls, as LLVM IR: of the C library, or of Linux itself.

    i64 @futex(ptr word, i64 operation, i64 value, ptr timeout)    i64 @affinity(i64 call, i64 bytes, ptr mask)
    i64 @now()    i32 @own_cpu()    i32 @own_process()
    ptr @map(i64 bytes)    void @unmap(ptr, i64 bytes)    i32 @wipe_on_fork(ptr, i64 bytes)
    void @block_signals(ptr old)    void @restore_signals(ptr old)
    i32 @start_thread(ptr handle, ptr function, ptr argument)    void @join_thread(i64 handle)

Threads that Linux starts for a freestanding pool have no thread-local storage of a C library: they run loops of models,
which need none, and block every signal whose handler might.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import Template

from ..targets.isa import POOL_MACHINES

_NUMBERS = {
    "PROT_READ_WRITE": 3,
    "PRIVATE_ANONYMOUS": 0x22,
    "STACK_FLAGS": 0x20022,  # MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK
    "WIPEONFORK": 18,
    "MONOTONIC": 1,
    "SETMASK": 2,
    "GUARD_BYTES": 4096,
    "RECORD_BYTES": 64,
    # CLONE_VM | FS | FILES | SIGHAND | THREAD | SYSVSEM | PARENT_SETTID | CHILD_CLEARTID
    "THREAD_FLAGS": 0x350F00,
}

_COMMON = """
@blocked_signals = internal constant [16 x i64] [i64 $SIGNALS$ALL_SIGNALS]

define internal i64 @now() nounwind uwtable {
entry:
  %time = alloca { i64, i64 }
  call void @read_clock(ptr %time)
  %nanos_at = getelementptr i8, ptr %time, i64 8
  %seconds = load i64, ptr %time
  %nanos = load i64, ptr %nanos_at
  %scaled = mul i64 %seconds, 1000000000
  %sum = add i64 %scaled, %nanos
  ret i64 %sum
}
"""

_C_LIBRARY = """
declare i64 @syscall(i64, ...)
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @madvise(ptr, i64, i32)
declare i32 @getpid()
declare i32 @sched_getcpu()
declare i32 @clock_gettime(i32, ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)

define internal i64 @futex(ptr %word, i64 %operation, i64 %value, ptr %timeout) nounwind uwtable {
  %result = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %word, i64 %operation, i64 %value, ptr %timeout)
  ret i64 %result
}

define internal i64 @affinity(i64 %call, i64 %bytes, ptr %mask) nounwind uwtable {
  %result = call i64 (i64, ...) @syscall(i64 %call, i64 0, i64 %bytes, ptr %mask)
  ret i64 %result
}

define internal void @read_clock(ptr %time) nounwind uwtable {
  %ignored = call i32 @clock_gettime(i32 $MONOTONIC, ptr %time)
  ret void
}

define internal i32 @own_cpu() nounwind uwtable {
  %cpu = call i32 @sched_getcpu()
  ret i32 %cpu
}

define internal i32 @own_process() nounwind uwtable {
  %number = call i32 @getpid()
  ret i32 %number
}

define internal ptr @map(i64 %bytes) nounwind uwtable {
  %found = call ptr @mmap(ptr null, i64 %bytes, i32 $PROT_READ_WRITE, i32 $PRIVATE_ANONYMOUS, i32 -1, i64 0)
  %refused = icmp eq ptr %found, inttoptr (i64 -1 to ptr)
  %result = select i1 %refused, ptr null, ptr %found
  ret ptr %result
}

define internal void @unmap(ptr %memory, i64 %bytes) nounwind uwtable {
  %ignored = call i32 @munmap(ptr %memory, i64 %bytes)
  ret void
}

define internal i32 @wipe_on_fork(ptr %memory, i64 %bytes) nounwind uwtable {
  %status = call i32 @madvise(ptr %memory, i64 %bytes, i32 $WIPEONFORK)
  ret i32 %status
}

define internal void @block_signals(ptr %old) nounwind uwtable {
  %ignored = call i32 @pthread_sigmask(i32 $SETMASK, ptr @blocked_signals, ptr %old)
  ret void
}

define internal void @restore_signals(ptr %old) nounwind uwtable {
  %ignored = call i32 @pthread_sigmask(i32 $SETMASK, ptr %old, ptr null)
  ret void
}

define internal i32 @start_thread(ptr %handle, ptr %function, ptr %argument) nounwind uwtable {
  %attributes = alloca [16 x i64], align 16
  %i0 = call i32 @pthread_attr_init(ptr %attributes)
  %i1 = call i32 @pthread_attr_setstacksize(ptr %attributes, i64 $STACK)
  %code = call i32 @pthread_create(ptr %handle, ptr %attributes, ptr %function, ptr %argument)
  %i2 = call i32 @pthread_attr_destroy(ptr %attributes)
  ret i32 %code
}

define internal void @join_thread(i64 %handle) nounwind uwtable {
  %ignored = call i32 @pthread_join(i64 %handle, ptr null)
  ret void
}
"""

# The record of a thread is at the end of its stack: its number, which the system sets to 0 when the thread has ended.
# Below it are the function and its argument.
_FREESTANDING = """
define internal i64 @futex(ptr %word, i64 %operation, i64 %value, ptr %timeout) nounwind uwtable {
  %a = ptrtoint ptr %word to i64
  %d = ptrtoint ptr %timeout to i64
  %result = call i64 @system_call(i64 $FUTEX, i64 %a, i64 %operation, i64 %value, i64 %d, i64 0, i64 0)
  ret i64 %result
}

define internal i64 @affinity(i64 %call, i64 %bytes, ptr %mask) nounwind uwtable {
  %c = ptrtoint ptr %mask to i64
  %result = call i64 @system_call(i64 %call, i64 0, i64 %bytes, i64 %c, i64 0, i64 0, i64 0)
  ret i64 %result
}

define internal void @read_clock(ptr %time) nounwind uwtable {
  %b = ptrtoint ptr %time to i64
  %ignored = call i64 @system_call(i64 $CLOCK_GETTIME, i64 $MONOTONIC, i64 %b, i64 0, i64 0, i64 0, i64 0)
  ret void
}

define internal i32 @own_process() nounwind uwtable {
  %number = call i64 @system_call(i64 $GETPID, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %short = trunc i64 %number to i32
  ret i32 %short
}

define internal i32 @own_cpu() nounwind uwtable {
  %number = alloca i32
  %at = ptrtoint ptr %number to i64
  %ignored = call i64 @system_call(i64 $GETCPU, i64 %at, i64 0, i64 0, i64 0, i64 0, i64 0)
  %cpu = load i32, ptr %number
  ret i32 %cpu
}

define internal i64 @map_as(i64 %bytes, i64 %flags) nounwind uwtable {
  %found = call i64 @system_call(i64 $MMAP, i64 0, i64 %bytes, i64 $PROT_READ_WRITE, i64 %flags, i64 -1, i64 0)
  %refused = icmp ugt i64 %found, -4096
  %result = select i1 %refused, i64 0, i64 %found
  ret i64 %result
}

define internal ptr @map(i64 %bytes) nounwind uwtable {
  %found = call i64 @map_as(i64 %bytes, i64 $PRIVATE_ANONYMOUS)
  %result = inttoptr i64 %found to ptr
  ret ptr %result
}

define internal void @unmap(ptr %memory, i64 %bytes) nounwind uwtable {
  %a = ptrtoint ptr %memory to i64
  %ignored = call i64 @system_call(i64 $MUNMAP, i64 %a, i64 %bytes, i64 0, i64 0, i64 0, i64 0)
  ret void
}

define internal i32 @wipe_on_fork(ptr %memory, i64 %bytes) nounwind uwtable {
  %a = ptrtoint ptr %memory to i64
  %status = call i64 @system_call(i64 $MADVISE, i64 %a, i64 %bytes, i64 $WIPEONFORK, i64 0, i64 0, i64 0)
  %short = trunc i64 %status to i32
  ret i32 %short
}

define internal void @block_signals(ptr %old) nounwind uwtable {
  %b = ptrtoint ptr @blocked_signals to i64
  %c = ptrtoint ptr %old to i64
  %ignored = call i64 @system_call(i64 $SIGPROCMASK, i64 $SETMASK, i64 %b, i64 %c, i64 8, i64 0, i64 0)
  ret void
}

define internal void @restore_signals(ptr %old) nounwind uwtable {
  %b = ptrtoint ptr %old to i64
  %ignored = call i64 @system_call(i64 $SIGPROCMASK, i64 $SETMASK, i64 %b, i64 0, i64 8, i64 0, i64 0)
  ret void
}

define internal i32 @start_thread(ptr %handle, ptr %function, ptr %argument) nounwind uwtable {
entry:
  %stack = call i64 @map_as(i64 $STACK, i64 $STACK_FLAGS)
  %refused = icmp eq i64 %stack, 0
  br i1 %refused, label %no, label %prepare
prepare:
  ; An access below the stack is an exception.
  %guard = call i64 @system_call(i64 $MPROTECT, i64 %stack, i64 $GUARD_BYTES, i64 0, i64 0, i64 0, i64 0)
  %end = add i64 %stack, $STACK
  %record_at = sub i64 %end, $RECORD_BYTES
  %record = inttoptr i64 %record_at to ptr
  %argument_at = getelementptr i8, ptr %record, i64 -8
  store ptr %argument, ptr %argument_at
  %function_at = getelementptr i8, ptr %record, i64 -16
  store ptr %function, ptr %function_at
  %number = call i64 @spawn(i64 $THREAD_FLAGS, ptr %function_at, ptr %record)
  %failed = icmp slt i64 %number, 0
  br i1 %failed, label %free, label %yes
free:
  %memory = inttoptr i64 %stack to ptr
  call void @unmap(ptr %memory, i64 $STACK)
  br label %no
yes:
  store i64 %record_at, ptr %handle
  ret i32 0
no:
  ret i32 1
}

define internal void @join_thread(i64 %handle) nounwind uwtable {
entry:
  %record = inttoptr i64 %handle to ptr
  br label %look
look:
  %number = load atomic i32, ptr %record acquire, align 4
  %ended = icmp eq i32 %number, 0
  br i1 %ended, label %free, label %wait
wait:
  %expected = zext i32 %number to i64
  %w = call i64 @futex(ptr %record, i64 0, i64 %expected, ptr null)
  br label %look
free:
  %end = add i64 %handle, $RECORD_BYTES
  %begin = sub i64 %end, $STACK
  %stack = inttoptr i64 %begin to ptr
  call void @unmap(ptr %stack, i64 $STACK)
  ret void
}
"""


def system_text(
    architecture: str, stack_bytes: int, signals: Sequence[int], freestanding: bool
) -> str:
    """Return the text for threads with a stack of this size that do not block these signals."""
    row = POOL_MACHINES[architecture]
    kept = sum(1 << (signal - 1) for signal in signals)
    names = {
        **_NUMBERS,
        **row,
        "STACK": stack_bytes,
        "SIGNALS": ~kept,
        "ALL_SIGNALS": ", i64 -1" * 15,
    }
    parts = (_FREESTANDING, str(row["FREESTANDING"])) if freestanding else (_C_LIBRARY,)
    return Template("".join((_COMMON, *parts))).substitute(names)
