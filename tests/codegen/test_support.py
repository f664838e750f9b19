"""The thread pool: every loop runs each iteration once, whoever calls, and idle threads sleep."""

from __future__ import annotations

import ctypes
import os
import threading
import time
import warnings
from collections.abc import Iterator

import llvmlite.binding as llvm
import numpy as np
import pytest

from graphc.codegen.support import thread_pool_module
from graphc.runtime import abi
from graphc.runtime.loader import LoadedCode
from graphc.runtime.threadpool import ThreadPool
from support.native import compile_ir, support_code

# Tasks in native code: ctx points to i64 cells. `count` adds 1 to cell i; `nested` runs a loop of 7 over 7*i.. ; `slow`
# spins a little, so that workers take part; `denormal` halves the smallest normal float.
TASKS_IR = """
define void @count(ptr %cells, i64 %i) {
  %cell = getelementptr i64, ptr %cells, i64 %i
  %old = atomicrmw add ptr %cell, i64 1 monotonic
  ret void
}

%nest = type { ptr, ptr }
%inner = type { ptr, i64 }

define internal void @offset_count(ptr %ctx, i64 %i) {
  %c = load %inner, ptr %ctx
  %cells = extractvalue %inner %c, 0
  %base = extractvalue %inner %c, 1
  %at = add i64 %base, %i
  call void @count(ptr %cells, i64 %at)
  ret void
}

define void @nested(ptr %ctx, i64 %i) {
  %c = load %nest, ptr %ctx
  %rt = extractvalue %nest %c, 0
  %cells = extractvalue %nest %c, 1
  %base = mul i64 %i, 7
  %inner = alloca %inner
  %c0 = insertvalue %inner undef, ptr %cells, 0
  %c1 = insertvalue %inner %c0, i64 %base, 1
  store %inner %c1, ptr %inner
  %loop = load ptr, ptr %rt
  call void %loop(ptr %rt, ptr @offset_count, ptr %inner, i64 7)
  ret void
}

define void @slow(ptr %cells, i64 %i) {
entry:
  %wait = alloca i64
  br label %spin
spin:
  %n = phi i64 [ 0, %entry ], [ %next, %spin ]
  store volatile i64 %n, ptr %wait
  %next = add i64 %n, 1
  %more = icmp ult i64 %next, 20000
  br i1 %more, label %spin, label %end
end:
  call void @count(ptr %cells, i64 %i)
  ret void
}

declare i64 @syscall(i64, ...)

define void @who(ptr %cells, i64 %i) {
  call void @slow(ptr %cells, i64 %i)
  %tid = call i64 (i64, ...) @syscall(i64 186)
  %cell = getelementptr i64, ptr %cells, i64 %i
  store i64 %tid, ptr %cell
  ret void
}

declare void @llvm.x86.sse.stmxcsr(ptr)

define void @mode(ptr %cells, i64 %i) {
  call void @slow(ptr %cells, i64 %i)
  %cell = getelementptr i64, ptr %cells, i64 %i
  call void @llvm.x86.sse.stmxcsr(ptr %cell)
  ret void
}

declare void @llvm.x86.sse.ldmxcsr(ptr)

define void @set_mode(ptr %mode) {
  call void @llvm.x86.sse.ldmxcsr(ptr %mode)
  ret void
}

; Opens %loops loops of %count tasks each.
define void @storm(ptr %rt, ptr %cells, i64 %count, i64 %loops) {
entry:
  %loop = load ptr, ptr %rt
  br label %each
each:
  %n = phi i64 [ 0, %entry ], [ %next, %each ]
  call void %loop(ptr %rt, ptr @count, ptr %cells, i64 %count)
  %next = add i64 %n, 1
  %more = icmp ult i64 %next, %loops
  br i1 %more, label %each, label %end
end:
  ret void
}
"""

pytestmark = pytest.mark.skipif(
    not thread_pool_module(llvm.get_process_triple()), reason="no thread pool for this system"
)


class Tasks:
    """The native tasks, and how to run loops of them on a pool."""

    def __init__(self) -> None:
        self.code = LoadedCode(compile_ir(TASKS_IR))
        storm = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
        )
        self._storm = storm(self.code.address("storm"))
        self.set_mode = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.code.address("set_mode"))

    def loop(self, pool: ThreadPool, task: str, context: int, count: int) -> None:
        function = ctypes.c_void_p.from_address(pool.address).value or 0
        address = self.code.address(task)
        abi.ParallelForFunction(function)(pool.address, address, context, count)

    def storm(self, pool: ThreadPool, cells: np.ndarray, count: int, loops: int) -> None:
        self._storm(pool.address, cells.ctypes.data, count, loops)


