"""The largest error of the vector math over all 2**32 inputs, of the native code, in units of the last place.

    python tests/measurements/math_ulp.py [--stride 16] [--no-fma] [name ...]

Each function of one argument is compiled for this CPU and compared, chunk by chunk, with the f64 function of the C
library, on every stride-th bit pattern (but the last few NaN where the stride does not fill a vector).
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.progress import track

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.vector_math import MATH, Array, Function, compile_text, native, ulp_error

CHUNK = 1 << 16
PATTERNS = 1 << 32
LANES = 8
TWO_ARGUMENTS = ("pow", "atan2")


def libm(name: str) -> Function:
    """The C library's `name` on arrays of f64."""
    engine = compile_text(
        f"""
declare double @{name}(double)
define void @run(ptr %in, ptr %out, i64 %count) {{
start:
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
  %p = getelementptr double, ptr %in, i64 %i
  %x = load double, ptr %p
  %y = call double @{name}(double %x)
  %q = getelementptr double, ptr %out, i64 %i
  store double %y, ptr %q
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %end
end:
  ret void
}}
"""
    )
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    run = signature(engine.get_function_address("run"))

    def call(x: Array) -> Array:
        result = np.empty_like(x)
        run(x.ctypes.data, result.ctypes.data, x.size)
        return result

    call.engine = engine  # type: ignore[attr-defined]  # owns the code
    return call


def chunks(stride: int) -> Iterator[Array]:
    """Every stride-th f32, CHUNK at a time."""
    for begin in range(0, PATTERNS, CHUNK * stride):
        end = min(begin + CHUNK * stride, PATTERNS)
        patterns = np.arange(begin, end, stride, dtype=np.uint64).astype(np.uint32)
        yield patterns[: patterns.size // LANES * LANES].view(np.float32)


def largest_error(name: str, stride: int, has_fma: bool) -> tuple[float, float]:
    """(error in ULP, the input it is met at)."""
    function, exact = native(name, LANES, has_fma), libm(name)
    worst, where = -1.0, 0.0
    steps = -(-PATTERNS // (CHUNK * stride))
    for x in track(chunks(stride), name, total=steps, disable=not sys.stdout.isatty()):
        error = ulp_error(function(x), exact(x.astype(np.float64)))
        at = int(error.argmax())
        if error[at] > worst:
            worst, where = float(error[at]), float(x[at])
    return worst, where


def main() -> None:
    """Print one line a function."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = [name for name in MATH if name not in TWO_ARGUMENTS]
    parser.add_argument("names", nargs="*", default=known, metavar="name")
    parser.add_argument("--stride", type=int, default=1, help="check every n-th bit pattern")
    parser.add_argument("--no-fma", action="store_true", help="the code for CPUs without FMA")
    arguments = parser.parse_args()
    for name in arguments.names:
        start = time.perf_counter()
        with np.errstate(all="ignore"):
            error, where = largest_error(name, arguments.stride, not arguments.no_fma)
        seconds = time.perf_counter() - start
        print(f"{name:6s} {error:.4f} ULP at {where!r} ({seconds:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
