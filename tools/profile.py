"""Profiles a run: the time of every kernel of the fused program as it normally runs, compared with its roof."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ..base.errors import InternalError
from ..base.html_table import html_table
from ..base.records import dataclass
from ..bench.measure import interleave
from ..bench.roofline import PACKED, Roofline
from ..bench.stamp_cost import stamp_seconds
from ..driver.stages import Compilation
from ..graph_ir.ir.graph import Op
from ..graph_ir.lowering.lower_graph import kernel_bytes
from ..graph_ir.ops.convolution import Convolution
from ..graph_ir.ops.matmul import MatmulCore
from ..graph_ir.ops.matmul_nbits import MatmulNBits
from ..graph_ir.ops.winograd import WinogradConvolution
from ..graph_ir.rewriting.known_sizes import with_sizes
from ..graph_ir.schedule.problem import problem_of
from .explain import Explanation
from .stamped_program import StampedProgram

SECONDS = 0.5
FEWEST_RUNS, MAX_RUNS = 5, 2000
TRACED_RUNS, TRACED_SECONDS = 50, 0.1
ROUNDS = 5

MAX_OVERHEAD = 0.02
"""Limit on the timestamps' share of the total time: if they take more of one run, fewer runs have them."""


@dataclass(frozen=True)
class KernelTime:
    """One call of a kernel.

    `ops` are the fused graph ops, `source` those of the model they came from; `problem` is its matmuls as `graphc
    tune` names them, else the type of the result. `multiplied`: the type of the left operands of its matmuls, whose
    peak bounds it; empty if it has none. `nbytes`: every operand once. `seconds` is the median over the runs,
    `begin` (s since the program's start) and `duration` are those of the traced run. `roof` is the limiting one
    (`compute` or a memory level), `roof_seconds` the least time it allows.
    """

    node: str
    kernel: str
    ops: tuple[str, ...]
    source: tuple[str, ...]
    problem: str
    multiplied: str
    layouts: tuple[str, ...]
    schedule: str
    isa: str
    gflop: float
    nbytes: int
    seconds: float
    roof: str
    roof_seconds: float
    begin: float
    duration: float

    @property
    def of_roof(self) -> float:
        """The share of the roof that is reached."""
        return self.roof_seconds / self.seconds if self.seconds else 0.0

    def properties(self) -> list[tuple[str, str]]:
        """Return the name and text of each property that is not a time."""
        return [
            ("ops", " -> ".join(self.ops)),
            ("from", ", ".join(self.source)),
            ("problem", self.problem),
            ("layouts", "; ".join(self.layouts)),
            ("schedule", self.schedule),
        ]

    def _repr_html_(self) -> str:
        """Return the formula and schedule of the kernel as HTML, for notebooks."""
        time = f"{self.seconds * 1e6:.2f} us, {100 * self.of_roof:.0f} % of the roof ({self.roof})"
        rows = [*self.properties(), ("time", time)]
        return html_table(f"{self.node}: {self.kernel}", ("property", "value"), rows)


@dataclass(frozen=True)
class TaskTime:
    """One iteration of a parallel loop in the traced run: `thread` counts from 0, times are s since the start."""

    thread: int
    node: str
    iteration: int
    begin: float
    duration: float


@dataclass(frozen=True)
class Profile:
    """A profiled model.

    `seconds` is one whole call without stamps, `outside` the part of it outside kernels (medians); no time includes the
    stamps. `stamp_seconds` is the cost of one. One run in `stride` had stamps, so they took the share `overhead` of the
    total time. `plain_seconds` and `stamped_seconds` are calls without and with stamps, interleaved. `sizes`: those
    of dynamic dimensions, as they were in all calls.
    """

    model: str
    threads: int
    runs: int
    seconds: float
    outside: float
    overhead: float
    stride: int
    stamp_seconds: float
    plain_seconds: float
    stamped_seconds: float
    kernels: tuple[KernelTime, ...]
    roofline: Roofline
    tasks: tuple[TaskTime, ...] = field(default=(), repr=False)
    sizes: Mapping[str, int] = field(default_factory=dict)

    def peaks(self) -> dict[str, float]:
        """Return the peak (GFLOP/s) of f32 and of each other type that kernels multiply, the lowest first."""
        types = {k.multiplied for k in self.kernels if k.multiplied}
        peaks = {name: self.roofline.of_type(name).gflops for name in {"f32", *types}}
        return dict(sorted(peaks.items(), key=lambda item: item[1]))

    def busy(self) -> dict[str, float]:
        """Return the share of all threads' time that each node's kernel kept them busy in the traced run, by node.

        A kernel without parallel loops keeps one thread busy.
        """
        spent: dict[str, float] = {}
        for task in self.tasks:
            spent[task.node] = spent.get(task.node, 0.0) + task.duration
        return {
            k.node: min(spent.get(k.node, k.duration) / (self.threads * k.duration), 1.0)
            for k in self.kernels
            if k.duration > 0
        }

    def _repr_html_(self) -> str:
        """The kernels, slowest first, for notebooks."""
        rows = [
            (
                k.node, f"{k.seconds * 1e6:.2f}", f"{100 * k.seconds / self.seconds:.1f} %",
                f"{k.gflop / max(k.seconds, 1e-12):.1f}", f"{100 * k.of_roof:.0f} % {k.roof}", k.kernel,
            )
            for k in sorted(self.kernels, key=lambda k: -k.seconds)
        ]  # fmt: skip
        head = ("node", "time, us", "share", "GFLOP/s", "of roof", "kernel")
        title = f"{self.model}: {self.seconds * 1e6:.2f} us per run on {self.threads} threads"
        outside = f"{self.outside * 1e6:.2f} us ({100 * self.outside / self.seconds:.1f} %) outside of kernels"
        return html_table(title, head, rows, outside)


