"""Loop: a short one of known length is unrolled, which lets its body use the iteration number as a shape or an axis.

Everything else becomes `while`, whose subgraphs take outer values as inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import GraphProto

from ...base.dims import Size, is_known
from ...base.dtypes import S64
from ...graph_ir.ir.graph import GraphTensor
from ...graph_ir.rewriting.trip_count import MAX_UNROLLED
from ..correspondence.compositions.control import (
    CountedLoop,
    Round,
    unroll,
)
from ..correspondence.compositions.movement import stack
from ..op_builder import OpBuilder, Value
from ..refusals import FIXED
from .branches import Captured, truth
from .nesting import captured, every_node
from .scope import Handler, Listed, NodeContext
from .sequences import appended, as_rows, is_listed, repeated_elements


def _loop(node: NodeContext) -> list[Value]:
    body = node.attr_graph("body")
    most = node.value(0) if node.has(0) else None
    going = node.value(1) if node.has(1) else None
    state = [node.value(i) for i in range(2, node.count)]
    collected = len(body.output) - 1 - len(state)
    listed = [i for i, x in enumerate(body.input[2:]) if is_listed(x.type)]
    is_dynamic = isinstance(most, np.ndarray) and not is_known(*most.reshape(-1))
    outer: list[object] = [node.scope.values.get(name) for name in captured(body)]
    repeated = repeated_elements(node, body) if listed else None
    if repeated is not None:
        return [repeated]
    if listed and (is_dynamic or not isinstance(most, np.ndarray)):
        seen = any(isinstance(value, Listed) for value in outer)
        plain = None if seen else as_rows(body, listed)
        if plain is not None:
            return _with_rows(node, plain, state, listed)
    if any(is_listed(x.type) for x in (*body.input, *body.output)):
        for index, what in ((0, "the number of rounds"), (1, "the condition")):
            if node.has(index):
                node.array(index, what)
    if len(body.input) != 2 + len(state) or collected < 0:
        raise node.rule(
            f"the body must take {2 + len(state)} inputs and return {1 + len(state)} values or more",
            f"{len(body.input)} inputs and {len(body.output)} values",
        )
    if not is_dynamic and not isinstance(most, GraphTensor) and not isinstance(going, GraphTensor):
        results = _unrolled(node, body, (most, going), state)
        if results is not None:
            return results
    return list(_while(node, body, (most, going), state, collected))


def _with_rows(
    node: NodeContext, body: GraphProto, state: Sequence[Value], listed: Sequence[int]
) -> list[Value]:
    """The results of a loop that appends to sequences, whose new elements `body` collects as its last rows."""
    length = (node.value(0) if node.has(0) else None, node.value(1) if node.has(1) else None)
    tensors = [value for i, value in enumerate(state) if i not in listed]
    collected = len(body.output) - 1 - len(tensors)
    made = _while(node, body, length, tensors, collected)
    rows = made[len(made) - len(listed) :]
    results: list[Value] = [*made[: len(made) - len(listed)]]
    for i, elements in zip(listed, rows, strict=True):
        results.insert(i, appended(state[i], elements))
    return results


def _while(
    node: NodeContext,
    body: GraphProto,
    length: tuple[Value | None, Value | None],
    state: Sequence[Value],
    collected: int,
) -> list[GraphTensor]:
    most, going = length
    names, outer = [x.name for x in body.input], Captured(node, [body])
    limit: GraphTensor | Size | None = None
    has_limit = most is not None and not isinstance(most, GraphTensor)
    room = node.room() if collected and not has_limit and node.may_count else None
    if isinstance(most, GraphTensor):
        limit = node.reshaped(node.converted(most, S64), ())
        if room is not None:  # the number of rows is known before the first
            limit = node.helper("max", limit, node.constant(0, S64))
            limit = node.counted(limit, None, room=room)
    elif most is not None:
        limit = node.integer(0, "the number of rounds")
    runs_on = not isinstance(going, GraphTensor) and (going is None or bool(going.all()))
    first = None if runs_on else truth(node, node.scope.as_tensor(going))

    def step(
        build: OpBuilder, trip: GraphTensor, state: list[GraphTensor], fixed: list[GraphTensor]
    ) -> Round:
        scope = outer.scope(build.graph, fixed)
        scope.values.update(zip(names, (trip, np.array(True), *state), strict=True))
        holds, *results = scope.import_graph(body, scope)
        tensors = [scope.as_tensor(value) for value in results]
        is_unknown = isinstance(holds, GraphTensor) or not bool(np.all(holds))
        still = build.helper("reshape", scope.as_tensor(holds), shape=()) if is_unknown else None
        return Round(tensors[: len(state)], tensors[len(state) :], None if going is None else still)

    values = [node.scope.as_tensor(value) for value in state]
    loop = CountedLoop(node, limit, first, [False] * collected, room)
    return loop.make(values, outer.tensors, step)


def _unrolled(
    node: NodeContext,
    body: GraphProto,
    length: tuple[Value | None, Value | None],
    state: Sequence[Value],
) -> list[Value] | None:
    """The results of a loop whose length is known and short; None for any other, leaving the graph unchanged."""
    most, going = (None if x is None else np.asarray(x).reshape(()) for x in length)
    limit = MAX_UNROLLED // max(sum(1 for _ in every_node(body)), 1)
    names, current = [x.name for x in body.input], list(state)
    rows: list[list[Value]] = []

    def advance(trip: int) -> bool | None:
        if trip == 0 and going is not None and not going:
            return False
        if most is not None and trip >= most:
            return False
        if trip > limit:
            return None
        given = (np.array(trip, np.int64), np.array(True), *current)
        still, *results = node.scope.inline(body, dict(zip(names, given, strict=True)))
        current[:] = results[: len(state)]
        rows.append(results[len(state) :])
        if going is None:
            return True
        return None if isinstance(still, GraphTensor) else bool(np.asarray(still).reshape(()))

    if not unroll(node.scope.graph, limit + 1, advance):
        return None
    collected = range(len(body.output) - 1 - len(state))
    if collected and not rows:
        raise node.unsupported(
            "collecting rows in no rounds, whose shape is then never told,", FIXED
        )
    parts = ([node.scope.as_tensor(row[k]) for row in rows] for k in collected)
    return [*current, *(stack(node, *part) for part in parts)]


HANDLERS: dict[str, Handler] = {"Loop": _loop}
