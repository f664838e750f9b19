"""Builds a problem, checks it against NumPy, and times it beside other engines and the roofs of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..base.durations import shown_time
from ..base.errors import UserError
from ..base.html_table import html_table
from ..base.options import CompileOptions
from ..base.records import dataclass
from ..base.size_text import listed
from ..bench.counters import Counted, count
from ..bench.engines import Roof, Row, timed_row
from ..bench.peers import Contender, RefusedModel, Session, gathered, graphc_contender, load_peer
from ..bench.roofline import Roofline, roofline
from ..driver.compiler import compile_stages
from ..driver.request import CompileRequest
from ..driver.schedule_functions import with_functions
from ..driver.stages import Compilation
from ..extension.kernels import UserKernel
from ..frontend import load
from ..graph_ir.inspect.compare import difference
from ..graph_ir.ir.graph import Graph
from ..graph_ir.ir.schedule import Schedule
from ..graph_ir.nest.script import Operation
from ..graph_ir.rewriting.known_sizes import with_sizes
from ..runtime.executor import CompiledModel
from ..targets.isa import Target
from ..tools.hot_loop.verdict import Verdict, verdicts
from ..tools.profile import KernelTime, profile
from .problem import Problem
from .program import Array

ROUNDS = 5
COUNTED_RUNS = 20
OURS = "graphc"


@dataclass(frozen=True)
class Bench:
    """The target and the engines of a measurement: `seconds` for each size, of all engines together."""

    target: Target
    threads: int
    peers: Sequence[str] = ()
    seconds: float = 0.5

    def roofs(self, problem: Problem) -> Roofline:
        """Return the roofs of the type that a problem multiplies."""
        return roofline(self.target, self.threads).of_type(problem.multiplied)


@dataclass(frozen=True)
class Result:
    """A problem with its kernels, and a row for each choice of sizes. `schedules`: kernel -> the text that ran."""

    problem: Problem
    compilation: Compilation
    rows: Sequence[Row]
    kernels: Sequence[KernelTime]

    def verdicts(self, bench: Bench) -> dict[str, Verdict]:
        """Return what bounds each kernel, by name."""
        roofs = roofline(bench.target, bench.threads)
        return verdicts(self.compilation, self.kernels, roofs)

    def counted(self, bench: Bench) -> Counted:
        """Return what hardware counters count in one thread that runs the program COUNTED_RUNS times."""
        arrays = self.problem.arrays(self.problem.sizes[-1])
        with CompiledModel(self.compilation.artifact, 1) as model:
            return count(graphc_contender(model, arrays).run, COUNTED_RUNS)

    def _repr_html_(self) -> str:
        """Return the engines at each choice of sizes, for notebooks."""
        cells = [
            (
                listed(row.sizes),
                engine, shown_time(timing.median), f"{timing.spread:.0%}",
                f"{row.gflop / timing.median:.1f}", f"{row.roof_seconds / timing.median:.0%} of {row.roof_name}",
            )
            for row in self.rows
            for engine, timing in row.timings.items()
        ]  # fmt: skip
        return html_table(
            self.problem.text, ("sizes", "engine", "time", "+-", "Gop/s", "roof"), cells
        )


How = Schedule | Operation | UserKernel | None
"""A way to run a problem: under a schedule or a function that makes one, by a kernel of user code, or as compiled."""


def build(problem: Problem, bench: Bench, schedule: How = None) -> Compilation:
    """Compile a problem in some way. Raise UserError if it cannot run so."""
    if schedule is not None and not problem.node:
        raise UserError(f"problem '{problem.text}' has no op that takes a schedule")
    requested = {problem.node: schedule} if isinstance(schedule, Schedule) else {}
    options = CompileOptions(bench.threads)
    request = CompileRequest(
        problem.model, bench.target, options, problem.specs, requested=requested
    )
    if isinstance(schedule, UserKernel):
        request = replace(request, lowerings={problem.node: schedule})
    elif schedule is not None and not isinstance(schedule, Schedule):
        request = with_functions(request, {problem.node: schedule})
    return compile_stages(request)


def source_graph(problem: Problem, sizes: Mapping[str, int]) -> Graph:
    """Return a problem as read, at these sizes of its dynamic dimensions: its NumPy references say what is right."""
    return with_sizes(load(problem.model, problem.specs), sizes)


def measure(problem: Problem, bench: Bench, schedule: How = None) -> Result:
    """Build, check and time a problem. Raise UserError if a result is wrong: then nothing is timed."""
    compilation = build(problem, bench, schedule)
    sessions, refused = gathered(bench.peers, lambda name: _session(name, problem, bench))
    with CompiledModel(compilation.artifact, bench.threads) as model:
        rows = [
            _measured(problem, bench, compilation, model, sessions, refused, sizes)
            for sizes in problem.sizes
        ]
    arrays = problem.arrays(problem.sizes[-1])
    kernels = profile(compilation, arrays, bench.roofs(problem), bench.seconds / 2).kernels
    return Result(problem, compilation, rows, kernels)


def _session(name: str, problem: Problem, bench: Bench) -> Session:
    if not isinstance(problem.model, bytes):
        raise RefusedModel("other engines do not read this problem")
    return load_peer(name, problem.model, bench.threads)


def _measured(
    problem: Problem,
    bench: Bench,
    compilation: Compilation,
    model: CompiledModel,
    sessions: Mapping[str, Session],
    refused: Mapping[str, str],
    sizes: Mapping[str, int],
) -> Row:
    arrays = problem.arrays(sizes)
    ours = graphc_contender(model, arrays)
    check(problem.label, with_sizes(compilation.source, sizes), arrays, ours)
    peers, refusals = gathered(sessions, lambda name: sessions[name](arrays))
    contenders = [ours, *peers.values()]
    nbytes = sum(array.nbytes for array in (*arrays.values(), *ours.results()))
    nbytes += len(compilation.artifact.constants)
    roof = Roof(*bench.roofs(problem).bound(problem.gop(sizes), nbytes))
    row = timed_row(problem.text, contenders, ROUNDS, bench.seconds)
    return replace(
        row, gflop=problem.gop(sizes), refused={**refused, **refusals}, roof=roof, sizes=sizes, nbytes=nbytes
    )  # fmt: skip


def check(label: str, graph: Graph, arrays: Mapping[str, Array], ours: Contender) -> None:
    """Raise UserError if results differ from those of the ops' NumPy references: a time would say nothing."""
    expected = graph.evaluate([*arrays.values()])
    for result, wanted in zip(ours.results(), expected, strict=True):
        found = difference(result, wanted)
        if not found.ok:
            raise UserError(f"{label} gives wrong results: {found}; its time would say nothing")
