"""Measurements of a node-by-node run, and the table it prints, in the columns of TVM's debug executor."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from datetime import datetime

from ..base.records import dataclass

COLUMNS = (
    *("Node Name", "Ops", "Time(us)", "Time(%)", "Start Time", "End Time"),
    *("Shape", "Inputs", "Outputs"),
)


@dataclass(frozen=True)
class NodeTime:
    """The time of one node.

    `seconds` is the median of `samples`; `begin` and `end` are the wall clock (seconds since 1970) of the first
    measured call's start and the last one's end.
    """

    seconds: float
    begin: float
    end: float
    samples: tuple[float, ...]


@dataclass(frozen=True)
class NodeRow:
    """One node that ran: its name, the kernel it ran as, its output's plain shape, and its time."""

    name: str
    kernel: str
    shape: tuple[int, ...]
    inputs: int
    outputs: int
    time: NodeTime


def measure(call: Callable[[], object], warmup: int, repeats: int) -> NodeTime:
    """Time `call`: `warmup` calls that do not count, then `repeats` (at least 1) that do."""
    for _ in range(warmup):
        call()
    clock = time.perf_counter
    samples = []
    begin = time.time()
    for _ in range(max(repeats, 1)):
        start = clock()
        call()
        samples.append(clock() - start)
    return NodeTime(statistics.median(samples), begin, time.time(), tuple(samples))


def means(call: Callable[[], object], number: int, repeat: int) -> tuple[float, ...]:
    """Seconds that `call` takes: `repeat` means of `number` calls each (at least 1)."""
    found = []
    for _ in range(repeat):
        start = time.perf_counter()
        for _ in range(max(number, 1)):
            call()
        found.append((time.perf_counter() - start) / max(number, 1))
    return tuple(found)


def no_time() -> NodeTime:
    """Return the time of a node without code."""
    now = time.time()
    return NodeTime(0.0, now, now, (0.0,))


def node_table(rows: Sequence[NodeRow]) -> str:
    """The rows as text, in order: a line of headers, a line of dashes, a line per node, columns two blanks apart."""
    total = sum(row.time.seconds for row in rows)
    cells = [COLUMNS, tuple("-" * len(heading) for heading in COLUMNS)]
    cells += [_cells(row, total) for row in rows]
    widths = [max(len(line[i]) for line in cells) + 2 for i in range(len(COLUMNS))]
    padded = (
        "".join(text.ljust(width) for text, width in zip(line, widths, strict=True))
        for line in cells
    )
    return "\n".join(line.rstrip() for line in padded)


def _cells(row: NodeRow, total: float) -> tuple[str, ...]:
    share = 100 * row.time.seconds / total if total else 0.0
    return (
        *(row.name, row.kernel, str(round(row.time.seconds * 1e6, 3)), str(round(share, 3))),
        *(_clock(row.time.begin), _clock(row.time.end)),
        *(str(row.shape), str(row.inputs), str(row.outputs)),
    )


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%H:%M:%S.%f")
