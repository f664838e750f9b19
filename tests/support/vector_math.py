"""Measuring vector math: inputs that matter, errors in ULP, and native code for one function at a time."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from graphc.codegen.math import MATH
from graphc.codegen.numpy_vector_ops import NumpyVectorOps
from graphc.codegen.vector_ops import LlvmVectorOps
from graphc.tensor_ir.intrinsics import INTRINSICS
from graphc.tools.ulp_sweep import ulp_error
from support import isa

Array = np.ndarray[Any, Any]
Function = Callable[..., Array]

STRIDE = 4099
"""Prime, so that the samples of all 2**32 bit patterns meet every exponent at other mantissas."""

_CHUNK = 1 << 14  # elements evaluated together: temporaries stay in cache


def f32_inputs(stride: int = STRIDE) -> Array:
    """Every stride-th bit pattern, and both neighbors of every power of two and of the special values."""
    strided = np.arange(0, 1 << 32, stride, dtype=np.uint64)
    exponents = np.arange(0, 1 << 32, 1 << 23, dtype=np.uint64)
    edges = (exponents[:, None] + np.arange(-3, 4).astype(np.uint64)).ravel()
    patterns = np.concatenate([strided, edges]).astype(np.uint32)
    return patterns.view(np.float32)


def near(*points: float, count: int = 2000) -> Array:
    """The `count` f32 on either side of each point, and of its negative."""
    offsets = np.arange(-count, count + 1)
    centers = np.array(points, np.float32).view(np.int32)
    positive = (centers[:, None] + offsets).ravel().astype(np.int32).view(np.float32)
    return np.concatenate([positive, -positive])


def through_numpy(name: str, *args: Array, has_fma: bool = True, has_scalef: bool = False) -> Array:
    """MATH[name] with NumPy."""
    ops = NumpyVectorOps(has_fma, has_scalef=has_scalef)
    result = np.empty(args[0].size, np.float32)
    with np.errstate(all="ignore"):
        for begin in range(0, args[0].size, _CHUNK):
            part = slice(begin, begin + _CHUNK)
            result[part] = MATH[name](ops, *(a[part] for a in args))
    return result


def worst(name: str, exact: Function, *args: Array, has_fma: bool = True) -> float:
    """Largest error in ULP of MATH[name] with NumPy; fails naming the input where it is infinite."""
    with np.errstate(all="ignore"):
        reference = exact(*(a.astype(np.float64) for a in args))
    got = through_numpy(name, *args, has_fma=has_fma)
    error = ulp_error(got, reference)
    at = int(error.argmax())
    inputs = [float(a[at]) for a in args]
    assert error[at] < 1e6, f"{name}{inputs} = {got[at]}, not {reference[at]}"
    return float(error[at])


@functools.cache
def native(name: str, lanes: int, has_fma: bool) -> Function:
    """MATH[name] as native code: arrays of f32 whose size is a multiple of `lanes` -> their results."""
    arity = INTRINSICS[name].arity
    engine = compile_text(kernel_text(name, arity, lanes, has_fma), has_fma)
    signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arity + 1), ctypes.c_int64)
    run = signature(engine.get_function_address("run"))

    def call(*args: Array) -> Array:
        arrays = [np.ascontiguousarray(a, np.float32) for a in args]
        result = np.empty_like(arrays[0])
        run(*(a.ctypes.data for a in (*arrays, result)), arrays[0].size)
        return result

    call.engine = engine  # type: ignore[attr-defined]  # owns the code
    return call


def kernel_text(name: str, arity: int, lanes: int, has_fma: bool) -> str:
    """LLVM IR of `void @run(ptr in..., ptr out, i64 count)`."""
    vector = "float" if lanes == 1 else f"<{lanes} x float>"
    numbers = itertools.count()
    lines: list[str] = []
    labels = ["loop"]

    def begin(label: str) -> None:
        labels.append(label)
        lines.append(f"{label}:")

    ops = LlvmVectorOps(lines.append, lambda: f"%v{next(numbers)}", lanes, has_fma, begin=begin)
    for k in range(arity):
        lines.append(f"%p{k} = getelementptr float, ptr %in{k}, i64 %i")
        lines.append(f"%x{k} = load {vector}, ptr %p{k}, align 4")
    value = MATH[name](ops, *(f"%x{k}" for k in range(arity)))
    lines.append("%q = getelementptr float, ptr %out, i64 %i")
    lines.append(f"store {vector} {value}, ptr %q, align 4")
    body = "\n  ".join(lines)
    parameters = ", ".join(f"ptr %in{k}" for k in range(arity))
    return f"""
define void @run({parameters}, ptr %out, i64 %count) {{
start:
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %{labels[-1]} ]
  {body}
  %next = add i64 %i, {lanes}
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %end
end:
  ret void
}}
{chr(10).join(sorted(ops.declares))}
"""


def target_machine(native_cpu: bool) -> llvm.TargetMachine:
    """Return the target machine of this CPU, or of the oldest one with 128-bit vectors and no FMA."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu = llvm.get_host_cpu_name() if native_cpu else "x86-64"
    features = llvm.get_host_cpu_features().flatten() if native_cpu else ""
    return llvm.Target.from_default_triple().create_target_machine(cpu, features, opt=2, jit=True)


def compile_text(text: str, native_cpu: bool = True) -> llvm.ExecutionEngine:
    """The loaded code of a module's text."""
    module = llvm.parse_assembly(text)
    # One block of memory holds code and constants: anywhere else the constants may be out of its reach.
    engine = llvm.create_mcjit_compiler(module, target_machine(native_cpu), use_lmm=True)
    engine.finalize_object()
    return engine


def check(
    name: str,
    exact: Function,
    bound: float,
    *args: Array,
    has_fma: bool = True,
) -> None:
    """The error of MATH[name] with NumPy on `args` is at most `bound` ULP."""
    error = worst(name, exact, *args, has_fma=has_fma)
    assert error <= bound, f"{name}: {error:.3f} ULP, at most {bound} promised"


def check_native(name: str, lanes: int, has_fma: bool, *args: Array) -> None:
    """Native code gives the bits NumPy gives, NaN equal to NaN; skipped with FMA on a CPU without."""
    if has_fma and "fma" not in isa.features():
        pytest.skip("needs fma")
    cut = args[0].size // lanes * lanes
    args = tuple(a[:cut] for a in args)
    got = native(name, lanes, has_fma)(*args)
    want = through_numpy(name, *args, has_fma=has_fma)
    differ = (got.view(np.int32) != want.view(np.int32)) & ~(np.isnan(got) & np.isnan(want))
    at = int(differ.argmax())
    assert not differ.any(), f"{name}{[float(a[at]) for a in args]}: {got[at]}, not {want[at]}"
