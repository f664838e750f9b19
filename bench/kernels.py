"""Single kernels for tuning by hand: compiles, times and inspects the matmul of a problem string."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..base.contraction import accumulator_of
from ..base.dtypes import F32, S32, DType, by_name
from ..base.errors import UserError
from ..base.options import CompileOptions
from ..base.records import dataclass
from ..codegen.aot import assembly
from ..driver.compiler import compile_stages
from ..driver.request import CompileRequest
from ..graph_ir.inspect.compare import difference
from ..graph_ir.ir.graph import Graph, Op
from ..graph_ir.ir.logical_tensor import LogicalTensor
from ..graph_ir.ir.schedule import Schedule
from ..graph_ir.passes import pipeline
from ..graph_ir.schedule.context import LowerContext
from ..graph_ir.schedule.register_tile import MAX_VECTORS
from ..graph_ir.schedule.spaces import space_of
from ..runtime.executor import CompiledModel
from ..targets.isa import Target
from ..targets.microkernels import microkernel
from .measure import Timing, interleave

Array = np.ndarray[Any, Any]
NOTHING = Schedule("")
_PROBLEM = re.compile(
    r"matmul (?:b([1-9]\d{0,8}))?m([1-9]\d{0,8})n([1-9]\d{0,8})k([1-9]\d{0,8}) (f64|f32|f16|bf16|[us]8xs8)"
)
MAX_BYTES = 8 << 30
OP = "matmul_core"


@dataclass(frozen=True)
class Problem:
    """Sizes and operand types of one matmul; with `batch` 1 B is a constant, otherwise both operands are inputs.

    8-bit integers have s32 results, floats their own type.
    """

    batch: int
    m: int
    n: int
    k: int
    a: DType = F32
    b: DType = F32

    @property
    def gflop(self) -> float:
        """Work of one run in 1e9 operations."""
        return 2.0 * self.batch * self.m * self.n * self.k / 1e9

    def __str__(self) -> str:
        types = str(self.a) if self.a.is_float else f"{self.a}x{self.b}"
        return f"matmul {f'b{self.batch}' if self.batch > 1 else ''}m{self.m}n{self.n}k{self.k} {types}"

    def graph(self) -> Graph:
        """Return a graph that contains only the matmul."""
        graph = Graph(str(self))
        batch = (self.batch,) if self.batch > 1 else ()
        a = graph.make_input(LogicalTensor(self.a, (*batch, self.m, self.k)), "a")
        if batch:
            b = graph.make_input(LogicalTensor(self.b, (*batch, self.k, self.n)), "b")
        else:
            values = random_values(self.b, (self.k, self.n), np.random.default_rng(0))
            b = graph.make_constant(values, "b")
        attrs = {} if self.a.is_float else {"dtype": S32}
        graph.make_output(graph.make(OP, (a, b), attrs, OP).outputs[0], "c")
        return graph


def random_values(dtype: DType, shape: Sequence[int], rng: np.random.Generator) -> Array:
    """Normal values; of integers, all there are."""
    if dtype.is_float:
        return rng.standard_normal(shape, dtype=np.float32).astype(dtype.numpy)
    low, high = (-128, 128) if dtype.is_signed else (0, 256)
    return rng.integers(low, high, shape).astype(dtype.numpy)


def parse_problem(text: str) -> Problem:
    """Read `matmul m128n768k768 f32`, or with a batch `matmul b16m128n128k64 bf16`. UserError for anything else."""
    match = _PROBLEM.fullmatch(" ".join(text.split()))
    if not match:
        raise UserError(
            "problem must look like 'matmul m128n768k768 f32' or 'matmul b8m64n64k64 f32' (or f64, f16, bf16, u8xs8, "
            f"s8xs8), got '{text}'"
        )
    *sizes, types = match.groups()
    a, *b = types.split("x")
    batch, m, n, k = (int(group or 1) for group in sizes)
    problem = Problem(batch, m, n, k, by_name(a), by_name(b[0] if b else a))
    elements = problem.m * problem.n + problem.m * problem.k + problem.n * problem.k
    if problem.batch * elements * problem.a.size > MAX_BYTES:
        raise UserError(f"problem '{problem}' needs more than {MAX_BYTES >> 30} GiB")
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


def peak_rate(problem: Problem, target: Target) -> float:
    """The peak of the operand types, as a multiple of that of f32."""
    return microkernel(problem.a, problem.b, target).rate(target)


def full_schedule(
    problem: Problem, target: Target, threads: int, requested: Schedule = NOTHING
) -> Schedule:
    """Return the schedule of a problem: requested parameters, the others from the cost model. UserError if it
    is invalid."""
    op, _ = _optimized(problem, target, threads, requested)
    assert op.schedule is not None
    return op.schedule


def sweep(problem: Problem, target: Target, threads: int) -> Iterator[Schedule]:
    """Every register tile that fits the register file, with the blocks worth trying for it."""
    for vectors in range(1, MAX_VECTORS + 1):
        panels = Schedule.of("", nv=vectors, b="panels")
        op, ctx = _optimized(problem, target, threads, panels)
        space = space_of(op, ctx)
        assert space is not None
        yield from space.swept()


def _optimized(
    problem: Problem, target: Target, threads: int, requested: Schedule
) -> tuple[Op, LowerContext]:
    """Return the matmul of a problem after all passes."""
    requested_by_op = {} if requested == NOTHING else {OP: requested}
    ctx = LowerContext(target, CompileOptions(threads), requested=requested_by_op)
    graph = problem.graph()
    pipeline.run(graph, ctx)
    return next(op for op in graph.ops if op.op_name == OP), ctx


def trial(
    problem: Problem, schedule: Schedule, target: Target, threads: int, seconds: float = 0.2
) -> Trial:
    """Compile a problem under a schedule, check it against NumPy, and time it. UserError if it is wrong."""
    graph = problem.graph()
    requested = {OP: schedule}
    compilation = compile_stages(
        CompileRequest(graph, target, CompileOptions(threads), requested=requested)
    )
    model = CompiledModel(compilation.artifact, threads)
    rng = np.random.default_rng(1)
    given = {"a": problem.a, "b": problem.b}
    arrays = {t.name: random_values(given[t.name], t.shape, rng) for t in model.inputs}
    result = model.run(None, arrays)
    found = difference(result[0], graph.evaluate(list(arrays.values()))[0])
    if not found.ok:
        raise UserError(f"kernel '{problem}' with {schedule} is wrong: {found}; use another")
    timing = interleave({"kernel": model.bind(arrays, result)}, 3, seconds)["kernel"]
    code = assembly(compilation.llvm_ir, compilation.target)
    loop, spills = inner_loop(code.splitlines())
    lanes = target.lanes(accumulator_of(problem.a, problem.b))
    columns = schedule.number("nv") * lanes
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
