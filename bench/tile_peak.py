"""Measures the peak of microkernels on tile registers: 2 x 2 sums, each operand loaded from L1 once per step."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, partial

import numpy as np

from ..base.aligned_memory import aligned_copy
from ..codegen.aot import compile_to_object
from ..codegen.module import emit_module
from ..runtime.loader import LoadedCode
from ..targets.isa import Microkernel, Target
from ..tensor_ir.parser import parse_module

TRIPS = 20_000
MULTIPLICATIONS = 4


def tile_calls(
    kernel: Microkernel, target: Target, threads: int
) -> tuple[list[Callable[[], object]], float]:
    """Return a call for each thread, and the operations of one call.

    Operands are random: with zeros the clock is a fifth higher.
    """
    shape = kernel.registers
    assert shape is not None
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64)(
        _code(kernel, target).address("peak")
    )
    size, lanes = shape.rows * shape.row_bytes, shape.row_bytes // 4
    rng, calls = np.random.default_rng(0), list[Callable[[], object]]()
    for _ in range(threads):
        left, right = (
            aligned_copy(rng.integers(1, 100, 2 * size // dtype.size).astype(dtype.numpy))
            for dtype in (kernel.a, kernel.b)
        )
        sums = np.zeros(MULTIPLICATIONS * shape.rows * lanes, kernel.accumulator.numpy)
        arrays = (left, right, sums)
        addresses = [array.ctypes.data for array in arrays]
        calls.append(partial(_run, run, addresses, arrays))
    multiplied = MULTIPLICATIONS * shape.rows * lanes * lanes * kernel.k_group
    return calls, 2.0 * multiplied * TRIPS


def _run(run: Callable[..., object], addresses: list[int], arrays: object) -> None:
    run(None, *addresses, TRIPS)


@cache
def _code(kernel: Microkernel, target: Target) -> LoadedCode:
    module = parse_module(_text(kernel))
    return LoadedCode(compile_to_object(emit_module(module, target), target))


def _text(kernel: Microkernel) -> str:
    a, b, c, group = kernel.a, kernel.b, kernel.accumulator, kernel.k_group
    size = 256 * group
    numbers = [(r, v) for r in range(2) for v in range(2)]
    lines = [f"def peak(a: {a}[{2 * size}], b: {b}[{2 * size}], c: {c}[1024], trips: s64):"]
    lines += [f"    c{r}{v}: {c}[256]" for r, v in numbers]
    lines += [f"    a{i}: {a}[{size}]\n    b{i}: {b}[{size}]" for i in range(2)]
    lines += [f"    tile_zero_{c}(c{r}{v}, 16)" for r, v in numbers]
    lines.append("    for i in range(0, trips):")
    for r in range(2):
        lines.append(f"        tile_load_{a}(a{r}, a.at({r * size}), 16, {16 * group}, 16)")
        lines.append(f"        tile_load_{b}(b{r}, b.at({r * size}), 16, {16 * group}, 16)")
    lines += [f"        {kernel.multiply}(c{r}{v}, a{r}, b{v}, 16, 16)" for r, v in numbers]
    lines += [
        f"    tile_store_{c}(c{r}{v}, c.at({256 * (2 * r + v)}), 16, 16, 16)" for r, v in numbers
    ]
    return "\n".join(lines) + "\n"
