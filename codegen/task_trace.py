"""A tracing runtime that wraps the real one and records, for every iteration of a parallel loop, which thread ran it
and when.

Its `rt` goes on with `FIELDS`. `graphc_traced_for` forwards the loop to the real runtime with its own task, which
reads the cycle counter around the model's task and appends a record of `RECORD_FIELDS` if there is room.
"""

from __future__ import annotations

from ..runtime.abi import RT_BYTES

FUNCTION_NAME = "graphc_traced_for"
RT_FIELDS = RT_BYTES // 8
"""Fields of 8 bytes of every `rt` (runtime/abi.py). The pool of this one is the real `rt`."""

FIELDS = ("records", "capacity", "next")
"""The fields after the task trace's header: the array of records, its capacity, and the number of records made."""

RECORD_FIELDS = ("thread", "begin", "end", "iteration")
"""Fields of a record, s64 each; `begin` and `end` are cycle counts."""

_RT = f"{{ {', '.join(['ptr'] * RT_FIELDS + ['ptr', 'i64', 'i64'])} }}"
_RECORD = f"[{len(RECORD_FIELDS)} x i64]"
_JOB = "{ ptr, ptr, ptr }"


def task_trace_module() -> str:
    """Return the LLVM IR of the tracing runtime."""
    return f"""
declare i64 @llvm.readcyclecounter()
declare i64 @pthread_self()

define void @{FUNCTION_NAME}(ptr %rt, ptr %task, ptr %context, i64 %count) {{
  %job = alloca {_JOB}
  %job.task = getelementptr {_JOB}, ptr %job, i32 0, i32 1
  %job.context = getelementptr {_JOB}, ptr %job, i32 0, i32 2
  store ptr %rt, ptr %job
  store ptr %task, ptr %job.task
  store ptr %context, ptr %job.context
  %real.at = getelementptr {_RT}, ptr %rt, i32 0, i32 1
  %real = load ptr, ptr %real.at
  %start = load ptr, ptr %real
  call void %start(ptr %real, ptr @traced_task, ptr %job, i64 %count)
  ret void
}}

define internal void @traced_task(ptr %job, i64 %i) {{
  %rt = load ptr, ptr %job
  %job.task = getelementptr {_JOB}, ptr %job, i32 0, i32 1
  %job.context = getelementptr {_JOB}, ptr %job, i32 0, i32 2
  %task = load ptr, ptr %job.task
  %context = load ptr, ptr %job.context
  %begin = call i64 @llvm.readcyclecounter()
  call void %task(ptr %context, i64 %i)
  %end = call i64 @llvm.readcyclecounter()
  %next = getelementptr {_RT}, ptr %rt, i32 0, i32 {RT_FIELDS + 2}
  %slot = atomicrmw add ptr %next, i64 1 monotonic
  %capacity.at = getelementptr {_RT}, ptr %rt, i32 0, i32 {RT_FIELDS + 1}
  %capacity = load i64, ptr %capacity.at
  %room = icmp slt i64 %slot, %capacity
  br i1 %room, label %keep, label %done
keep:
  %records.at = getelementptr {_RT}, ptr %rt, i32 0, i32 {RT_FIELDS}
  %records = load ptr, ptr %records.at
  %thread = call i64 @pthread_self()
  %record = getelementptr {_RECORD}, ptr %records, i64 %slot
  %record.begin = getelementptr {_RECORD}, ptr %record, i32 0, i32 1
  %record.end = getelementptr {_RECORD}, ptr %record, i32 0, i32 2
  %record.i = getelementptr {_RECORD}, ptr %record, i32 0, i32 3
  store i64 %thread, ptr %record
  store i64 %begin, ptr %record.begin
  store i64 %end, ptr %record.end
  store i64 %i, ptr %record.i
  br label %done
done:
  ret void
}}
"""
