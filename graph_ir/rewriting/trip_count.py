"""Trip counts of loops that are known at compile time. Read-only."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..ir.graph import Array, Graph, GraphTensor, sizes_in
from ..ops.control import ControlOp, While
from .subgraph import Argument, needed_inputs, needed_ops, with_arguments
from .values import constant_value

Known = Callable[[GraphTensor], Array | None]

MAX_UNROLLED = 256
"""Limit on the ops of an unrolled loop: unrolling saves a few calls per iteration, but every copy is compiled."""

_MAX_COUNTED = 4096  # elements of a value that determines a loop's length


def short_trip_count(op: While, known: Known = constant_value) -> int | None:
    """Return the trip count, if known values determine it and the copies would be at most `MAX_UNROLLED` ops.

    `known` gives the value of an input of the loop, or None if it depends on the model's inputs.
    """
    copied = sum(inner.kind not in ("source", "sink") for inner in op.body.ops)
    most = MAX_UNROLLED // max(copied, 1)
    state, parts = _deciding_state(op), [op.condition, op.body]
    values = {i: known(op.inputs[i]) for i in (*state, *_deciding_inputs(op, state))}
    deciding = [needed_ops(parts[0], [0]), needed_ops(parts[1], state)]
    if any(isinstance(x, ControlOp) or [*sizes_in(x)] for ops in deciding for x in ops):
        return None
    arrays: dict[int, Array] = {}
    for i, value in values.items():
        if value is None or value.size > _MAX_COUNTED:
            return None
        arrays[i] = value
    return _count(op, state, arrays, most)


def _deciding_inputs(op: While, state: Sequence[int]) -> set[int]:
    return needed_inputs(op.condition, [0]) | needed_inputs(op.body, state)


def _deciding_state(op: While) -> list[int]:
    """The part of the state that the condition depends on, over any number of iterations."""
    found: set[int] = set()
    pending = needed_inputs(op.condition, [0])
    while pending:
        i = pending.pop()
        if i < op.carried and i not in found:
            found.add(i)
            pending |= needed_inputs(op.body, [i])
    return sorted(found)


def _count(op: While, state: Sequence[int], values: dict[int, Array], most: int) -> int | None:
    """Run the part of the loop that determines its length; None if there are more than `most` iterations."""
    order = sorted(values)
    numbers: dict[int, Argument] = {i: number for number, i in enumerate(order)}

    def part(graph: Graph, results: Sequence[int]) -> Graph:
        return with_arguments(graph, numbers, results)

    condition, body = part(op.condition, [0]), part(op.body, state)
    with np.errstate(all="ignore"):
        for trips in range(most + 1):
            arrays = [values[i] for i in order]
            if not bool(condition.evaluate(arrays)[0]):
                return trips
            values.update(zip(state, body.evaluate(arrays), strict=True))
    return None
