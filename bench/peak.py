"""Measures the multiply-add peak of this machine, the base of "% of peak" everywhere in graphc."""

from __future__ import annotations

import ctypes
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial

from ..base.dtypes import F32
from ..base.target import Target
from ..codegen.aot import compile_to_object
from ..runtime.loader import LoadedCode

ACCUMULATORS = (
    12  # enough to hide the latency of two multiply-adds per cycle (8), within 16 registers
)
TRIPS = 400_000
ROUNDS = 8


@cache
def measured_peak(target: Target, threads: int = 1) -> float:
    """`measure_peak`, cached per process."""
    return measure_peak(target, threads)


def measure_peak(target: Target, threads: int = 1) -> float:
    """GFLOP/s of independent f32 multiply-adds in registers on `threads` cores together (about 30 ms)."""
    lanes = target.lanes(F32)
    code = LoadedCode(compile_to_object(_loop(lanes, target.table.has_fma), target))
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(code.address("fma_peak"))
    outs = [ctypes.create_string_buffer(4 * lanes * ACCUMULATORS) for _ in range(threads)]
    best = best_seconds([partial(run, TRIPS, out) for out in outs], ROUNDS)
    return 2.0 * lanes * ACCUMULATORS * TRIPS * threads / best / 1e9


def best_seconds(calls: Sequence[Callable[[], object]], rounds: int) -> float:
    """The shortest time to complete native calls, each in its own thread: best of `rounds`.

    Measured in the threads, from the first start to the last end, which excludes waking them.
    """

    def timed(call: Callable[[], object]) -> tuple[float, float]:
        barrier.wait()
        start = time.perf_counter()
        call()
        return start, time.perf_counter()

    barrier = threading.Barrier(len(calls))
    best = math.inf
    with ThreadPoolExecutor(len(calls)) as pool:
        for _ in range(rounds):
            starts, ends = zip(*pool.map(timed, calls), strict=True)
            best = min(best, max(ends) - min(starts))
    return best


def _loop(lanes: int, fused: bool) -> str:
    vector = f"<{lanes} x float>"
    ids = range(ACCUMULATORS)
    phis = [f"  %c{i} = phi {vector} [zeroinitializer, %entry], [%d{i}, %loop]" for i in ids]
    if fused:
        call = f"call {vector} @llvm.fma.v{lanes}f32({vector} %x, {vector} %x, {vector}"
        steps = [f"  %d{i} = {call} %c{i})" for i in ids]
    else:
        steps = [
            f"  %m{i} = fmul {vector} %x, %c{i}\n  %d{i} = fadd {vector} %x, %m{i}" for i in ids
        ]
    stores = [
        f"  %p{i} = getelementptr i8, ptr %out, i64 {4 * lanes * i}\n  store {vector} %d{i}, ptr %p{i}, align 1"
        for i in ids
    ]
    return "\n".join(
        [
            f"declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})",
            "define void @fma_peak(i64 %n, ptr %out) {",
            "entry:",
            f"  %x = load {vector}, ptr %out, align 1",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [0, %entry], [%next, %loop]",
            *phis,
            *steps,
            "  %next = add i64 %i, 1",
            "  %more = icmp slt i64 %next, %n",
            "  br i1 %more, label %loop, label %done",
            "done:",
            *stores,
            "  ret void",
            "}",
            "",
        ]
    )
