"""Every op of the registry at sizes from 1 to 2^22: where time per element or compile time jumps.

    python tests/measurements/cliffs.py [OP ...] [--most 22] [--threads 1] [--json]

A row is one way for an op to grow (`support/growing_ops.py`): its length, rows or columns, k, the window, the number of
operands. A size is measured as the best of some calls. Reported are

    run       time per element over three doublings more than 4 times as large: 8 times would be a quadratic algorithm
    jump      time per element between neighboring sizes more than 3 times as large
    compile   compile time between neighboring sizes more than 3 times as large, or over three doublings 14 times
    refused   a size that is not compiled, with its message
    slow      a size that takes longer than the limit; larger ones are left out

Elements are those of all inputs and results; of matmuls and convolutions, multiplications count. Calls of less than
20 us are left out of `run` and `jump`, and compilations of less than 1 s out of `compile`. Times are those of the CPU,
which other processes change less (except with several threads). With --json, each row is an object of one line, with
all times.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import graphc
from graphc.base.errors import GraphcError
from graphc.base.records import dataclass
from support.growing_ops import GROWTHS, PATTERNS, Growth

MAX_SECONDS = 2.0  # of a call
MAX_COMPILE_SECONDS = 15.0
MEASURED_SECONDS = 0.01
MIN_SECONDS, MIN_COMPILE_SECONDS = 20e-6, 1.0
AGAIN = 2  # times that sizes around a cliff are measured again: other processes slow memory down

Point = dict[str, float]
"""n, work, seconds of a call and of compiling."""


def main() -> None:
    """Print a row for each growth; exit code 1 if one has a cliff."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "op", nargs="*", default=[*GROWTHS, *PATTERNS], help="ops to measure (default: all)"
    )
    parser.add_argument("--most", type=int, default=22, help="largest exponent of 2 of a size")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON object per row")
    arguments = parser.parse_args()
    known = {**GROWTHS, **PATTERNS}
    unknown = [name for name in arguments.op if name not in known]
    if unknown:
        parser.error(f"no growth of {', '.join(unknown)}")
    found = 0
    for name in arguments.op:
        for label, growth in known[name].items():
            row = measured(name, label, growth, arguments.most, arguments.threads)
            found += bool(row["cliffs"])
            print(json.dumps(row) if arguments.json else row_text(row), flush=True)
    sys.exit(1 if found else 0)


def measured(name: str, label: str, growth: Growth, most: int, threads: int) -> dict[str, Any]:
    """The times of a growth at each size, and its cliffs."""
    points: list[Point] = []
    ended: list[str] = []
    for exponent in range(min(most, growth.most) + 1):
        try:
            point = _point(name, growth, 1 << exponent, threads)
        except GraphcError as error:
            ended = [f"refused at {1 << exponent}: {error}"]
            break
        points.append(point)
        slow = [
            f"slow at {point['n']:.0f}: {key} {point[key]:.1f} s"
            for key, limit in (("seconds", MAX_SECONDS), ("compile", MAX_COMPILE_SECONDS))
            if point[key] > limit
        ]
        if slow:
            ended = slow
            break
    for _ in range(AGAIN):
        for n in sorted({n for cliff in cliffs(points) for n in cliff.sizes}):
            (at,) = (number for number, point in enumerate(points) if point["n"] == n)
            again = _point(name, growth, n, threads)
            points[at] = {key: min(points[at][key], again[key]) for key in again}
    return {
        "op": name,
        "grows": label,
        "points": points,
        "cliffs": [*map(str, cliffs(points)), *ended],
    }


def _point(name: str, growth: Growth, n: int, threads: int) -> Point:
    graph, arrays = growth.graph(name, n)
    elements = sum(x.size for x in arrays) + sum(
        int(np.prod(op.inputs[0].details.plain_dims)) for op in graph.outputs
    )
    work = max(elements, graph.get_gflop() * 1e9) if growth.counts_operations else elements
    start = time.process_time()
    with graphc.compile(graph, threads=threads, cache=False) as model:
        compiled = time.process_time() - start
        feeds = dict(zip((spec.name for spec in model.inputs), arrays, strict=True))
        results = [
            np.zeros(op.inputs[0].details.plain_dims, op.inputs[0].details.dtype.numpy)
            for op in graph.outputs
        ]
        clock = time.thread_time if threads == 1 else time.perf_counter
        seconds = _best(model.bind(feeds, results), clock)
    return {"n": n, "work": work, "seconds": seconds, "compile": compiled}


def _best(call: Callable[[], int], clock: Callable[[], float]) -> float:
    """The seconds of the fastest of some calls."""
    best, spent, calls = float("inf"), 0.0, 0
    while calls < 3 or (spent < MEASURED_SECONDS and calls < 1000):
        start = clock()
        call()
        taken = clock() - start
        best, spent, calls = min(best, taken), spent + taken, calls + 1
        if taken > MAX_SECONDS:
            break
    return best


@dataclass(frozen=True)
class Cliff:
    """A ratio of times per element, or of compile times, between two sizes."""

    kind: str
    ratio: float
    sizes: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.kind}: {self.ratio:.1f} times from {self.sizes[0]} to {self.sizes[1]}"


def cliffs(points: list[Point]) -> Iterator[Cliff]:
    """Return the reported cliffs in the times of a growth."""
    for number, here in enumerate(points):
        for back, kind, limit, compiled in ((1, "jump", 3, 3), (3, "run", 4, 14)):
            if number < back:
                continue
            before = points[number - back]
            sizes = (int(before["n"]), int(here["n"]))
            ratio = here["seconds"] / here["work"] * before["work"] / before["seconds"]
            if before["seconds"] > MIN_SECONDS and ratio > limit:
                yield Cliff(kind, ratio, sizes)
            ratio = here["compile"] / before["compile"]
            if here["compile"] > MIN_COMPILE_SECONDS and ratio > compiled:
                yield Cliff("compile", ratio, sizes)


def row_text(row: dict[str, Any]) -> str:
    """A row for people: nanoseconds per element at a few sizes, the longest compilation, and cliffs."""
    points = row["points"]
    shown = [points[i] for i in sorted({len(points) // 2, len(points) - 1})] if points else []
    times = "  ".join(f"{p['n']:>8.0f}: {p['seconds'] / p['work'] * 1e9:8.3f} ns" for p in shown)
    longest = max((p["compile"] for p in points), default=0.0)
    return f"{row['op']:<20} {row['grows']:<22} {times}  compile {longest:5.2f} s  {'; '.join(row['cliffs'])}"


if __name__ == "__main__":
    main()
