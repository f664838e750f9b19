"""Finds the pass that went wrong by running prefixes of both pipelines in the interpreters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.dims import evaluate
from ..base.errors import GraphcError
from ..base.records import dataclass
from ..graph_ir.ir.graph import Array, Graph, Op
from ..graph_ir.lowering.lower_graph import LoweredModel, lower_graph
from ..graph_ir.lowering.registry import get_func
from ..graph_ir.passes import pipeline as graph_pipeline
from ..graph_ir.passes.plan_memory import plan_memory
from ..graph_ir.rewriting.decisions import log_of
from ..graph_ir.rewriting.known_sizes import with_sizes
from ..graph_ir.schedule.context import LowerContext
from ..graph_ir.schedule.workspaces import workspace_of
from ..tensor_ir import interpreter
from ..tensor_ir import pipeline as loop_pipeline
from ..tensor_ir.nodes import Module
from .error_bound import Error, Expected, expected_outputs, walk_expected, worst_error
from .sized_model import sized_model, sizes_of_call
from .submodel import cut_rows, node_graph, with_rows

MAX_GFLOP = 0.02
"""Kernels with more work are not interpreted: that would take minutes."""

QUICK_GFLOP = 2e-4
"""Work that the interpreter does in about a second."""

FEW_ROWS = 2


@dataclass(frozen=True)
class Blame:
    """The culprit: the stage, the pass (or `""` for the kernel's code), the op, and how it was found."""

    stage: str
    culprit: str
    op: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Prefix:
    """The state after some passes: their number, the last one's name, and the worst error of the results."""

    number: int
    name: str
    error: Error


def blame_kernel(
    node: Op, inputs: Sequence[Array], expected: Sequence[Expected], ctx: LowerContext
) -> Blame:
    """Interpret a node's Tensor IR as built by its template and after each pass, to find the first wrong stage."""
    if node.get_gflop() > MAX_GFLOP:
        note = f"not interpreted: {node.get_gflop():.3g} GFLOP are too many"
        return Blame("kernel", "", node.name, (note,))
    last = "the template"
    for prefix in kernel_prefixes(node, inputs, expected, ctx):
        if not prefix.error.ok:
            stage = "lowering" if prefix.number == 0 else "loop pass"
            culprit = _template_name(node) if prefix.number == 0 else prefix.name
            return Blame(
                stage, culprit, node.name, (f"right after {last}, wrong after {prefix.name}",)
            )
        last = prefix.name
    note = "the Tensor IR is right when interpreted after every pass: its code is wrong"
    return Blame("code generation", "", node.name, (note,))


def kernel_prefixes(
    node: Op, inputs: Sequence[Array], expected: Sequence[Expected], ctx: LowerContext
) -> Iterator[Prefix]:
    """Interpret a node's kernel as lowered (number 0) and after each pass over Tensor IR."""
    module, sections = _lowered_alone(node, ctx)
    yield from _prefixes(
        module, ctx, lambda stage: _interpreted(stage, node, inputs, expected, sections)
    )


def _prefixes(
    module: Module, ctx: LowerContext, judge: Callable[[Module], Error]
) -> Iterator[Prefix]:
    """Judge a program as lowered, and after each pass over Tensor IR that changes it."""
    yield Prefix(0, "lowering", judge(module))
    for number, one in enumerate(loop_pipeline.PASSES, start=1):
        before, module = module, one(module, ctx.target)
        if module is not before:
            yield Prefix(number, one.__name__, judge(module))


def _lowered_alone(node: Op, ctx: LowerContext) -> tuple[Module, list[Array]]:
    """A node's function and its arguments after the operands, which functions called by a control op share."""
    if node.kind != "control":
        functions = get_func(node, ctx).functions
        workspace = [np.zeros(x.plain_dims, x.dtype.numpy) for x in workspace_of(node, ctx)]
        return Module(functions, functions[0].name), workspace
    graph = node_graph(node)
    plan_memory(graph, ctx)
    lowered = lower_graph(graph, ctx)
    constants = np.frombuffer(lowered.constants, np.uint8).copy()
    return lowered.module, [constants, np.zeros(lowered.arena_bytes, np.uint8)]


def _interpreted(
    module: Module,
    node: Op,
    inputs: Sequence[Array],
    expected: Sequence[Expected],
    sections: Sequence[Array],
) -> Error:
    operands = list(dict.fromkeys(node.inputs))
    arrays = [
        np.ascontiguousarray(x.details.format.pack(a))
        for x, a in zip(operands, inputs, strict=True)
    ]
    details = [y.details for y in node.outputs]
    results = [np.zeros(d.physical_dims, d.dtype.numpy) for d in details]
    return _error_of(
        module,
        [*arrays, *results, *sections],
        lambda: worst_error(
            expected,
            [
                np.asarray(d.format.unpack(r, d.plain_dims))
                for d, r in zip(details, results, strict=True)
            ],
        ),
    )


def _error_of(module: Module, arguments: Sequence[Any], judge: Callable[[], Error]) -> Error:
    """Interpret a program, then judge its results; what is out of bounds or undefined counts as the largest error."""
    try:
        interpreter.run(module, module.entry, arguments)
    except GraphcError:
        return Error(float("inf"), 0.0, float("inf"), 0)
    return judge()


def _template_name(node: Op) -> str:
    return f"the template of {node.op_name} '{node.name}'"


def graph_after(source: Graph, ctx: LowerContext, count: int) -> Graph:
    """A copy of the model after the first `count` passes."""
    graph = source.copy()
    graph_pipeline.run(graph, ctx, first=count)
    return graph


def graph_prefixes(source: Graph, ctx: LowerContext, inputs: Sequence[Array]) -> Iterator[Prefix]:
    """The references of the graph after each pass that changes it, against those of the model as read."""
    expected = expected_outputs(_sized(source, inputs), inputs)
    graph = source.copy()
    states: list[tuple[int, str, Error]] = []

    def see(number: int, name: str, stage: Graph, changed: bool) -> None:
        if changed:
            states.append((number, name, _worst(stage, inputs, expected)))

    graph_pipeline.run(graph, ctx, see)
    for number, name, error in states:
        yield Prefix(number, name, error)


def blame_graph_pass(source: Graph, ctx: LowerContext, inputs: Sequence[Array]) -> Blame | None:
    """Bisect for the first graph pass that changes the meaning; None if there is none."""
    expected = expected_outputs(_sized(source, inputs), inputs)

    def wrong(count: int) -> bool:
        try:
            return not _worst(graph_after(source, ctx, count), inputs, expected).ok
        except GraphcError:
            return True

    low, high = 0, len(graph_pipeline.steps())
    if not wrong(high):
        return None
    high = first_wrong(low, high, wrong)
    name = graph_pipeline.steps()[high - 1][0].__name__
    op, notes = _touched(source, ctx, high, inputs)
    return Blame(
        "graph pass", name, op, (f"right after {high - 1} passes, wrong after {name}", *notes)
    )


def first_wrong(low: int, high: int, wrong: Callable[[int], bool]) -> int:
    """The least number above `low` (which is right) that is wrong, given that `high` is."""
    while high - low > 1:
        middle = (low + high) // 2
        if wrong(middle):
            high = middle
        else:
            low = middle
    return high


def _sized(graph: Graph, inputs: Sequence[Array]) -> Graph:
    """Return the graph with its dynamic sizes replaced by those of these inputs."""
    return sized_model(graph, {op.name: x for op, x in zip(graph.inputs, inputs, strict=True)})


def _worst(graph: Graph, inputs: Sequence[Array], expected: Sequence[Expected]) -> Error:
    with np.errstate(all="ignore"):
        results = _sized(graph, inputs).evaluate(list(inputs))
    return worst_error(expected, [np.asarray(r) for r in results])


def _touched(
    source: Graph, ctx: LowerContext, count: int, inputs: Sequence[Array]
) -> tuple[str, list[str]]:
    """The first op whose value the pass changed, and the pass's decisions about it (or all its decisions)."""
    try:
        before, after = graph_after(source, ctx, count - 1), graph_after(source, ctx, count)
    except GraphcError as error:
        return "", [str(error)]
    known = {
        y.name: expected
        for _, pairs in walk_expected(_sized(before, inputs), inputs)
        for y, expected in pairs
    }
    op = ""
    with np.errstate(all="ignore"):
        for one, value in _sized(after, inputs).walk_reference(list(inputs)):
            name = one.inputs[0].name if one.is_output else one.name
            source_name = name.removesuffix(".fused")
            expected = known.get(name) or known.get(source_name)
            if expected is not None and not expected.error(np.asarray(value)).ok:
                op = _replaced_before(source_name, before, after)
                break
    decisions = log_of(after).of_stage(count)
    changed = [name for name in _names(after) if name not in set(_names(before))]
    about = [d for d in decisions if op in (*d.subjects, *d.results)] or decisions
    notes = [f"{d.pass_name}: {d}" for d in about[:5]]
    stage = log_of(after).stages[-1]
    for verb, names in (("removed", stage.removed), ("added", stage.added)):
        if names:
            notes.append(f"the pass {verb} {', '.join(names[:8])}")
    return op or (changed[0] if changed else ""), notes


def _replaced_before(name: str, before: Graph, after: Graph) -> str:
    """The op read by `name` that the pass replaced, if there is one: its name no longer exists."""
    reads = [x.producer_owner.name for op in before.ops if op.name == name for x in op.inputs]
    gone = [read for read in reads if read not in set(_names(after))]
    return gone[0] if gone else name


def _names(graph: Graph) -> list[str]:
    return [op.name for op in graph.ops]


def program_prefixes(source: Graph, ctx: LowerContext, inputs: Sequence[Array]) -> Iterator[Prefix]:
    """The whole lowered program, interpreted as lowered (number 0) and after each pass over Tensor IR.

    A model that would take more than about a second runs on fewer rows if possible; a larger one is skipped.
    """
    fed = {op.name: x for op, x in zip(source.inputs, inputs, strict=True)}
    sizes = sizes_of_call(source, fed)
    sized = with_sizes(source, sizes)
    is_long = sized.get_gflop() > QUICK_GFLOP and not sizes
    small = with_rows(source, FEW_ROWS) if is_long else None
    if small is not None:
        source, inputs = small, list(cut_rows(small, fed).values())
        sized = source
    if sized.get_gflop() > MAX_GFLOP:
        return
    expected = expected_outputs(sized, inputs)
    graph = source.copy()
    graph_pipeline.run(graph, ctx)
    lowered = lower_graph(graph, ctx)
    yield from _prefixes(
        lowered.module,
        ctx,
        lambda stage: _program_error(stage, lowered, inputs, sizes, expected),
    )


def _program_error(
    module: Module,
    lowered: LoweredModel,
    inputs: Sequence[Array],
    sizes: Mapping[str, int],
    expected: Sequence[Expected],
) -> Error:
    results = [np.zeros(e.value.shape, e.value.dtype) for e in expected]
    constants = np.frombuffer(lowered.constants, np.uint8).copy()
    arena = np.zeros(evaluate(lowered.arena_bytes, sizes), np.uint8)
    fed = [np.ascontiguousarray(x) for x in inputs]
    arguments = [*fed, *results, constants, arena, *sizes.values()]
    return _error_of(module, arguments, lambda: worst_error(expected, results))
