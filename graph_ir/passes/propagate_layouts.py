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
    for region in _regions(graph, list(options)):
        costs = _search(graph, region, options, assignment)
        decisions.extend(
            LayoutDecision(op.name, tuple(options[op]), tuple(costs[op]), assignment[op])
            for op in region
        )
    graph.attrs["temp.layout_decisions"] = decisions
    return _apply(graph, {op: options[op][assignment[op]] for op in options})


def _candidates(op: Op, ctx: LowerContext) -> list[FormatChoice]:
    choices = op.query_format(ctx)
    return choices if ctx.options.enabled("blocked-layouts") else choices[:1]


def _regions(graph: Graph, tunable: list[Op]) -> list[list[Op]]:
    """Tunable ops joined through elementwise ops (or directly), whose layouts depend on each other."""
    parent: dict[Op, Op] = {op: op for op in graph.ops}

    def find(op: Op) -> Op:
        while parent[op] is not op:
            parent[op] = parent[parent[op]]
            op = parent[op]
        return op

    for op in graph.ops:
        for tensor in op.inputs:
            producer = tensor.producer_owner
            if all(end.kind == "tunable" or is_elementwise(end) for end in (op, producer)):
                parent[find(op)] = find(producer)
    regions: dict[Op, list[Op]] = {}
    for op in tunable:
        regions.setdefault(find(op), []).append(op)
    return list(regions.values())


def _search(
    graph: Graph, region: list[Op], options: dict[Op, list[FormatChoice]], assignment: dict[Op, int]
) -> dict[Op, list[float]]:
    """Set the best choice of each op of a region; returns, per op, the cost of each of its choices."""
    ranges = [range(len(options[op])) for op in region]
    count = 1
    for r in ranges:
        count *= len(r)
    if count <= MOST_COMBINATIONS:
        best = min(
            itertools.product(*ranges),
            key=lambda c: _cost(graph, options, {**assignment, **_zip(region, c)}),
        )
        assignment.update(_zip(region, best))
    costs: dict[Op, list[float]] = {}
    for op in region:
        costs[op] = [_cost(graph, options, {**assignment, op: i}) for i in range(len(options[op]))]
        assignment[op] = costs[op].index(min(costs[op]))
    return costs


def _zip(region: list[Op], combination: tuple[int, ...]) -> dict[Op, int]:
    return dict(zip(region, combination, strict=True))


def _cost(graph: Graph, options: dict[Op, list[FormatChoice]], assignment: dict[Op, int]) -> float:
    choices = {op: options[op][i] for op, i in assignment.items()}
    formats, reorders = _walk(graph, choices)
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
    graph: Graph, choices: dict[Op, FormatChoice]
) -> tuple[dict[GraphTensor, Format], dict[tuple[GraphTensor, Format], None]]:
    """Formats of all tensors under the given choices, and the (tensor, format) pairs that need a reorder."""
    formats: dict[GraphTensor, Format] = {}
    reorders: dict[tuple[GraphTensor, Format], None] = {}
    for op in graph.ops:
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
    formats, reorders = _walk(graph, choices)
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
