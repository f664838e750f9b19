"""Measures the peaks of this machine: multiply-adds of each pair of types in registers.

That of f32 is the base of "% of peak" everywhere in graphc.
"""

from __future__ import annotations

import ctypes
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial

import numpy as np

from ..base.dtypes import S16, DType
from ..codegen.aot import compile_to_object
from ..codegen.capabilities import capabilities
from ..codegen.casts import Casts
from ..codegen.dot_products import DotProducts
from ..codegen.instruction_stream import InstructionStream
from ..codegen.llvm_types import mangled, type_of
from ..runtime.loader import LoadedCode
from ..targets.isa import Microkernel, Target
from ..targets.microkernels import f32_kernel
from .tile_peak import tile_calls

ACCUMULATORS = (
    12  # enough to hide the latency of two multiply-adds per cycle (8), within 16 registers
)
TRIPS = 400_000
ROUNDS = 8


@cache
def measured_peak(target: Target, threads: int = 1) -> float:
    """`measure_peak`, cached per process."""
    return measure_peak(target, threads)


def measure_peak(target: Target, threads: int = 1, kernel: Microkernel | None = None) -> float:
    """1e9 operations a second of independent multiply-adds in registers on `threads` cores together (about 30 ms).

    Those of a microkernel, f32 if none is given: one multiply-add is two operations.
    """
    kernel = kernel or f32_kernel(target)
    if kernel.uses_tiles:
        calls, operations = tile_calls(kernel, target, threads)
        return operations * threads / best_seconds(calls, ROUNDS) / 1e9
    lanes, size = target.lanes(kernel.accumulator), kernel.accumulator.size
    code = _code(kernel, target)
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * 3)(code.address("peak"))
    outs = [ctypes.create_string_buffer(size * lanes * ACCUMULATORS) for _ in range(threads)]
    x, y = (_random(dtype, lanes * kernel.k_group) for dtype in (kernel.copied_a, kernel.copied_b))
    best = best_seconds([partial(run, TRIPS, x, y, out) for out in outs], ROUNDS)
    return 2.0 * kernel.k_group * lanes * ACCUMULATORS * TRIPS * threads / best / 1e9


def _random(dtype: DType, count: int) -> bytes:
    """Return a vector that is not zero, as the clock is higher with zeros; floats below 1, so that sums stay finite."""
    rng = np.random.default_rng(0)
    values = rng.uniform(0.1, 0.9, count) if dtype.is_float else rng.integers(1, 100, count)
    return values.astype(dtype.numpy).tobytes()


@cache
def _code(kernel: Microkernel, target: Target) -> LoadedCode:
    return LoadedCode(compile_to_object(_loop(kernel, target), target))


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


def _loop(kernel: Microkernel, target: Target) -> str:
    """Return the code of `void peak(i64 trips, ptr x, ptr y, ptr out)`, which knows nothing of the operands."""
    lanes = target.lanes(kernel.accumulator)
    vector, size = type_of(kernel.accumulator, lanes), kernel.accumulator.size
    ids, stream = range(ACCUMULATORS), InstructionStream(set())
    sums = [_multiply_add(kernel, target, stream, f"%c{i}", lanes) for i in ids]
    phis = [
        f"  %c{i} = phi {vector} [zeroinitializer, %entry], [{total}, %loop]"
        for i, total in zip(ids, sums, strict=True)
    ]
    stores = [
        f"  %p{i} = getelementptr i8, ptr %out, i64 {size * lanes * i}\n"
        f"  store {vector} {total}, ptr %p{i}, align 1"
        for i, total in zip(ids, sums, strict=True)
    ]
    group = lanes * kernel.k_group
    operands = type_of(kernel.copied_a, group), type_of(kernel.copied_b, group)
    return "\n".join(
        [
            *sorted(stream.declares),
            "define void @peak(i64 %n, ptr %left, ptr %right, ptr %out) {",
            "entry:",
            f"  %x = load {operands[0]}, ptr %left, align 1",
            f"  %y = load {operands[1]}, ptr %right, align 1",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [0, %entry], [%next, %loop]",
            *phis,
            *stream.text().splitlines()[1:],
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


def _multiply_add(
    kernel: Microkernel, target: Target, stream: InstructionStream, total: str, lanes: int
) -> str:
    """total + x * y, as the microkernel does it."""
    kind = kernel.accumulator
    if kernel.k_group > 1:
        can = capabilities(target)
        dots, x = DotProducts(stream, can, Casts(stream, can)), "%x"
        if kernel.copied_a == S16:  # an unaccumulated term would be hoisted out of the loop
            x = stream.value(f"bitcast {type_of(kind, lanes)} {total} to {type_of(S16, 2 * lanes)}")
        return dots.dot(kernel.instruction, total, x, "%y", kernel.copied_a, lanes)
    vector = type_of(kind, lanes)
    if target.table.has_fma:
        operands = ((vector, "%x"), (vector, "%y"), (vector, total))
        return stream.intrinsic(f"llvm.fma.{mangled(kind, lanes)}", vector, *operands)
    return stream.value(f"fadd {vector} {stream.value(f'fmul {vector} %x, {total}')}, %y")
