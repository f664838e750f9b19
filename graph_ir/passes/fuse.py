"""Group ops into `fused` ops, each of which becomes one loop nest.

before   %c = matmul_core(%a, %b)   %d = add(%c, %bias)   %e = relu(%d)
after    %e = fused(%a, %b, %bias) with the three ops in its subgraph
Requires: layouts chosen, composites decomposed, no dead ops.
Ensures: the same values; every group has one escaping tensor.

A group grows from an anchor (first tuned matmuls, then reductions, elementwise ops, transposes of slices): forward
over elementwise consumers of the anchor's shape, then backward over pointwise producers without other consumers. Ops
that would be computed twice, or would make the group depend on itself, stay outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from ...base.size_queries import typically_less
from ..ir.graph import Graph, GraphTensor, Op
from ..ir.op_kinds import TunableOp, reduction
from ..ops.matmul import MatmulCore
from ..rewriting.attention import attention_group
from ..rewriting.fusion_reasons import record_fusion
from ..rewriting.groups import (
    comes_from_tunable,
    is_elementwise,
    is_pointwise,
    is_reduction,
    is_tuned,
    is_view,
    reduces_rows,
)
from ..rewriting.operand_rows import sliced_operands
from ..rewriting.widening import reads_widened, widening_of
from ..schedule.attention import attention_kernel
from ..schedule.context import LowerContext

CHEAP_MOVEMENT = ("broadcast",)
ASKING = ("concat", "pad")
MAX_OPS = 64
"""Ops of a group: longer kernels save no more memory traffic, and what is made of one must not nest without limit."""

MAX_VISITED = 4096
"""Ops that are looked at to find out whether one depends on a group."""

Fits = Callable[[Op, list[Op]], bool]
"""Function that returns whether an op may join the group."""


def fuse(graph: Graph, ctx: LowerContext) -> bool:
    """Replace every group of two or more ops by a `fused` op."""
    groups: list[list[Op]] = []
    taken: set[Op] = set()
    for op in graph.ops:
        group = _attention(op, ctx)
        if group and taken.isdisjoint(group):
            taken.update(group)
            groups.append(group)
    late = {member for op in graph.ops for member in widening_of(op) or ()}
    accepted = (is_tuned, is_reduction, lambda op: is_elementwise(op) and op not in late)
    # Widened bytes are left to readers.
    for accepts in (*accepted, is_elementwise, _moves_slice, _weighs_rows):
        for anchor in graph.ops:
            if anchor not in taken and accepts(anchor):
                group = _grow(anchor, taken)
                if len(group) > 1:
                    taken.update(group)
                    groups.append(group)
    record_fusion(graph, groups)
    _replace(graph, groups)
    graph.sort()
    return bool(groups)


def _attention(op: Op, ctx: LowerContext) -> list[Op]:
    """Return the group of attention whose second matmul is `op`, if one microkernel runs both matmuls."""
    group = attention_group(op)
    if group is None:
        return []
    first, second = (member for member in group if isinstance(member, MatmulCore))
    return group if attention_kernel(first, second, ctx.target) else []


def _moves_slice(op: Op) -> bool:
    """Return whether an op copies a slice in another order, which it may as well read where that lies."""
    return op.op_name == "transpose" and op.inputs[0].producer_owner.op_name == "slice"


def _weighs_rows(op: Op) -> bool:
    """Return whether an op adds up rows that it may as well read where a slice of them lies."""
    return isinstance(op, MatmulCore) and op.weighs_rows


def _grow(anchor: Op, taken: set[Op]) -> list[Op]:
    if reduces_rows(anchor):
        group = _grow_forward(anchor, taken, _fits_rows(anchor))
    else:
        group = _grow_forward(anchor, taken, _fits_elements(anchor))
    if not is_tuned(anchor) or len(group) > 1:
        _grow_backward(group, taken, by_rows=reduces_rows(anchor))
    read = [op for op in sliced_operands([anchor]) if op not in taken and op not in group]
    return [*group, *read] if is_tuned(anchor) else group


def _fits_elements(anchor: Op) -> Fits:
    """Elementwise ops on tensors of the anchor's shape and layout."""
    details = anchor.outputs[0].details

    def fits(op: Op, group: list[Op]) -> bool:
        if not is_elementwise(op):
            return False
        found = op.outputs[0].details
        return found.plain_dims == details.plain_dims and found.format == details.format

    return fits


def _fits_rows(anchor: Op) -> Fits:
    """Ops on the rows that the anchor reduces, or on one value per row, and further reductions of these rows."""
    rows = anchor.inputs[0].details.plain_dims
    shapes = {rows, anchor.outputs[0].details.plain_dims, (*rows[:-1], 1)}

    def fits(op: Op, group: list[Op]) -> bool:
        if reduces_rows(op):
            return op.inputs[0].details.plain_dims == rows
        if not is_elementwise(op) or _reads_other_rows(op, group):
            return False
        found = op.outputs[0].details
        return found.plain_dims in shapes and found.format.is_plain

    return fits


