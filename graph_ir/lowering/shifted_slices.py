"""Moves the starts of slices from kernels to their arguments, so that pieces of one shape share a kernel."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...base.dims import is_known
from ...base.records import dataclass
from ..ir.graph import Graph, GraphTensor, Op
from ..ops.fused import Fused
from ..ops.movement import Slice


@dataclass(frozen=True)
class Shifted:
    """An op whose slices begin at element 0 as far as possible, and the element of each input that it is passed."""

    op: Op
    begins: Mapping[GraphTensor, int]


def shifted(op: Op) -> Shifted:
    """Return an op that reads its inputs from the first element of its slices on; the op itself where it has none.

    y = slice(x, starts=(0, 7))  ->  slice(&x[0, 7], starts=(0, 0))

    All uses of an input must be slices in the order of its memory: what they have in common is moved.
    """
    if isinstance(op, Slice):
        moved = {0: _common([op])}
    elif isinstance(op, Fused):
        moved = {
            number: _common([user for _, user in source.outputs[0].uses])
            for number, source in enumerate(op.graph.inputs)
            if op.inputs.count(op.inputs[number]) == 1
        }
    else:
        return Shifted(op, {})
    moved = {number: starts for number, starts in moved.items() if any(starts)}
    if not moved:
        return Shifted(op, {})
    begins = {
        op.inputs[number]: int(np.ravel_multi_index(starts, op.inputs[number].details.plain_dims))
        for number, starts in moved.items()
    }
    return Shifted(_without(op, moved), begins)


def _common(users: list[Op]) -> tuple[int, ...]:
    """The smallest start on each axis of slices that read a tensor; none if something else reads it."""
    if not users or not all(map(_is_forward, users)):
        return ()
    return tuple(min(starts) for starts in zip(*(op.attrs["starts"] for op in users), strict=True))


def _is_forward(op: Op) -> bool:
    """Return whether an op is a slice of rows whose elements lie behind its first one in memory."""
    if not isinstance(op, Slice):
        return False
    x = op.inputs[0].details
    known = x.format.is_plain and is_known(*x.plain_dims, *op.starts, *op.sizes)
    return known and x.rank > 1 and 0 not in op.sizes and all(step > 0 for step in op.steps)


def _without(op: Op, moved: Mapping[int, tuple[int, ...]]) -> Op:
    """Return the op in a separate graph, its slices without the moved offsets."""
    graph = Graph("shifted")
    made = {x: graph.make_input(x.details, x.name) for x in dict.fromkeys(op.inputs)}
    attrs = dict(op.attrs)
    if isinstance(op, Fused):
        sources = {op.graph.inputs[number].outputs[0]: starts for number, starts in moved.items()}
        attrs["graph"] = _inner(op.graph, sources)
    else:
        attrs["starts"] = _less(attrs["starts"], moved[0])
    twin = graph.make(op.op_name, [made[x] for x in op.inputs], attrs, op.name)
    twin.schedule = op.schedule
    for old, new in zip(op.outputs, twin.outputs, strict=True):
        new.details = old.details
    return twin


def _inner(graph: Graph, sources: Mapping[GraphTensor, tuple[int, ...]]) -> Graph:
    """A copy of a fused graph, the slices of `sources` without their common starts."""
    twin = Graph(graph.name, dict(graph.attrs))
    mapping: dict[GraphTensor, GraphTensor] = {}
    for op in graph.ops:
        attrs = op.attrs
        if op.inputs and op.inputs[0] in sources:
            attrs = {**attrs, "starts": _less(attrs["starts"], sources[op.inputs[0]])}
        new = twin.make(op.op_name, [mapping[x] for x in op.inputs], attrs, op.name)
        new.schedule = op.schedule
        for old, made in zip(op.outputs, new.outputs, strict=True):
            made.details = old.details
            mapping[old] = made
    return twin


def _less(starts: tuple[int, ...], common: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(start - less for start, less in zip(starts, common, strict=True))
