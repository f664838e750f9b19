"""Parallel loops: with and without a runtime, and the order and number of their iterations."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from graphc.base.dtypes import F32, S64
from graphc.runtime import abi
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.nodes import Block, Buffer, Function, Module, ParallelInvoke, Var
from support.native_functions import NativeModule, runnable_target

OUT = Buffer("out", S64, (64,))


@cache
def module() -> NativeModule:
    """out[4 * i + k] = 100 * i + base * scale, and the same nested in another parallel loop."""
    base, scale, i = Var("base"), Var("scale", F32), Var("i")
    part = Buffer("part", S64, (60,))
    b = t.LoopBuilder()
    b.store(part, (i * 4,), i * 100 + t.cast(t.cast(base, F32) * scale, S64))
    body = b.function("body", (part, base, scale, i))
    functions = [body]
    args = (t.slice_of(OUT, (2,)), t.as_expr(6), t.const(1.5, F32))
    for count in (0, 1, 2, 15):
        loop = ParallelInvoke("body", args, count)
        functions.append(Function(f"run_{count}", (OUT,), Block((loop, loop))))
    n = Var("n")
    functions.append(Function("run_n", (OUT, n), Block((ParallelInvoke("body", args, n),))))
    inner = Function("inner", (OUT, i), Block((ParallelInvoke("body", args, 3),)))
    outer = ParallelInvoke("inner", (t.slice_of(OUT),), 2)
    functions += [inner, Function("nested", (OUT,), Block((outer,)))]
    return NativeModule(Module(tuple(functions)), runnable_target("avx2"))


class Runtime:
    """An `rt` whose loop is a Python function of (call, count); `call(i)` runs an iteration."""

    def __init__(self, loop: Callable[[Callable[[int], None], int], None]) -> None:
        self.opened = 0

        def parallel_for(rt: int, task: int, context: int, count: int) -> None:
            self.opened += 1
            run = abi.TaskFunction(task)
            loop(lambda i: run(context, i), count)

        self._function = abi.ParallelForFunction(parallel_for)
        self._struct = abi.Runtime(ctypes.cast(self._function, ctypes.c_void_p).value)
        self.address = ctypes.addressof(self._struct)


def backwards(call: Callable[[int], None], count: int) -> None:
    for i in reversed(range(count)):
        call(i)


def in_threads(call: Callable[[int], None], count: int) -> None:
    threads = [threading.Thread(target=call, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def expected(count: int) -> np.ndarray:
    out = np.zeros(64, np.int64)
    for i in range(count):
        out[2 + 4 * i] = 100 * i + 9
    return out


@pytest.mark.parametrize("loop", [None, backwards, in_threads])
@pytest.mark.parametrize("count", [0, 1, 2, 15])
def test_every_iteration_runs(count: int, loop: Callable | None) -> None:
    runtime = Runtime(loop) if loop else None
    out = np.zeros(64, np.int64)
    module().call(f"run_{count}", [out], runtime.address if runtime else None)
    np.testing.assert_array_equal(out, expected(count))
    if runtime:
        assert runtime.opened == (2 if count > 1 else 0)


@pytest.mark.parametrize("loop", [None, backwards])
@pytest.mark.parametrize("count", [0, 1, 15])
def test_the_number_of_iterations_may_be_known_at_run_time(
    count: int, loop: Callable | None
) -> None:
    runtime = Runtime(loop) if loop else None
    out = np.zeros(64, np.int64)
    module().call("run_n", [out, count], runtime.address if runtime else None)
    np.testing.assert_array_equal(out, expected(count))


def test_a_loop_inside_a_loop_is_serial() -> None:
    runtime = Runtime(backwards)
    out = np.zeros(64, np.int64)
    module().call("nested", [out], runtime.address)
    np.testing.assert_array_equal(out, expected(3))
    assert runtime.opened == 1


def test_the_interpreter_agrees() -> None:
    for name in ("run_0", "run_1", "run_15", "nested"):
        module().check(name, [np.zeros(64, np.int64)])