def _reads_other_rows(op: Op, group: list[Op]) -> bool:
    """Return whether per-row values, without their last axis, would broadcast along columns: x[i, j] - sum[j] of a
    square x."""
    rank = op.outputs[0].details.rank
    inside = [x.details for x in op.inputs if x.producer_owner in group]
    return any(details.rank != rank and details.elements != 1 for details in inside)


def _grow_forward(anchor: Op, taken: set[Op], fits: Fits) -> list[Op]:
    """The longest run of fitting consumers after which exactly one tensor leaves the group.

    That is of the anchor's type where the result holds its partial sums; on the way there may be others.
    """
    one_type = isinstance(anchor, TunableOp) and anchor.result_holds_sums
    dtype = anchor.outputs[0].details.dtype
    group, best = [anchor], 1
    growth = _Growth(taken, fits)
    growth.join(anchor)
    while len(group) < MAX_OPS and (found := growth.following(group)) is not None:
        group.append(found)
        growth.join(found)
        left = list(growth.leaving)
        if len(left) == 1 and (not one_type or left[0].details.dtype == dtype):
            best = len(group)
    return _without_widening(group[:best])


def _without_widening(group: list[Op]) -> list[Op]:
    """The group up to the bytes that its last ops only make floats of, which the consumers do as well."""
    (escaping,) = _escaping(group) or (group[-1].outputs[0],)
    chain = widening_of(escaping.producer_owner)
    if chain is None or not all(reads_widened(user) for _, user in escaping.uses):
        return group
    rest = [op for op in group if op not in chain]
    leaving = _escaping(rest) if rest else []
    return rest if leaving == [chain[0].inputs[0]] else group


class _Growth:
    """The neighborhood of a growing group, so that each op there is checked once, or again when its state changed.

    `inside`: the group; `first`: the least number of its ops in the graph. `leaving`: its tensors that others read.
    `queue`: a heap of its consumers, as (number of the op in the group, number of the use, consumer). `waiting`:
    consumers, by the op outside through which they depend on the group: fusing them before that op would close a cycle.
    `dependent`: ops outside that depend on the group.
    """

    def __init__(self, taken: set[Op], fits: Fits) -> None:
        self.taken, self.fits = taken, fits
        self.inside: set[Op] = set()
        self.first = math.inf
        self.leaving: dict[GraphTensor, None] = {}
        self.queue: list[tuple[int, int, Op]] = []
        self.waiting: dict[Op, list[tuple[int, int, Op]]] = {}
        self.dependent: set[Op] = set()

    def join(self, op: Op) -> None:
        """Add an op to the group."""
        self.inside.add(op)
        self.first = min(self.first, op.logical_op_id)
        for tensor in (*op.inputs, *op.outputs):
            if tensor.producer_owner not in self.inside:
                continue
            if all(user in self.inside for _, user in tensor.uses):
                self.leaving.pop(tensor, None)
            else:
                self.leaving[tensor] = None
        number = len(self.inside)
        for use, (_, user) in enumerate(op.outputs[0].uses):
            heappush(self.queue, (number, use, user))
        for entry in self.waiting.pop(op, ()):
            heappush(self.queue, entry)

    def following(self, group: list[Op]) -> Op | None:
        """The first consumer that may join."""
        while self.queue:
            entry = heappop(self.queue)
            user = entry[-1]
            if user in self.inside or user in self.taken or not self.fits(user, group):
                continue
            through = self._dependent_input(user)
            if through is None:
                return user
            self.waiting.setdefault(through, []).append(entry)
        return None

    def _dependent_input(self, op: Op) -> Op | None:
        """A producer of `op` outside the group that depends on it; taken for granted where finding out takes long."""
        outside = [x.producer_owner for x in op.inputs if x.producer_owner not in self.inside]
        for producer in outside:
            if producer in self.dependent:
                return producer
        consumer: dict[Op, Op | None] = dict.fromkeys(outside)
        stack = list(outside)
        while stack:
            current = stack.pop()
            if current.logical_op_id < self.first:
                continue
            producers = [x.producer_owner for x in current.inputs]
            is_found = current in self.dependent or not self.inside.isdisjoint(producers)
            if is_found or len(consumer) > MAX_VISITED:
                return self._note_path(current, consumer)
            for producer in producers:
                if producer not in consumer:
                    consumer[producer] = current
                    stack.append(producer)
        return None

    def _note_path(self, op: Op, consumer: dict[Op, Op | None]) -> Op:
        """Note that all consumers of `op` depend on the group, up to the last one, which is returned."""
        self.dependent.add(op)
        while (following := consumer[op]) is not None:
            op = following
            self.dependent.add(op)
        return op


