"""Choose a layout for every tensor and insert the reorders that this needs.

before   %c = matmul_core(%a, %b)                            all plain
after    %r = reorder(%b){NK24n}   %c = matmul_core(%a, %r)
Requires: composites decomposed, all formats plain. Ensures: every op's inputs and outputs form one of its choices;
graph inputs and outputs stay plain.

Every combination of the tunable ops' choices is tried per connected region, up to 64. A larger region starts from the
best combination in which all activations have one layout, which is then refined one op at a time. A combination costs
the bytes of the reorders it inserts, one per (tensor, format), plus each op's own cost of its choice; reorders of
constants and of what is computed of constants only, which are done at compile time, and reorders that move no bytes are
free. Costs of blocked choices are multiplied by 0.9. Choices `on_request` are not tried unless the options ask for
them. Ops that follow (`groups.follows_layout`) take the layout of their inputs; all others are plain.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping

from ...base.records import dataclass
from ..ir.format import Format, plain
from ..ir.graph import Graph, GraphTensor, Op
from ..ir.note import Note
from ..ir.reshape_layout import reshaped_formats
from ..rewriting.decisions import record
from ..rewriting.groups import (
    follows_layout,
    is_elementwise,
    keeps_axes,
    sums_images,
    transposed_format,
)
from ..schedule.context import LowerContext
from ..schedule.format_choice import FormatChoice
from ..schedule.query_format import query_format

MAX_COMBINATIONS = 64
BLOCKED_DISCOUNT = 0.9


@dataclass(frozen=True)
class LayoutDecision:
    """The reason for the layout of one op: every candidate with its cost in bytes, and the index of the chosen one."""

    op_name: str
    candidates: tuple[FormatChoice, ...]
    costs: tuple[float, ...]
    chosen: int


LAYOUT_DECISIONS: Note[list[LayoutDecision]] = Note("layout_decisions", list)


def propagate_layouts(graph: Graph, ctx: LowerContext) -> bool:
    """Assign formats; the decisions are the note `LAYOUT_DECISIONS` of the graph."""
    offered = {op: _offered(op, ctx) for op in graph.ops if op.kind == "tunable"}
    options = {op: _considered(choices, ctx) for op, choices in offered.items()}
    assignment = dict.fromkeys(options, 0)
    known = _known(graph, ctx)
    leaders = {op: _leaders(op, choices, known) for op, choices in options.items()}
    decisions: list[LayoutDecision] = []
    for region in _regions(graph, options, known):
        costs = _search(region, options, leaders, assignment)
        decisions.extend(
            _decision(op, offered[op], options[op], costs[op], assignment[op], known)
            for op in region.tunable
        )
    LAYOUT_DECISIONS.set(graph, decisions)
    return _apply(graph, {op: options[op][assignment[op]] for op in options})


def _known(graph: Graph, ctx: LowerContext) -> frozenset[GraphTensor]:
    """The tensors whose values are known at compile time: constants, and what `fold_constants` makes of them."""
    found = {y for op in graph.ops if op.is_constant for y in op.outputs}
    for op in graph.ops if ctx.options.enabled("fold") else ():
        if op.kind not in ("source", "sink", "control") and found.issuperset(op.inputs):
            found.update(op.outputs)
    return frozenset(found)


def _offered(op: Op, ctx: LowerContext) -> list[FormatChoice]:
    choices = query_format(op, ctx)
    return choices if ctx.options.enabled("blocked-layouts") else choices[:1]


def _considered(choices: list[FormatChoice], ctx: LowerContext) -> list[FormatChoice]:
    """Return the choices to consider: a choice offered on request only if the options ask for it, and then
    only that."""
    requested = [x for x in choices if x.on_request and ctx.options.layout == "blocked"]
    return requested or [x for x in choices if not x.on_request]


def _decision(
    op: Op, offered: list[FormatChoice], considered: list[FormatChoice], costs: list[float], chosen: int,
    known: frozenset[GraphTensor],
) -> LayoutDecision:  # fmt: skip
    """The choice among all that is offered: what was not considered costs what it would if this op alone had it."""
    taken = considered[chosen]
    found = [
        costs[considered.index(x)]
        if x in considered
        else costs[chosen] + x.cost - taken.cost + _moved_between(op, taken, x, known)
        for x in offered
    ]
    return LayoutDecision(op.name, tuple(offered), tuple(found), offered.index(taken))


def _moved_between(
    op: Op, taken: FormatChoice, other: FormatChoice, known: frozenset[GraphTensor]
) -> float:
    """Bytes that reorders around an op would move if it had other layouts than its neighbors expect."""
    sides = ((op.inputs, taken.inputs, other.inputs), (op.outputs, taken.outputs, other.outputs))
    return sum(
        2.0 * tensor.details.typical.with_format(fmt).size_bytes
        for tensors, before, after in sides
        for tensor, given, fmt in zip(tensors, before, after, strict=True)
        if tensor not in known and not fmt.is_view_of(given, tensor.details.plain_dims)
    )


@dataclass
class _Region:
    """Tunable ops whose layouts depend on each other, and all ops (in order) that their layouts can reach.

    `known`: the tensors of the graph whose values are known at compile time.
    """

    tunable: list[Op]
    ops: list[Op]
    known: frozenset[GraphTensor]


def _regions(
    graph: Graph, options: dict[Op, list[FormatChoice]], known: frozenset[GraphTensor]
) -> list[_Region]:
    """Tunable ops joined by tensors that may be blocked; every consumer of such a tensor is in `ops`."""
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
    regions = {find(op): _Region([], [], known) for op in options}
    for op in options:
        regions[find(op)].tunable.append(op)
    for op in graph.ops:
        touched = {find(op), *(find(x.producer_owner) for x in op.inputs if x in may_block)}
        for root in touched & regions.keys():
            regions[root].ops.append(op)
    return list(regions.values())


def _may_be_blocked(graph: Graph, options: dict[Op, list[FormatChoice]]) -> set[GraphTensor]:
    """Tensors that some choice of a tunable op makes blocked, directly or through ops that follow its layout."""
    found: set[GraphTensor] = set()
    for op in graph.ops:
        for index, tensor in enumerate(op.outputs):
            chosen = any(not choice.outputs[index].is_plain for choice in options.get(op, ()))
            if op.op_name == "transpose":
                chosen = _is_wanted(op, options)
            if chosen or (_takes_over(op) and any(x in found for x in op.inputs)):
                found.add(tensor)
    return found


def _has_layouts(op: Op) -> bool:
    return op.kind == "tunable" or _takes_over(op)


def _takes_over(op: Op) -> bool:
    """Return whether the result takes the layout of an input, with axes renamed by a transpose or reshape."""
    return op.op_name in ("transpose", "reshape") or follows_layout(op) or keeps_axes(op)


def _is_wanted(op: Op, options: dict[Op, list[FormatChoice]]) -> bool:
    """Return whether a consumer may accept the transpose of a plain tensor in the layout that needs no copy."""
    moved = transposed_format(op, plain(op.inputs[0].details.rank))
    return any(
        choice.inputs[index] == moved
        for index, user in op.outputs[0].uses
        for choice in options.get(user, ())
    )


def _leaders(op: Op, choices: list[FormatChoice], known: frozenset[GraphTensor]) -> list[int]:
    """Return the cheapest candidate among those that differ only in layouts of constants, for each choice: the only one
    worth trying."""
    dynamic = [i for i, x in enumerate(op.inputs) if x not in known]
    best: dict[tuple[object, ...], int] = {}
    keys = [(*(choice.inputs[i] for i in dynamic), *choice.outputs) for choice in choices]
    for number, (key, choice) in enumerate(zip(keys, choices, strict=True)):
        if key not in best or choice.cost < choices[best[key]].cost:
            best[key] = number
    return [best[key] for key in keys]


def _search(
    region: _Region, options: dict[Op, list[FormatChoice]], leaders: dict[Op, list[int]],
    assignment: dict[Op, int],
) -> dict[Op, list[float]]:  # fmt: skip
    """Set the best choice of each op of a region; returns, per op, the cost of each of its choices."""

    def cost(changes: Mapping[Op, int]) -> float:
        numbers = {op: changes.get(op, assignment[op]) for op in region.tunable}
        return _cost(region, {op: options[op][i] for op, i in numbers.items()})

    tried = [sorted(set(leaders[op])) for op in region.tunable]
    if math.prod(map(len, tried)) <= MAX_COMBINATIONS:
        combinations: Iterable[tuple[int, ...]] = itertools.product(*tried)
    else:
        combinations = _uniform(region.tunable, options, leaders)
    starts = [_zip(region.tunable, combination) for combination in combinations]
    best = min(starts, key=cost)
    assignment.update(best)
    costs: dict[Op, list[float]] = {}
    for op in region.tunable:
        found = {i: cost({op: i}) for i in set(leaders[op])}
        own = [
            choice.cost - options[op][i].cost
            for choice, i in zip(options[op], leaders[op], strict=True)
        ]
        costs[op] = [found[i] + extra for i, extra in zip(leaders[op], own, strict=True)]
        assignment[op] = min(found, key=lambda i: (found[i], i))
    return costs


def _uniform(
    ops: list[Op], options: dict[Op, list[FormatChoice]], leaders: dict[Op, list[int]]
) -> Iterator[tuple[int, ...]]:
    """Return the choices closest to having a layout everywhere, for each kind of layout that some op offers for
    its result."""
    kinds = {_kind(choice.outputs[0]): None for op in ops for choice in options[op]}
    for kind in kinds:
        yield tuple(min(leaders[op], key=lambda i: _distance(options[op][i], kind)) for op in ops)


def _kind(fmt: Format) -> tuple[bool, tuple[int, ...]]:
    """The kind of a layout, independent of the tensor's rank."""
    return fmt.is_plain, tuple(block for block in fmt.blocks if block)


