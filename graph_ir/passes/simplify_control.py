"""Simplify control flow: inline known branches and short loops of known length, and move constants inside.

before   %i = constant 1   %y = case(%i, %x, %w){%a, %b}      with %w a constant
after    the ops of %b on %x and %w
before   %n, %s, %v = while(%n0, %s0, %v0){%c, %d}            where %d returns %v unchanged, %s is unused
after    %n = while(%n0, %v0){%c, %d}, with %v0 loop-invariant (moved inside if it is constant)
Requires: topological order, plain layouts. Ensures: topological order; a subgraph has no input that is constant
outside, or that none of the op's subgraphs reads.

A loop is unrolled when its length follows from constants and the copies are few (`graph_ir/rewriting/trip_count.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...base.records import dataclass
from ..ir.graph import Graph, GraphTensor
from ..ops.control import Case, ControlOp, While
from ..rewriting.decisions import record
from ..rewriting.subgraph import Argument, inline, needed_inputs, with_arguments
from ..rewriting.trip_count import short_trip_count
from ..rewriting.values import constant_value
from ..schedule.context import LowerContext

_SMALLER = (
    "constants move inside; what is not read, or given twice, or never changes is not passed on"
)


def simplify_control(graph: Graph, ctx: LowerContext) -> bool:
    """Apply the rules until none fits."""
    pending = [op for op in graph.ops if isinstance(op, ControlOp)]
    changed = False
    while pending:
        op = pending.pop()
        count = len(graph.ops)
        found = _replacement(graph, op)
        if found is None:
            continue
        changed = True
        made = graph.ops[count:]
        for old, new in zip(op.outputs, found.results, strict=True):
            if new is not None:
                old.replace_uses(new)
        graph.remove([op])
        pending.extend(made_op for made_op in made if isinstance(made_op, ControlOp))
        names = [part.name for part in made if not part.is_constant]
        record(graph, "rewritten", [op.name], names, found.why)
    if changed:
        graph.sort()
    return changed


@dataclass(frozen=True)
class _Replacement:
    """The replacement of each output (None: it is unused), and the reason."""

    results: Sequence[GraphTensor | None]
    why: str


def _replacement(graph: Graph, op: ControlOp) -> _Replacement | None:
    """None where no rule fits."""
    if not any(y.uses for y in op.outputs):
        return None
    if isinstance(op, Case):
        return _case(graph, op)
    return _while(graph, op) if isinstance(op, While) else None


def _case(graph: Graph, op: Case) -> _Replacement | None:
    index = constant_value(op.inputs[0])
    if index is not None:
        inside = 0 <= int(index) < len(op.branches)
        branch = op.branches[int(index) if inside else -1]
        results = inline(graph, branch, dict(enumerate(op.inputs[1:])))
        return _Replacement(results, f"it always takes branch '{branch.name}'")
    wanted = [i for i, y in enumerate(op.outputs) if y.uses]
    read = set().union(*(needed_inputs(branch, wanted) for branch in op.branches))
    arguments, kept = _arguments(op.inputs[1:], read)
    if len(wanted) == len(op.outputs) and len(kept) == len(op.inputs) - 1:
        return None
    branches = tuple(with_arguments(branch, arguments, wanted) for branch in op.branches)
    made = graph.make("case", [op.inputs[0], *kept], {**op.attrs, "branches": branches}, op.name)
    return _Replacement(_spread(made.outputs, wanted, len(op.outputs)), _SMALLER)


def _while(graph: Graph, op: While) -> _Replacement | None:
    trips = short_trip_count(op)
    if trips is not None:
        return _Replacement(_unrolled(graph, op, trips), f"it always runs {trips} times")
    state = _live_state(op)
    fixed = [i for i in state if _is_returned(op, i)]
    if len(fixed) == len(state):
        fixed = fixed[1:]  # a loop needs a state, even one that never ends
    kept = [i for i in state if i not in fixed]
    read = needed_inputs(op.condition, [0]) | needed_inputs(op.body, kept)
    others = [*fixed, *range(op.carried, len(op.inputs))]
    arguments, inputs = _loop_arguments(op, kept, [i for i in others if i in read])
    if len(kept) == op.carried and len(inputs) == len(op.inputs):
        return None
    condition = with_arguments(op.condition, arguments, [0])
    body = with_arguments(op.body, arguments, kept)
    attrs = {**op.attrs, "condition": condition, "body": body}
    results = list(_spread(graph.make("while", inputs, attrs, op.name).outputs, kept, op.carried))
    for i in fixed:
        results[i] = op.inputs[i]
    return _Replacement(results, _SMALLER)


def _spread(
    made: Sequence[GraphTensor], positions: Sequence[int], count: int
) -> Sequence[GraphTensor | None]:
    by_position = dict(zip(positions, made, strict=True))
    return [by_position.get(i) for i in range(count)]


def _arguments(
    inputs: Sequence[GraphTensor], read: Iterable[int], first: int = 0
) -> tuple[dict[int, Argument], list[GraphTensor]]:
    """The argument for each input that is read, and the remaining inputs: each tensor once, no constants."""
    arguments: dict[int, Argument] = {}
    kept: list[GraphTensor] = []
    for i in sorted(read):
        tensor = inputs[i]
        if constant_value(tensor) is not None:
            arguments[i] = tensor
            continue
        if tensor not in kept:
            kept.append(tensor)
        arguments[i] = first + kept.index(tensor)
    return arguments, kept


def _loop_arguments(
    op: While, state: Sequence[int], fixed: Sequence[int]
) -> tuple[dict[int, Argument], list[GraphTensor]]:
    """Return arguments like `_arguments`, but the state keeps its position, whatever its initial values are."""
    arguments, kept = _arguments(op.inputs, fixed, first=len(state))
    arguments.update((old, new) for new, old in enumerate(state))
    return arguments, [*(op.inputs[i] for i in state), *kept]


def _live_state(op: While) -> list[int]:
    """The part of the state that is read after the loop, by the condition, or by the body to compute such a part."""
    live: set[int] = set()
    pending = {i for i, y in enumerate(op.outputs) if y.uses} | needed_inputs(op.condition, [0])
    while pending:
        i = pending.pop()
        if i < op.carried and i not in live:
            live.add(i)
            pending |= needed_inputs(op.body, [i])
    return sorted(live)


def _is_returned(op: While, i: int) -> bool:
    """Return whether the body returns input i unchanged."""
    return op.body.outputs[i].inputs[0] is op.body.inputs[i].outputs[0]


def _unrolled(graph: Graph, op: While, trips: int) -> list[GraphTensor]:
    state, fixed = list(op.inputs[: op.carried]), op.inputs[op.carried :]
    for _ in range(trips):
        state = inline(graph, op.body, dict(enumerate([*state, *fixed])))
    return state
