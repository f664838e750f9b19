"""Sweeps of schedules: a grid of settings, `mr=4..12,kc=128,256,512`, or all that a kernel's space offers."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from ..base.errors import GraphcError, UserError
from ..base.options import CompileOptions
from ..base.records import dataclass
from ..bench.measure import Timing, interleave
from ..bench.peers import graphc_contender
from ..codegen.aot import assembly
from ..driver.request import CompileRequest
from ..graph_ir.ir.graph import Graph, Op
from ..graph_ir.ir.schedule import Parameter, Schedule
from ..graph_ir.passes import pipeline
from ..graph_ir.rewriting.known_sizes import with_sizes
from ..graph_ir.schedule.context import LowerContext
from ..graph_ir.schedule.register_tile import MAX_VECTORS
from ..graph_ir.schedule.space import ScheduleSpace
from ..graph_ir.schedule.spaces import space_of
from ..runtime.executor import CompiledModel
from ..tools.grade import rank_correlation
from ..tools.hot_loop.find import Loop, hot_loop
from .kinds.matmul import NODE
from .problem import Problem
from .trial import OURS, ROUNDS, Bench, build, check

MAX_POINTS = 2000
POINT_SECONDS = 0.03
BEST = 5
"""Points that are measured again, interleaved."""
_VALUE = re.compile(r"(\d{1,6})\.\.(\d{1,6})(?:\.\.(\d{1,6}))?|\d{1,6}|[a-z][\w-]*")

OnPoint = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Point:
    """A schedule of a sweep: its `settings` as requested, and what came of it.

    `predicted`: cycles by the cost model, None where there is none. `refused`: why the kernel cannot
    run with it; the rest is then empty.
    """

    settings: Mapping[str, Parameter]
    schedule: str = ""
    timing: Timing | None = None
    predicted: float | None = None
    loop: Loop = Loop()
    refused: str = ""

    @property
    def seconds(self) -> float:
        """Return the median time, infinite if it was refused."""
        return self.timing.median if self.timing else math.inf


def read_grid(text: str) -> dict[str, list[Parameter]]:
    """Read `mr=4..12,kc=128,256,512`: values of settings, ranges with both ends and a step, `4..12..4`. May raise
    UserError."""
    found: dict[str, list[Parameter]] = {}
    name = ""
    for part in re.split(r"[,\s]+", text.strip()):
        key, equals, value = part.rpartition("=")
        name = key if equals else name
        match = _VALUE.fullmatch(value)
        if not name or not match:
            raise UserError(
                f"a sweep must be settings with their values, as mr=4..12,kc=128,256, got '{part}' in '{text}'"
            )
        low, high, step = match.groups()
        values: Sequence[Parameter] = [int(value) if value.isdigit() else value]
        if low:
            values = range(int(low), int(high) + 1, max(int(step or 1), 1))
        found.setdefault(name, []).extend(values)
    if math.prod(map(len, found.values())) > MAX_POINTS:
        raise UserError(
            f"a sweep has at most {MAX_POINTS} points, '{text}' has more; ask for fewer"
        )
    return found


def points_of(grid: Mapping[str, Sequence[Parameter]]) -> list[dict[str, Parameter]]:
    """Return the settings of every point, the last name varying fastest."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def sweep(
    problem: Problem, bench: Bench, points: Sequence[Mapping[str, Parameter]], report: OnPoint
) -> list[Point]:
    """Build, check and time every point, then the best again, interleaved. They come in the order given."""
    found = []
    report("sweep", 0, len(points))
    for settings in points:
        found.append(_try(problem, bench, settings))
        report("sweep", len(found), len(points))
    return _again(problem, bench, found)


def offered(problem: Problem, bench: Bench) -> list[dict[str, Parameter]]:
    """Return the settings of all schedules of a problem's kernel that are worth measuring. Raise UserError if it has
    none."""
    found: dict[str, dict[str, Parameter]] = {}
    for requested in _panels(problem):
        wanted = {} if requested is None else {problem.node: requested}
        options = CompileOptions(bench.threads)
        request = CompileRequest(
            problem.model, bench.target, options, problem.specs, requested=wanted
        )
        graph, ctx = request.source.copy(), request.context
        pipeline.run(graph, ctx)
        _, space = kernel_of(problem, graph, ctx)
        for schedule in space.swept():
            settings = space.point(schedule).settings
            found.setdefault(str(sorted(settings.items())), settings)
    return [*found.values()]


def _panels(problem: Problem) -> Iterator[Schedule | None]:
    """Yield requests for each width of the panels that a matmul's weights are packed in, or one of nothing."""
    if problem.node != NODE:
        yield None
        return
    for vectors in range(1, MAX_VECTORS + 1):
        yield Schedule.of("", nv=vectors, b="panels")


def kernel_of(problem: Problem, graph: Graph, ctx: LowerContext) -> tuple[Op, ScheduleSpace]:
    """Return the kernel that does most of the work in an optimized graph, and its schedules. Raise UserError if none
    has any."""
    spaces = [(op, space) for op in graph.ops if (space := space_of(op, ctx)) is not None]
    if not spaces:
        raise UserError(f"problem '{problem.text}' has one way to run, and takes no schedule")
    return max(spaces, key=lambda pair: pair[0].get_gflop())


def _try(problem: Problem, bench: Bench, settings: Mapping[str, Parameter]) -> Point:
    try:
        compilation = build(problem, bench, Schedule.of("", **settings))
        op, space = kernel_of(problem, compilation.graph, compilation.request.context)
    except GraphcError as error:
        return Point(settings, refused=_short(str(error)))
    assert op.schedule is not None
    loop = hot_loop(assembly(compilation.llvm_ir, bench.target), bench.target)
    with CompiledModel(compilation.artifact, bench.threads) as model:
        arrays = problem.arrays(problem.sizes[-1])
        ours = graphc_contender(model, arrays)
        check(problem.label, with_sizes(compilation.source, problem.sizes[-1]), arrays, ours)
        timing = interleave({OURS: ours.run}, 3, POINT_SECONDS)[OURS]
    predicted = space.cycles(op.schedule)
    return Point(settings, str(op.schedule), timing, predicted, loop)


def _again(problem: Problem, bench: Bench, points: list[Point]) -> list[Point]:
    """Time the best points in one process and in turn: those times compare, and replace the first ones."""
    best = sorted((p for p in points if not p.refused), key=lambda p: p.seconds)[:BEST]
    if len(best) < 2:
        return points
    arrays = problem.arrays(problem.sizes[-1])
    with ExitStack() as models:
        runs = {}
        for point in best:
            compilation = build(problem, bench, Schedule.of("", **point.settings))
            model = models.enter_context(CompiledModel(compilation.artifact, bench.threads))
            runs[point.schedule] = graphc_contender(model, arrays).run
        timings = interleave(runs, ROUNDS, bench.seconds)
    return [
        replace(point, timing=timings.get(point.schedule, point.timing))
        if point.schedule in runs
        else point
        for point in points
    ]


def correlation(points: Sequence[Point]) -> float | None:
    """Return the rank correlation of predicted and measured times; None for fewer than three points."""
    known = [(p.predicted, p.seconds) for p in points if p.predicted is not None and p.timing]
    if len(known) < 3:
        return None
    predicted, seconds = zip(*known, strict=True)
    found = rank_correlation(predicted, seconds)
    return None if math.isnan(found) else found


def _short(message: str) -> str:
    """Return the rule of a message about a schedule, without the list of all settings."""
    return message.partition(", got '")[0].partition(": ")[2] or message