def _repeats(user: Op, producer: Op) -> bool:
    """Return whether a matmul reads elements of a producer many times; reductions of one row read rows in place."""
    if user.kind != "tunable":
        return False
    return not (isinstance(user, MatmulCore) and user.weighs_rows and _costs_nothing(producer))


def _costs_nothing(op: Op) -> bool:
    """Return whether an op only changes the address of reads: a broadcast, or a slice of whole rows."""
    if op.op_name == "slice":
        steps = set(op.attr("steps"))
        return steps == {1} and op.attr("sizes")[-1] == op.inputs[0].details.plain_dims[-1]
    return op.op_name in CHEAP_MOVEMENT


def _grow_backward(group: list[Op], taken: set[Op], by_rows: bool) -> None:
    """Add pointwise producers that only the group reads, unless elements would be computed more than once.

    A loop over rows (`by_rows`) holds one row at a time, so nothing joins it that a movement op reads at other indices,
    nor a row that is put together of several.
    """
    members = set(group)
    work = list(group)
    while work:
        op = work.pop()
        for tensor in op.inputs:
            producer = tensor.producer_owner
            if (
                producer in members
                or producer in taken
                or is_view(producer)
                or not is_pointwise(producer)
            ):
                continue
            # Operands of a matmul are read many times, so they are computed beforehand.
            if any(user not in members or _repeats(user, producer) for _, user in tensor.uses):
                continue
            if by_rows and (
                any(_moves(user) for _, user in tensor.uses) or _asks_within_rows(producer)
            ):
                continue
            # Elements of these ops compute their source index; several consumers at other indices would each compute it
            # again.
            if producer.op_name in ASKING and sum(_moves(user) for _, user in tensor.uses) > 1:
                continue
            if typically_less(tensor.details.elements, _reads(op)) and not _costs_nothing(producer):
                continue
            if _requantizes_accumulators(producer):
                continue
            if len(members) == MAX_OPS:
                return
            members.add(producer)
            group.append(producer)
            work.append(producer)


def _asks_within_rows(op: Op) -> bool:
    """Return whether lanes of one row come from different addresses. A loop would ask for each element, in each of its
    passes over the row; stored, the row is copied part by part."""
    last = op.outputs[0].details.rank - 1
    if op.op_name == "reorder":  # of rows whose elements lie apart, as channels last do
        return op.inputs[0].details.format.order[-1] != last
    if op.op_name == "concat":
        return op.attr("axis") == last
    return op.op_name == "pad" and any(op.attr(side)[last] != 0 for side in ("before", "after"))


def _requantizes_accumulators(op: Op) -> bool:
    """Return whether the op requantizes accumulators of a matmul: in its epilogue, so that no accumulators
    are stored."""
    if not op.inputs or not is_elementwise(op):
        return False
    narrows = op.outputs[0].details.dtype.bits < op.inputs[0].details.dtype.bits
    return narrows and comes_from_tunable(op)


def _moves(op: Op) -> bool:
    return is_pointwise(op) and not is_elementwise(op)


def _reads(op: Op) -> Any:
    """Return the number of elements the op reads: a producer with fewer would be recomputed."""
    count = op.outputs[0].details.elements
    found = reduction(op) if is_reduction(op) else None
    return count * math.prod(found.extents) if found else count


def _escaping(group: list[Op]) -> list[GraphTensor]:
    members = set(group)
    return [y for op in group for y in op.outputs if any(user not in members for _, user in y.uses)]


def _replace(graph: Graph, groups: list[list[Op]]) -> None:
    """Put each group's `fused` op where the tensor that leaves it was made."""
    made = dict(_fused(graph, group) for group in groups)
    count = len(graph.ops) - len(made)
    graph.ops = [made.get(op, op) for op in graph.ops[:count]]
    graph.remove(op for group in groups for op in group)


def _fused(graph: Graph, group: list[Op]) -> tuple[Op, Op]:
    """Return (the op whose result leaves a group, a `fused` op that replaces the group, at the end of the graph)."""
    members = sorted(set(group), key=lambda op: op.logical_op_id)
    (escaping,) = _escaping(members)
    inside = set(members)
    external = list(
        dict.fromkeys(x for op in members for x in op.inputs if x.producer_owner not in inside)
    )
    subgraph = Graph("_".join(op.name for op in members)[:80])
    mapping = {x: subgraph.make_input(x.details, x.name) for x in external}
    for op in members:
        copy = subgraph.make(op.op_name, [mapping[x] for x in op.inputs], op.attrs, op.name)
        for old, new in zip(op.outputs, copy.outputs, strict=True):
            new.details = old.details
            mapping[old] = new
    subgraph.make_output(mapping[escaping])
    last = escaping.producer_owner
    fused = graph.make("fused", external, {"graph": subgraph}, f"{last.name}.fused")
    fused.outputs[0].details = escaping.details
    fused.logical_op_id = last.logical_op_id
    escaping.replace_uses(fused.outputs[0])
    return last, fused
