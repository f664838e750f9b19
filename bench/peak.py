"""The multiply-add peak of one core of this machine, measured: what "% of peak" means everywhere in graphc."""

from __future__ import annotations

import ctypes
import time
from functools import cache

from ..codegen.aot import compile_to_object
from ..dtypes import F32
from ..runtime.loader import LoadedCode
from ..target import Target

ACCUMULATORS = (
    12  # enough to hide the latency of two multiply-adds a cycle (8), within 16 registers
)
TRIPS = 400_000
ROUNDS = 8


@cache
def measured_peak(target: Target) -> float:
    """GFLOP/s of independent f32 multiply-adds in registers on one core, best of a few rounds (about 30 ms)."""
    lanes = target.lanes(F32)
    code = LoadedCode(compile_to_object(_loop(lanes), target))
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(code.address("fma_peak"))
    out = ctypes.create_string_buffer(4 * lanes * ACCUMULATORS)
    best = min(_seconds(run, out) for _ in range(ROUNDS))
    return 2.0 * lanes * ACCUMULATORS * TRIPS / best / 1e9


def _seconds(run: ctypes._CFunctionType, out: ctypes.Array[ctypes.c_char]) -> float:
    start = time.perf_counter()
    run(TRIPS, out)
    return time.perf_counter() - start


def _loop(lanes: int) -> str:
    vector = f"<{lanes} x float>"
    ids = range(ACCUMULATORS)
    phis = [f"  %c{i} = phi {vector} [zeroinitializer, %entry], [%d{i}, %loop]" for i in ids]
    fmas = [
        f"  %d{i} = call {vector} @llvm.fma.v{lanes}f32({vector} %x, {vector} %x, {vector} %c{i})"
        for i in ids
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
            *fmas,
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
