"""Single kernels for tuning by hand: compiles, times and inspects the product of a problem string."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..base.contraction import f32_kernel
from ..base.dtypes import F32
from ..base.errors import UserError
from ..base.options import CompileOptions
from ..base.target import GemmTile, Target
from ..codegen.aot import assembly
from ..driver.compiler import compile_stages
from ..driver.request import CompileRequest
from ..graph_ir.inspect.compare import difference
from ..graph_ir.ir.graph import Graph
from ..graph_ir.ir.logical_tensor import LogicalTensor
from ..graph_ir.ir.schedule import Schedule
from ..graph_ir.ops.matmul import MatmulCore
from ..graph_ir.passes import pipeline
from ..graph_ir.schedule.context import LowerContext
from ..graph_ir.schedule.matmul import matmul_schedule
from ..graph_ir.schedule.matmul_tile import candidate_blockings
from ..graph_ir.schedule.product import Product
from ..runtime.executor import CompiledModel
from .measure import Timing, interleave

_PROBLEM = re.compile(
    r"matmul (?:b([1-9]\d{0,8}))?m([1-9]\d{0,8})n([1-9]\d{0,8})k([1-9]\d{0,8}) f32"
)
MOST_BYTES = 8 << 30


@dataclass(frozen=True)
class Problem:
    """Sizes of one f32 product; with `batch` 1 the right-hand side is a constant, else both sides are inputs."""

    batch: int
    m: int
    n: int
    k: int

    @property
    def gflop(self) -> float:
        """Work of one run in 1e9 operations."""
        return 2.0 * self.batch * self.m * self.n * self.k / 1e9

    def __str__(self) -> str:
        return f"matmul {f'b{self.batch}' if self.batch > 1 else ''}m{self.m}n{self.n}k{self.k} f32"

    def graph(self) -> Graph:
        """A graph of the product alone."""
        rng = np.random.default_rng(0)
        graph = Graph(str(self))
        batch = (self.batch,) if self.batch > 1 else ()
        a = graph.make_input(LogicalTensor(F32, (*batch, self.m, self.k)), "a")
        if batch:
            b = graph.make_input(LogicalTensor(F32, (*batch, self.k, self.n)), "b")
        else:
            b = graph.make_constant(rng.standard_normal((self.k, self.n), dtype=np.float32), "b")
        graph.make_output(graph.make("matmul_core", (a, b)).outputs[0], "c")
        return graph


def parse_problem(text: str) -> Problem:
    """Read `matmul m128n768k768 f32`, or with a batch `matmul b16m128n128k64 f32`. UserError for anything else."""
    match = _PROBLEM.fullmatch(" ".join(text.split()))
    if not match:
        raise UserError(
            f"problem must look like 'matmul m128n768k768 f32' or 'matmul b8m64n64k64 f32', got '{text}'"
        )
    problem = Problem(*(int(group or 1) for group in match.groups()))
    elements = problem.m * problem.n + problem.m * problem.k + problem.n * problem.k
    if problem.batch * elements * 4 > MOST_BYTES:
        raise UserError(f"problem '{problem}' needs more than {MOST_BYTES >> 30} GiB")
    return problem


@dataclass(frozen=True)
class Trial:
    """One schedule of a problem, timed. `spills` counts vector registers saved to the stack in its innermost loop."""

    schedule: Schedule
    columns: int
    timing: Timing
    gflops: float
    spills: int
    inner_loop: tuple[str, ...]


def default_schedule(problem: Problem, target: Target, threads: int) -> Schedule:
    """What the cost model picks for a problem, but for the layout."""
    graph = problem.graph()
    pipeline.run(graph, LowerContext(target, CompileOptions(threads)))
    schedule = next(op.schedule for op in graph.ops if isinstance(op, MatmulCore))
    assert schedule is not None
    return _anywhere(schedule)


def _anywhere(schedule: Schedule) -> Schedule:
    """A schedule that does not say where B lies."""
    return Schedule(schedule.algorithm, tuple(x for x in schedule.parameters if x[0] != "b"))


def override(schedule: Schedule, settings: Mapping[str, int], target: Target) -> Schedule:
    """A schedule with mr, nr, mc, kc or ng set by hand. UserError for sizes the template cannot run."""
    lanes = target.lanes(F32)
    unknown = sorted(set(settings) - {"mr", "nr", "mc", "kc", "ng"})
    if unknown:
        raise UserError(f"--set knows mr, nr, mc, kc and ng, got '{unknown[0]}'")
    wrong = next((name for name, value in settings.items() if value < 1), None)
    if wrong:
        raise UserError(f"--set {wrong} must be at least 1, got {settings[wrong]}")
    changes = {name: value for name, value in settings.items() if name != "nr"}
    if "nr" in settings:
        if settings["nr"] % lanes:
            raise UserError(
                f"--set nr must be a multiple of {lanes} on {target.isa}, got {settings['nr']}"
            )
        changes["nv"] = settings["nr"] // lanes
    return schedule.replaced(**changes)


def sweep(problem: Problem, target: Target, threads: int) -> Iterator[Schedule]:
    """Every register tile that fits the register file, with the blocks worth trying for it."""
    lanes, registers, kernel = target.lanes(F32), target.table.registers, f32_kernel(target)
    product = Product(problem.batch, problem.m, problem.n, problem.k, kernel, target, threads)
    for rows, vectors in itertools.product(range(1, 29), range(1, 7)):
        fits = registers // 2 <= rows * vectors <= registers - vectors - 1
        if fits and (vectors - 1) * lanes < problem.n and rows < problem.m + 4:
            tile = GemmTile(rows, vectors)
            for blocking in candidate_blockings(product, tile)[:6]:
                yield _anywhere(matmul_schedule(blocking, True, product.kernel))


def trial(
    problem: Problem, schedule: Schedule, target: Target, threads: int, seconds: float = 0.2
) -> Trial:
    """Compile a problem under a schedule, check it against NumPy, and time it. UserError if it is wrong."""
    graph = problem.graph()
    asked = {"matmul_core": schedule}
    compilation = compile_stages(
        CompileRequest(graph, target, CompileOptions(threads), asked=asked)
    )
    model = CompiledModel(compilation.artifact, threads)
    rng = np.random.default_rng(1)
    arrays = {t.name: rng.standard_normal(t.shape, dtype=np.float32) for t in model.inputs}
    result = model.run(None, arrays)
    found = difference(result[0], graph.evaluate(list(arrays.values()))[0])
    if not found.ok:
        raise UserError(f"kernel '{problem}' with {schedule} is wrong: {found}")
    timing = interleave({"kernel": model.bind(arrays, result)}, 3, seconds)["kernel"]
    code = assembly(compilation.llvm_ir, compilation.target)
    loop, spills = inner_loop(code.splitlines())
    columns = schedule.number("nv") * target.lanes(F32)
    return Trial(schedule, columns, timing, problem.gflop / timing.median, spills, loop)


def inner_loop(lines: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """(instructions of the assembly loop with the most multiply-adds, vector stores to the stack in it)."""
    best: tuple[str, ...] = ()
    most = 0
    for block in _loops(lines):
        count = sum("vfmadd" in line or "mulps" in line for line in block)
        if count > most:
            best, most = block, count
    return best, sum(bool(_SPILL.search(line)) for line in best)


_LABEL = re.compile(r"^(\.L\w+):")
_JUMP = re.compile(r"^\s+j\w+\s+(\.L\w+)")
_SPILL = re.compile(r"\sv?mov[au]p[sd]\s+%[xyz]mm\d+, -?\d*\(%r[sb]p\)")


def _loops(lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Runs of lines from a label to the first jump back to it, with no other label inside."""
    start: tuple[str, int] | None = None
    for number, line in enumerate(lines):
        label, jump = _LABEL.match(line), _JUMP.match(line)
        if label:
            start = (label[1], number)
        elif jump and start and jump[1] == start[0]:
            yield tuple(lines[start[1] : number + 1])
            start = None