@pytest.fixture(scope="module")
def tasks() -> Tasks:
    return Tasks()


@pytest.fixture(params=[2, 3, 8])
def pool(request: pytest.FixtureRequest) -> Iterator[ThreadPool]:
    made = ThreadPool(request.param, support_code())
    yield made
    made.close()


def test_other_systems_have_no_pool() -> None:
    assert thread_pool_module("riscv64-unknown-linux-gnu") == ""
    assert thread_pool_module("x86_64-apple-darwin23") == ""


def test_module_names_its_exports() -> None:
    text = thread_pool_module("x86_64-unknown-linux-gnu")
    exported = [line for line in text.splitlines() if line.startswith("define ptr @graphc")]
    assert exported == ["define ptr @graphc_pool_create(i64 %threads) nounwind uwtable {"]
    assert "$" not in text


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 31, 32, 33, 127, 128, 129, 1009, 100_003])
def test_every_iteration_runs_once(tasks: Tasks, pool: ThreadPool, count: int) -> None:
    cells = np.zeros(count + 1, np.int64)
    tasks.loop(pool, "count", cells.ctypes.data, count)
    assert np.array_equal(cells[:count], np.ones(count))
    assert cells[count] == 0


def test_negative_count_runs_nothing(tasks: Tasks, pool: ThreadPool) -> None:
    cells = np.zeros(1, np.int64)
    tasks.loop(pool, "count", cells.ctypes.data, -1)
    assert cells[0] == 0


@pytest.mark.parametrize("count", [2, 5, 64])
def test_a_storm_of_tiny_loops(tasks: Tasks, pool: ThreadPool, count: int) -> None:
    cells = np.zeros(count, np.int64)
    tasks.storm(pool, cells, count, 20_000)
    assert np.array_equal(cells, np.full(count, 20_000))


def test_loops_with_pauses_between_them(tasks: Tasks, pool: ThreadPool) -> None:
    # Workers park after 70 us: every one of these loops finds some spinning, some asleep, some on the way.
    cells = np.zeros(40, np.int64)
    for n in range(200):
        time.sleep(n * 1e-6)
        tasks.loop(pool, "slow", cells.ctypes.data, 40)
    assert np.array_equal(cells, np.full(40, 200))


def test_more_than_one_thread_works(tasks: Tasks) -> None:
    pool = ThreadPool(4, support_code())
    cells = np.zeros(4000, np.int64)
    threads = set[int]()
    for _ in range(100):  # others may need every CPU for as long as a loop takes
        tasks.loop(pool, "who", cells.ctypes.data, 4000)
        threads |= set(cells.tolist())
        if len(threads) > 1:
            break
    pool.close()
    assert threading.get_native_id() in threads
    assert 2 <= len(threads) <= 4


def test_a_worker_on_the_callers_cpu_moves_and_keeps_its_affinity() -> None:
    allowed = os.sched_getaffinity(0)
    text = thread_pool_module(llvm.get_process_triple())
    code = LoadedCode(compile_ir(text.replace("internal void @leave_cpu", "void @leave_cpu")))
    leave = ctypes.CFUNCTYPE(None, ctypes.c_int)(code.address("leave_cpu"))
    current = ctypes.CDLL(None).sched_getcpu
    seen = set()
    for _ in range(20):  # the system may move a thread back at once
        before = current()
        leave(before)
        seen.add(current() != before)
        assert os.sched_getaffinity(0) == allowed
    assert (True in seen) == (len(allowed) > 1)
    leave(100_000)  # a number that no mask has
    assert os.sched_getaffinity(0) == allowed


def test_workers_leave_the_callers_cpu_whatever_it_is(tasks: Tasks) -> None:
    # Every CPU is taken for the caller's: workers move in every loop, and each iteration still runs once.
    text = thread_pool_module(llvm.get_process_triple())
    together = text.replace("icmp eq i32 %here, %there", "icmp eq i32 %here, %here")
    assert together != text
    others = set(os.listdir("/proc/self/task"))
    pool = ThreadPool(3, compile_ir(together))
    cells = np.zeros(40, np.int64)
    for _ in range(50):
        tasks.loop(pool, "slow", cells.ctypes.data, 40)
    assert np.array_equal(cells, np.full(40, 50))
    workers = [int(task) for task in set(os.listdir("/proc/self/task")) - others]
    allowed = os.sched_getaffinity(0)
    moving = len(workers)
    for _ in range(1000):  # one that came late to the last loop may still be on its way
        moving = sum(os.sched_getaffinity(worker) != allowed for worker in workers)
        if not moving:
            break
        time.sleep(0.005)
    assert workers and not moving
    pool.close()