def profile(
    compilation: Compilation,
    inputs: Mapping[str, Any],
    roofline: Roofline,
    seconds: float = SECONDS,
) -> Profile:
    """Run a compiled model for about `seconds` on these inputs (arrays by name) and return its profile."""
    program = StampedProgram(compilation, inputs)
    try:
        contenders = {"plain": program.plain, "stamped": program.stamped}
        timing = interleave(contenders, ROUNDS, seconds / 2)
        stamp = stamp_seconds()
        share = len(program.stamps) * stamp / timing["plain"].median
        stride = max(2, math.ceil(share / MAX_OVERHEAD))
        sample = _sample(program, stride, seconds / 2 / max(timing["plain"].median, 1e-7))
        traced, records = _trace(program)
    finally:
        program.close()
    rate, stamps = sample.rate, sample.stamps
    medians = np.maximum(np.median(np.diff(stamps, axis=1) / rate, axis=0) - stamp, 0.0)
    inside = (stamps[:, -1] - stamps[:, 0]) / rate
    begins = (traced - traced[0]) / rate
    kernels = _kernels(compilation, program.sizes, roofline, medians, begins)
    return Profile(
        model=compilation.source.name,
        threads=compilation.options.threads,
        runs=len(stamps),
        seconds=float(np.median(sample.plain)),
        outside=max(float(np.median(sample.stamped - inside)) - stamp, 0.0),
        overhead=share / stride,
        stride=stride,
        stamp_seconds=stamp,
        plain_seconds=timing["plain"].median,
        stamped_seconds=timing["stamped"].median,
        kernels=kernels,
        roofline=roofline,
        tasks=_tasks(records, traced, rate, [k.node for k in kernels]),
        sizes=program.sizes,
    )


@dataclass(frozen=True)
class _Sample:
    """Seconds of calls without (`plain`) and with stamps, the stamps, and counts of the cycle counter in a second."""

    plain: np.ndarray
    stamped: np.ndarray
    stamps: np.ndarray
    rate: float


def _sample(program: StampedProgram, stride: int, runs: float) -> _Sample:
    """Run about this many times; one run in `stride` has stamps."""
    count = int(min(max(runs / stride, FEWEST_RUNS), MAX_RUNS))
    stamps = np.zeros((count, len(program.stamps)), np.int64)
    starts, stamped = np.zeros(count), np.zeros(count)
    plain = np.zeros((count, stride - 1))
    clock = time.perf_counter
    program.plain()
    program.stamped()
    for number in range(count):
        for turn in range(stride - 1):
            start = clock()
            program.plain()
            plain[number, turn] = clock() - start
        start = clock()
        program.stamped()
        stamped[number] = clock() - start
        starts[number] = start
        stamps[number] = program.stamps
    # From the first call to the last: the gap between reading clock and counter is small in comparison.
    rate = int(stamps[-1, 0] - stamps[0, 0]) / (starts[-1] - starts[0])
    return _Sample(plain, stamped, stamps, float(rate))


def _trace(program: StampedProgram) -> tuple[np.ndarray, np.ndarray]:
    """(stamps, records of iterations) of the fastest of a few runs: the least disturbed one."""
    best: tuple[np.ndarray, np.ndarray] | None = None
    end = time.perf_counter() + TRACED_SECONDS
    for _ in range(TRACED_RUNS):
        if best is not None and time.perf_counter() > end:
            break
        if program.trace is not None and program.traced is not None:
            program.trace.clear()
            program.traced()
            records = program.trace.records()
        else:
            program.stamped()
            records = np.zeros((0, 4), np.int64)
        stamps = program.stamps.copy()
        if best is None or stamps[-1] - stamps[0] < best[0][-1] - best[0][0]:
            best = stamps, records
    if best is None:
        raise InternalError("a profile needs at least one run")
    return best


