"""Memory use over time: over models compiled, run and freed, over calls of one model, and of many sizes.

    python tests/measurements/steadiness.py [--cycles 10000] [--calls 1000000] [--sizes 10000]

Prints the resident memory after a tenth of the rounds and at their end: what lies between would be a leak. Each cycle
compiles another size, so that nothing comes from the compile cache.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import graphc
from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor


def resident_kib() -> int:
    """This process's resident memory."""
    gc.collect()
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def compiled(width: int) -> graphc.CompiledModel:
    """A matmul, a reduction and elementwise ops of one size."""
    graph = Graph("steady")
    x = graph.make_input(LogicalTensor(F32, (4, width)), "x")
    w = graph.make_constant(np.ones((width, 8), np.float32))
    y = graph.make("matmul_core", [x, w]).outputs[0]
    graph.make_output(graph.make("softmax", [graph.make("gelu", [y]).outputs[0]]).outputs[0])
    return graphc.compile(graph, threads=1, cache=False)


def any_size(model: graphc.CompiledModel) -> Callable[[int], object]:
    """A call of a model of dynamic sizes with 1 to 4,096 terms, drawn with a fixed seed."""
    rng, most = np.random.default_rng(0), 4096
    x = np.ones((most, 64), np.float32)
    return lambda number: model(x[: rng.integers(1, most, endpoint=True)])


def of_any_size() -> graphc.CompiledModel:
    """Two matmuls and a softmax of a dynamic number of rows."""
    graph = Graph("any")
    x = graph.make_input(LogicalTensor(F32, (size(Symbol("N", 1, 4096)), 64)), "x")
    for width in (512, 64):
        w = graph.make_constant(np.ones((x.details.plain_dims[1], width), np.float32))
        x = graph.make("softmax", graph.make("matmul_core", [x, w]).outputs).outputs[0]
    graph.make_output(x)
    return graphc.compile(graph, threads=1, cache=False)


def cycle(number: int) -> None:
    """Compile, run and free one model."""
    width = 1 + number % 97
    with compiled(width) as model:
        model(np.ones((4, width), np.float32))


def grown(rounds: int, step: Callable[[int], object]) -> tuple[int, int]:
    """Resident memory after the first tenth of the rounds, and after all."""
    early = 0
    for number in range(rounds):
        if number == rounds // 10:
            early = resident_kib()
        step(number)
    return early, resident_kib()


def main() -> None:
    """Print one line for each kind of round."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cycles", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--sizes", type=int, default=10_000)
    arguments = parser.parse_args()
    with of_any_size() as model:
        early, late = grown(arguments.sizes, any_size(model))
        model.trim()
        print(
            f"{arguments.sizes:,} calls of random sizes: {early:,} KiB, then {late:,} KiB, "
            f"trimmed {resident_kib():,} KiB",
            flush=True,
        )
    with compiled(16) as model:
        x = np.ones((4, 16), np.float32)
        rounds = {
            "calls": (arguments.calls, lambda number: model(x)),
            "compile-and-free cycles": (arguments.cycles, cycle),
        }
        for name, (count, step) in rounds.items():
            start = time.perf_counter()
            early, late = grown(count, step)
            seconds = time.perf_counter() - start
            print(
                f"{count:,} {name}: {early:,} KiB, then {late:,} KiB, {seconds:.0f} s", flush=True
            )


if __name__ == "__main__":
    main()
