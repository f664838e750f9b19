"""Tensor IR functions as native code: compiled together, called one at a time, compared with the interpreter."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from graphc.codegen.aot import compile_to_object
from graphc.codegen.host import target_for
from graphc.codegen.module import emit_module
from graphc.runtime.loader import LoadedCode
from graphc.targets.isa import Target
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import Buffer, Module
from graphc.tools.fuzz.guarded import Edge, guarded_copy

from .isa import host_target

Array = np.ndarray[Any, Any]

SHAPES = ("generic", "avx2", "avx512")
"""Vector shapes that the emitter is tested with; the code of each runs on any x86-64 CPU the tests run on."""

_SCALARS = {
    "f64": ctypes.c_double, "f32": ctypes.c_float, "bool": ctypes.c_bool,
    "s8": ctypes.c_int8, "s16": ctypes.c_int16, "s32": ctypes.c_int32, "s64": ctypes.c_int64,
    "u8": ctypes.c_uint8, "u16": ctypes.c_uint16, "u32": ctypes.c_uint32, "u64": ctypes.c_uint64,
}  # fmt: skip


@cache
def runnable_target(shape: str) -> Target:
    """Vectors of `shape` for this CPU; `generic` is real SSE2 code."""
    return target_for("generic") if shape == "generic" else host_target(shape)


class NativeModule:
    """The loaded code of a module without entry."""

    def __init__(self, module: Module, target: Target) -> None:
        self.module = module
        self.text = emit_module(module, target)
        self.code = LoadedCode(compile_to_object(self.text, target))

    def call(self, name: str, args: Sequence[Array | int | float], rt: int | None = None) -> None:
        """Run a function in place on its parameters: an array per buffer, a number per variable."""
        params = self.module.function(name).params
        types: list[Any] = [ctypes.c_void_p]
        values: list[Any] = [rt]
        for param, arg in zip(params, args, strict=True):
            if isinstance(param, Buffer):
                assert isinstance(arg, np.ndarray) and arg.dtype == param.dtype.numpy
                assert arg.size == math.prod(param.shape)
                types.append(ctypes.c_void_p)
                values.append(arg.ctypes.data)
            else:
                types.append(_SCALARS[param.dtype.name])
                values.append(arg)
        ctypes.CFUNCTYPE(None, *types)(self.code.address(name))(*values)

    def check(self, name: str, args: Sequence[Array | int | float], at: Edge = "end") -> None:
        """Native code, on arrays between guard pages, leaves what the interpreter leaves, bit for bit."""
        native = [guarded_copy(a, at) if isinstance(a, np.ndarray) else a for a in args]
        expected = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        self.call(name, native)
        interpreter.run(self.module, name, expected)
        for param, got, want in zip(
            self.module.function(name).params, native, expected, strict=True
        ):
            if isinstance(want, np.ndarray):
                assert_same(got, want, f"{name}: buffer '{param.name}'")


def assert_same(got: Any, want: Any, what: str = "") -> None:
    """Equal bits, except for NaN, which equals any NaN."""
    size = got.dtype.itemsize
    pattern = np.dtype(f"u{size}")
    differ = got.view(pattern) != want.view(pattern)
    if got.dtype.kind not in "iub":
        with np.errstate(invalid="ignore"):  # ml_dtypes warns about NaN
            numbers = [x.astype(np.float64) for x in (got, want)]
        differ &= ~(np.isnan(numbers[0]) & np.isnan(numbers[1]))
    if differ.any():
        at = int(np.flatnonzero(differ.ravel())[0])
        raise AssertionError(
            f"{what}: {int(differ.sum())} of {got.size} elements differ, the first at {at}: "
            f"got {got.ravel()[at]!r}, expected {want.ravel()[at]!r}"
        )