def _kernels(
    compilation: Compilation,
    sizes: Mapping[str, int],
    roofline: Roofline,
    seconds: np.ndarray,
    begins: np.ndarray,
) -> tuple[KernelTime, ...]:
    facts = Explanation.of(compilation).kernels()
    nodes = {op.name: op for op in with_sizes(compilation.graph, sizes).ops}
    found = []
    for number, (fact, call) in enumerate(zip(facts, compilation.lowered.calls, strict=True)):
        nbytes = kernel_bytes(nodes[call.op_name])
        gflop = nodes[call.op_name].get_gflop() if sizes else call.gflop
        multiplied = _multiplied(nodes[call.op_name])
        roof, least = roofline.of_type(multiplied).bound(gflop, nbytes)
        found.append(
            KernelTime(
                node=call.op_name,
                kernel=call.kernel,
                ops=tuple(fact["ops"]),
                source=tuple(fact["source"]),
                problem=_problem(nodes[call.op_name]),
                multiplied=multiplied,
                layouts=tuple(fact["layouts"]),
                schedule=fact["schedule"],
                isa=compilation.target.isa,
                gflop=gflop,
                nbytes=nbytes,
                seconds=float(seconds[number]),
                roof=roof,
                roof_seconds=least,
                begin=float(begins[number]),
                duration=float(begins[number + 1] - begins[number]),
            )
        )
    return tuple(found)


def _multiplied(node: Op) -> str:
    """Return the type that the first contraction of a kernel multiplies, as `Roofline.of_type` names it, or ""."""
    contractions = (MatmulCore, Convolution, WinogradConvolution, MatmulNBits)
    found = [op for op in _body(node) if isinstance(op, contractions)]
    if not found:
        return ""
    first = found[0].inputs[0].details.dtype.name
    return PACKED if isinstance(found[0], MatmulNBits) and first == "f32" else first


def _body(node: Op) -> Sequence[Op]:
    return node.attr("graph").ops if node.kind == "fused" else [node]


def _problem(node: Op) -> str:
    """Return the matmuls of a kernel as `graphc dev kernel` writes them, or the type of its result if it has none."""
    matmuls = [problem_of(op) for op in _body(node) if isinstance(op, MatmulCore) and op.is_tuned]
    return "; ".join(matmuls) or ", ".join(str(y.details) for y in node.outputs)


def _tasks(
    records: np.ndarray, stamps: np.ndarray, rate: float, nodes: list[str]
) -> tuple[TaskTime, ...]:
    """Iterations in the order they began, each with the kernel that was running."""
    if not nodes:
        return ()
    threads = {thread: i for i, thread in enumerate(dict.fromkeys(records[:, 0].tolist()))}
    ordered = records[np.argsort(records[:, 1], kind="stable")]
    at = np.clip(np.searchsorted(stamps, ordered[:, 1], "right") - 1, 0, len(nodes) - 1)
    return tuple(
        TaskTime(
            threads[thread],
            nodes[at[i]],
            iteration,
            (begin - int(stamps[0])) / rate,
            (end - begin) / rate,
        )
        for i, (thread, begin, end, iteration) in enumerate(ordered.tolist())
    )


def trace_events(profile: Profile) -> dict[str, Any]:
    """The traced run in the format of chrome://tracing and Perfetto: kernels in row 0, iterations in a row
    per thread."""
    events: list[dict[str, Any]] = [_row_name(0, "kernels")]
    for k in profile.kernels:
        args = {
            "kernel": k.kernel, "ops": list(k.ops), "source": list(k.source),
            "gflop": k.gflop, "bytes": k.nbytes, "roof": k.roof, "multiplied": k.multiplied,
        }  # fmt: skip
        events.append(_event(k.node, "kernel", 0, k.begin, k.duration, args))
    for thread in sorted({task.thread for task in profile.tasks}):
        events.append(_row_name(thread + 1, f"thread {thread}"))
    for t in profile.tasks:
        args = {"iteration": t.iteration}
        events.append(_event(t.node, "iteration", t.thread + 1, t.begin, t.duration, args))
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def _row_name(row: int, name: str) -> dict[str, Any]:
    return {"name": "thread_name", "ph": "M", "pid": 1, "tid": row, "args": {"name": name}}


def _event(
    name: str, category: str, row: int, begin: float, duration: float, args: dict[str, Any]
) -> dict[str, Any]:
    return {
        "name": name, "cat": category, "ph": "X", "pid": 1, "tid": row,
        "ts": begin * 1e6, "dur": duration * 1e6, "args": args,
    }  # fmt: skip
