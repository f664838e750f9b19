"""Choose a layout for every tensor and insert the reorders that this needs.

before   %c = matmul_core(%a, %b)                            all plain
after    %r = reorder(%b){NK24n}   %c = matmul_core(%a, %r)
Requires: composites decomposed, all formats plain. Ensures: every op's inputs and outputs form one of its choices;
graph inputs and outputs stay plain.

Every combination of the tunable ops' choices is tried (per connected region, up to 64, then greedily). A combination
costs the bytes of the reorders it inserts, one per (tensor, format), none for constants, which are reordered at
compile time, plus what an op itself pays for a choice; blocked choices count 0.9. Elementwise ops take the layout of
their inputs; all others are plain.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from ..context import LowerContext
from ..decisions import record
from ..format import Format, plain
from ..graph import FormatChoice, Graph, GraphTensor, Op
from ..groups import is_elementwise

MOST_COMBINATIONS = 64
BLOCKED_DISCOUNT = 0.9


@dataclass(frozen=True)
class LayoutDecision:
    """Why one op got its layout: every candidate with its cost in bytes, and the index of the chosen one."""

    op_name: str
    candidates: tuple[FormatChoice, ...]
    costs: tuple[float, ...]
    chosen: int


def propagate_layouts(graph: Graph, ctx: LowerContext) -> bool:
    """Assign formats; the decisions are kept in `graph.attrs['temp.layout_decisions']`."""
    options = {op: _candidates(op, ctx) for op in graph.ops if op.kind == "tunable"}
    assignment = dict.fromkeys(options, 0)
    decisions: list[LayoutDecision] = []
    for region in _regions(graph, options):
        costs = _search(region, options, assignment)
        decisions.extend(
            LayoutDecision(op.name, tuple(options[op]), tuple(costs[op]), assignment[op])
            for op in region.tunable
        )
    graph.attrs["temp.layout_decisions"] = decisions
    return _apply(graph, {op: options[op][assignment[op]] for op in options})


def _candidates(op: Op, ctx: LowerContext) -> list[FormatChoice]:
    choices = op.query_format(ctx)
    return choices if ctx.options.enabled("blocked-layouts") else choices[:1]


@dataclass
class _Region:
    """Tunable ops whose layouts depend on each other, and all ops (in order) that their layouts can reach."""

    tunable: list[Op]
    scope: list[Op]


def _regions(graph: Graph, options: dict[Op, list[FormatChoice]]) -> list[_Region]:
    """Tunable ops joined by tensors that may be blocked; whoever reads such a tensor is in scope."""
    may_block = _may_be_blocked(graph, options)
    parent: dict[Op, Op] = {op: op for op in graph.ops}

    def find(op: Op) -> Op:
        while parent[op] is not op:
            parent[op] = parent[parent[op]]
            op = parent[op]
        return op

    for op in graph.ops:
        for tensor in op.inputs:
            producer = tensor.producer_owner
            if tensor in may_block and _has_layouts(op):
                parent[find(op)] = find(producer)
    regions = {find(op): _Region([], []) for op in options}
    for op in options:
        regions[find(op)].tunable.append(op)
    for op in graph.ops:
        touched = {find(op), *(find(x.producer_owner) for x in op.inputs if x in may_block)}
        for root in touched & regions.keys():
            regions[root].scope.append(op)
    return list(regions.values())


def _may_be_blocked(graph: Graph, options: dict[Op, list[FormatChoice]]) -> set[GraphTensor]:
    """Tensors that some choice of a tunable op makes blocked, directly or through elementwise ops."""
    found: set[GraphTensor] = set()
    for op in graph.ops:
        for index, tensor in enumerate(op.outputs):
            chosen = any(not choice.outputs[index].is_plain for choice in options.get(op, ()))
            if chosen or (is_elementwise(op) and any(x in found for x in op.inputs)):
                found.add(tensor)
    return found


def _has_layouts(op: Op) -> bool:
    return op.kind == "tunable" or is_elementwise(op)


def _search(
    region: _Region, options: dict[Op, list[FormatChoice]], assignment: dict[Op, int]
) -> dict[Op, list[float]]:
    """Set the best choice of each op of a region; returns, per op, the cost of each of its choices."""

    def cost(changes: dict[Op, int]) -> float:
        numbers = {op: changes.get(op, assignment[op]) for op in region.tunable}
        return _cost(region.scope, {op: options[op][i] for op, i in numbers.items()})

    ranges = [range(len(options[op])) for op in region.tunable]
    if math.prod(map(len, ranges)) <= MOST_COMBINATIONS:
        combinations = itertools.product(*ranges)
        best = min(combinations, key=lambda c: cost(_zip(region.tunable, c)))
        assignment.update(_zip(region.tunable, best))
    costs: dict[Op, list[float]] = {}
    for op in region.tunable:
        costs[op] = [cost({op: i}) for i in range(len(options[op]))]
        assignment[op] = costs[op].index(min(costs[op]))
    return costs


def _zip(region: list[Op], combination: tuple[int, ...]) -> dict[Op, int]:
    return dict(zip(region, combination, strict=True))


def _cost(scope: list[Op], choices: dict[Op, FormatChoice]) -> float:
    _, reorders = _walk(scope, choices)
    total = sum(
        2 * tensor.details.with_format(fmt).size_bytes
        for tensor, fmt in reorders
        if tensor.producer_owner.op_name != "constant"
    )
    blocked = any(
        f.is_blocking for choice in choices.values() for f in (*choice.inputs, *choice.outputs)
    )
    own = sum(choice.cost for choice in choices.values())
    return (total + own) * (BLOCKED_DISCOUNT if blocked else 1.0)


def _walk(
    ops: list[Op], choices: dict[Op, FormatChoice]
) -> tuple[dict[GraphTensor, Format], dict[tuple[GraphTensor, Format], None]]:
    """Formats of all tensors under the given choices, and the (tensor, format) pairs that need a reorder.

    Tensors from outside `ops` are plain: only tunable and elementwise ops, which a region holds, make other layouts.
    """
    formats: dict[GraphTensor, Format] = {}
    reorders: dict[tuple[GraphTensor, Format], None] = {}
    for op in ops:
        for tensor in op.inputs:
            formats.setdefault(tensor, plain(tensor.details.rank))
        wanted, outputs = _formats_of(op, formats, choices)
        for tensor, fmt in zip(op.inputs, wanted, strict=True):
            if formats[tensor] != fmt:
                reorders[tensor, fmt] = None
        formats.update(zip(op.outputs, outputs, strict=True))
    return formats, reorders


def _formats_of(
    op: Op, formats: dict[GraphTensor, Format], choices: dict[Op, FormatChoice]
) -> tuple[list[Format], list[Format]]:
    """(format wanted of each input, format of each output)."""
    if op in choices:
        return list(choices[op].inputs), list(choices[op].outputs)
    if is_elementwise(op):
        dims = op.outputs[0].details.plain_dims
        same = [x for x in op.inputs if x.details.plain_dims == dims]
        chosen = next((formats[x] for x in same if not formats[x].is_plain), plain(len(dims)))
        return [chosen if x in same else plain(x.details.rank) for x in op.inputs], [chosen]
    return [plain(x.details.rank) for x in op.inputs], [plain(y.details.rank) for y in op.outputs]


def _apply(graph: Graph, choices: dict[Op, FormatChoice]) -> bool:
    formats, reorders = _walk(graph.ops, choices)
    wanted = {op: _formats_of(op, formats, choices)[0] for op in graph.ops}
    for tensor, fmt in formats.items():
        tensor.details = tensor.details.with_format(fmt)
    made = {
        (tensor, fmt): graph.make(
            "reorder", (tensor,), {"format": fmt}, f"{tensor.name}.reorder"
        ).outputs[0]
        for tensor, fmt in reorders
    }
    for (tensor, fmt), reorder in made.items():
        why = f"from {tensor.details.format} to {fmt}"
        record(graph, "reordered", [tensor.producer_owner.name], [reorder.producer_owner.name], why)
    for op, wants in wanted.items():
        for index, (tensor, fmt) in enumerate(zip(list(op.inputs), wants, strict=True)):
            if (tensor, fmt) in made:
                op.set_input(index, made[tensor, fmt])
    graph.sort()
    return bool(reorders)
