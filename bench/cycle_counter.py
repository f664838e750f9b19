"""The CPU's cycle counter, which time stamps are taken from: its rate, and what reading it costs."""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from functools import cache

import numpy as np

from ..codegen.aot import compile_to_object
from ..codegen.host import target_for
from ..runtime.loader import LoadedCode

READS = 200_000
ROUNDS = 5


@dataclass(frozen=True)
class CycleCounter:
    """Counts per second, and seconds that one time stamp (read and store) takes."""

    rate: float
    stamp_seconds: float


@cache
def cycle_counter() -> CycleCounter:
    """Measure the counter against the clock, about 20 ms."""
    code = LoadedCode(compile_to_object(_LOOP, target_for("generic")))
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(code.address("read_counter"))
    ends = np.zeros(2, np.int64)
    run(1, ends.ctypes.data)
    samples = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run(READS, ends.ctypes.data)
        samples.append((time.perf_counter() - start, int(ends[1] - ends[0])))
    seconds, cycles = min(samples)
    return CycleCounter(cycles / seconds, seconds / READS)


# Writes the first count to out[0] and every later one to out[1].
_LOOP = """
declare i64 @llvm.readcyclecounter()
define void @read_counter(i64 %n, ptr %out) {
entry:
  %first = call i64 @llvm.readcyclecounter()
  store volatile i64 %first, ptr %out
  %at = getelementptr i64, ptr %out, i64 1
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %now = call i64 @llvm.readcyclecounter()
  store volatile i64 %now, ptr %at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
