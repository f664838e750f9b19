"""Measures the cost of a timestamp: reading the CPU's cycle counter and storing it."""

from __future__ import annotations

import ctypes
import time
from functools import cache

import numpy as np

from ..codegen.aot import compile_to_object
from ..codegen.host import target_for
from ..runtime.loader import LoadedCode

READS = 200_000
ROUNDS = 5


@cache
def stamp_seconds() -> float:
    """Seconds that one stamp takes, best of a few rounds (about 20 ms in all)."""
    code = LoadedCode(compile_to_object(_LOOP, target_for("generic")))
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(code.address("read_counter"))
    counter = np.zeros(1, np.int64)
    samples = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run(READS, counter.ctypes.data)
        samples.append(time.perf_counter() - start)
    return min(samples) / READS


_LOOP = """
declare i64 @llvm.readcyclecounter()
define void @read_counter(i64 %n, ptr %out) {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %now = call i64 @llvm.readcyclecounter()
  store volatile i64 %now, ptr %out
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
