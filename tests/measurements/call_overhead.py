"""Overhead of a call: checked calls, bound calls, and opening a parallel loop.

    python tests/measurements/call_overhead.py [--threads 2]

The models do next to nothing (they copy one float per input), so the time is the overhead. Budgets (DESIGN section 6):
checked call 2 us, bound call 1 us, a parallel loop with warm workers well under 1 us.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import graphc
from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.runtime.executor import CompiledModel
from graphc.runtime.loader import LoadedCode
from graphc.runtime.metadata import TensorSpec
from graphc.runtime.threadpool import ThreadPool
from support.native import compile_ir, copy_artifact, support_code

LOOPS_IR = """
define void @nothing(ptr %ctx, i64 %i) {
  ret void
}

define void @loops(ptr %rt, i64 %tasks, i64 %count) {
entry:
  %loop = load ptr, ptr %rt
  br label %each
each:
  %n = phi i64 [ 0, %entry ], [ %next, %each ]
  call void %loop(ptr %rt, ptr @nothing, ptr null, i64 %tasks)
  %next = add i64 %n, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %each, label %end
end:
  ret void
}
"""


def elapsed(run: Callable[[], object]) -> float:
    """Nanoseconds of one call."""
    start = time.perf_counter_ns()
    run()
    return time.perf_counter_ns() - start


def nanoseconds(run: Callable[[], object], calls: int = 20_000, rounds: int = 7) -> float:
    """Best time of one call, over rounds of many."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter_ns()
        for _ in range(calls):
            run()
        best = min(best, (time.perf_counter_ns() - start) / calls)
    return best


def measure_calls(inputs: int) -> dict[str, float]:
    """Nanoseconds of a call of a model with `inputs` inputs and outputs, each way."""
    specs = tuple(TensorSpec(f"x{i}", F32, (1,)) for i in range(inputs))
    model = CompiledModel(copy_artifact(*specs))
    arrays = [np.ones(1, np.float32) for _ in specs]
    feed = {spec.name: array for spec, array in zip(specs, arrays, strict=True)}
    bound = model.bind(feed, [np.empty(1, np.float32) for _ in specs])
    return {
        "checked, by position": nanoseconds(lambda: model(*arrays)),
        "checked, by name": nanoseconds(lambda: model(**feed)),
        "run(None, {...})": nanoseconds(lambda: model.run(None, feed)),
        "bound": nanoseconds(bound),
    }


def measure_dynamic_sizes() -> dict[str, float]:
    """Nanoseconds of a call of a model with a dynamic size: always the same one, two in turn, and bound."""
    graph = Graph("open")
    x = graph.make_input(LogicalTensor(F32, (size(Symbol("N")), 1)), "x")
    graph.make_output(graph.make("relu", [x]).outputs[0])
    model = graphc.compile(graph, threads=1)
    one, two = (np.ones((n, 1), np.float32) for n in (1, 2))
    bound = model.bind({"x": one}, [np.empty((1, 1), np.float32)])
    turn = nanoseconds(lambda: (model(one), model(two))) / 2
    return {
        "dynamic size, checked": nanoseconds(lambda: model(one)),
        "dynamic sizes in turn, checked": turn,
        "dynamic size, bound": nanoseconds(bound),
    }


def measure_loops(threads: int) -> dict[str, float]:
    """Nanoseconds to open, run and close an empty loop of `tasks` tasks."""
    pool, code = ThreadPool(threads, support_code()), LoadedCode(compile_ir(LOOPS_IR))
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    loops = kind(code.address("loops"))
    count = 100_000
    result = {}
    for tasks in (threads, 4 * threads, 64 * threads):
        # The median: a loop is quickest when the other core is taken and nobody helps.
        rounds = [elapsed(partial(loops, pool.address, tasks, count)) for _ in range(15)]
        result[f"warm workers, {tasks} tasks"] = statistics.median(rounds) / count
    rounds = []
    for _ in range(100):
        time.sleep(0.002)
        rounds.append(elapsed(lambda: loops(pool.address, threads, 1)))
    result[f"sleeping workers, {threads} tasks"] = statistics.median(rounds)
    pool.close()
    return result


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    threads = parser.parse_args().threads
    for inputs in (1, 2, 8):
        for name, nanos in measure_calls(inputs).items():
            print(f"{inputs} in, {inputs} out  {name:32}{nanos:9.0f} ns")
    for name, nanos in measure_dynamic_sizes().items():
        print(f"1 in, 1 out  {name:32}{nanos:9.0f} ns")
    for name, nanos in measure_loops(threads).items():
        print(f"{threads} threads     {name:32}{nanos:9.0f} ns")


if __name__ == "__main__":
    main()