def _distance(choice: FormatChoice, kind: tuple[bool, tuple[int, ...]]) -> tuple[bool, bool, float]:
    return _kind(choice.outputs[0]) != kind, _kind(choice.inputs[0]) != kind, choice.cost


def _zip(region: Iterable[Op], combination: Iterable[int]) -> Mapping[Op, int]:
    return dict(zip(region, combination, strict=True))


def _cost(region: _Region, choices: dict[Op, FormatChoice]) -> float:
    formats, reorders = _walk(region.ops, choices)
    total = sum(
        2 * tensor.details.typical.with_format(fmt).size_bytes
        for tensor, fmt in reorders
        if tensor not in region.known
        and not fmt.is_view_of(formats[tensor], tensor.details.plain_dims)
    )
    blocked = any(
        f.is_blocked for choice in choices.values() for f in (*choice.inputs, *choice.outputs)
    )
    own = sum(choice.cost for choice in choices.values())
    return (total + own) * (BLOCKED_DISCOUNT if blocked else 1.0)


def _walk(
    ops: list[Op], choices: dict[Op, FormatChoice]
) -> tuple[dict[GraphTensor, Format], dict[tuple[GraphTensor, Format], None]]:
    """Formats of all tensors under the given choices, and the (tensor, format) pairs that need a reorder.

    Tensors from outside `ops` are plain: only tunable ops and those that follow, which a region holds, make
    other layouts.
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
    if op.op_name == "transpose":
        return _transposed(op, formats[op.inputs[0]], choices)
    if op.op_name == "reshape" and not formats[op.inputs[0]].is_plain:
        source, result = op.inputs[0].details.plain_dims, op.outputs[0].details.plain_dims
        kept = reshaped_formats(source, result, formats[op.inputs[0]])
        if kept is not None:
            return [kept[0]], [kept[1]]
    if follows_layout(op) or (op.inputs and sums_images(op, formats[op.inputs[0]])):
        dims = op.outputs[0].details.plain_dims
        whole = is_elementwise(op)
        same = [
            x
            for x in op.inputs
            if (x.details.plain_dims == dims if whole else x.details.rank == len(dims))
        ]
        chosen = next((formats[x] for x in same if not formats[x].is_plain), plain(len(dims)))
        return [chosen if x in same else plain(x.details.rank) for x in op.inputs], [chosen]
    return [plain(x.details.rank) for x in op.inputs], [plain(y.details.rank) for y in op.outputs]


def _transposed(
    op: Op, source: Format, choices: dict[Op, FormatChoice]
) -> tuple[list[Format], list[Format]]:
    """A transpose of a tensor that is not plain, or into the layout that a consumer wants, is a view: no code runs."""
    moved = transposed_format(op, source)
    wanted = (choices[user].inputs[i] for i, user in op.outputs[0].uses if user in choices)
    if source.is_plain and moved not in wanted:
        return [source], [plain(source.rank)]
    return [source], [moved]


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
        why = f"from {tensor.details.format.named(fmt.axes)} to {fmt}"
        record(graph, "reordered", [tensor.producer_owner.name], [reorder.producer_owner.name], why)
    for op, wants in wanted.items():
        for index, (tensor, fmt) in enumerate(zip(list(op.inputs), wants, strict=True)):
            if (tensor, fmt) in made:
                op.set_input(index, made[tensor, fmt])
    graph.sort()
    return bool(reorders)