def test_nested_loops_run_in_place(tasks: Tasks, pool: ThreadPool) -> None:
    cells = np.zeros(7 * 500, np.int64)
    context = (ctypes.c_void_p * 2)(pool.address, cells.ctypes.data)
    tasks.loop(pool, "nested", ctypes.addressof(context), 500)
    assert np.array_equal(cells, np.ones(7 * 500))


def test_many_python_threads_share_a_pool(tasks: Tasks, pool: ThreadPool) -> None:
    cells = np.zeros((16, 50), np.int64)
    threads = [
        threading.Thread(target=tasks.storm, args=(pool, cells[i], 50, 500)) for i in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.array_equal(cells, np.full((16, 50), 500))


def test_idle_workers_sleep(tasks: Tasks) -> None:
    pool = ThreadPool(4, support_code())
    cells = np.zeros(64, np.int64)
    tasks.loop(pool, "slow", cells.ctypes.data, 64)
    # CPU time: until they sleep, workers may wait long for a CPU on which to find nothing to do.
    spent: list[float] = []
    while not spent or (spent[-1] >= 0.02 and len(spent) < 50):
        before = time.process_time()
        time.sleep(0.2)
        spent.append(time.process_time() - before)
    assert spent[-1] < 0.02
    pool.close()


def test_workers_take_over_the_floating_point_mode(tasks: Tasks) -> None:
    pool = ThreadPool(4, support_code())
    usual, flushing = ctypes.c_uint32(0x1F80), ctypes.c_uint32(0x9FC0)
    cells = np.zeros(400, np.int64)
    try:
        tasks.set_mode(ctypes.addressof(flushing))
        tasks.loop(pool, "mode", cells.ctypes.data, 400)
    finally:
        tasks.set_mode(ctypes.addressof(usual))
    control = cells & 0xFFC0  # without the sticky exception flags
    assert set(control.tolist()) == {0x9FC0}
    tasks.loop(pool, "mode", cells.ctypes.data, 400)
    assert set((cells & 0xFFC0).tolist()) == {0x1F80}
    pool.close()


def test_close_stops_the_workers(tasks: Tasks) -> None:
    before = len(os.listdir("/proc/self/task"))
    pool = ThreadPool(5, support_code())
    assert len(os.listdir("/proc/self/task")) == before  # none before the first loop
    tasks.storm(pool, np.zeros(8, np.int64), 8, 1)
    assert len(os.listdir("/proc/self/task")) == before + 4
    pool.close()
    pool.close()
    deadline = time.monotonic() + 60
    while len(os.listdir("/proc/self/task")) > before and time.monotonic() < deadline:
        time.sleep(0.001)  # a joined thread may still be listed for a moment
    assert len(os.listdir("/proc/self/task")) == before


def _child_result(tasks: Tasks, pool: ThreadPool) -> int:
    """The exit code of a forked child that runs loops: 0 all right and in parallel, 2 right but alone, 1 wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of forking with threads
        child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    cells = np.zeros(64, np.int64)
    tasks.storm(pool, cells, 64, 1000)
    right = bool((cells == 1000).all())
    parallel = len(os.listdir("/proc/self/task")) > 1
    os._exit(1 if not right else 0 if parallel else 2)


def test_a_forked_child_starts_its_own_workers(tasks: Tasks, pool: ThreadPool) -> None:
    cells = np.zeros(64, np.int64)
    tasks.storm(pool, cells, 64, 10)
    assert _child_result(tasks, pool) == 0
    tasks.storm(pool, cells, 64, 10)
    assert np.array_equal(cells, np.full(64, 20))


def test_fork_while_another_thread_is_in_a_loop(tasks: Tasks, pool: ThreadPool) -> None:
    cells = np.zeros(1000, np.int64)
    busy = threading.Thread(target=tasks.loop, args=(pool, "slow", cells.ctypes.data, 1000))
    busy.start()
    assert _child_result(tasks, pool) == 0
    busy.join()
    assert np.array_equal(cells, np.ones(1000))


def test_without_wipe_on_fork_a_child_runs_serially(tasks: Tasks) -> None:
    text = thread_pool_module(llvm.get_process_triple())
    refused = text.replace("i64 %bytes, i32 18)", "i64 %bytes, i32 9999)")
    assert refused != text
    pool = ThreadPool(2, compile_ir(refused))
    tasks.storm(pool, np.zeros(64, np.int64), 64, 10)
    assert _child_result(tasks, pool) == 2
    pool.close()
