"""If and Loop.

Control flow known at import is resolved then: a branch is inlined, a short loop of known length is unrolled, which lets
its body use the iteration number as a shape or an axis. Everything else becomes `case` and `while`, whose subgraphs
take outer values as inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import GraphProto

from ...base.dtypes import BOOL, S64
from ...graph_ir.ir.graph import Graph, GraphTensor
from ...graph_ir.rewriting.trip_count import MOST_UNROLLED
from ..op_builder import Value
from .nesting import every_node
from .scope import Handler, NodeContext, Scope
from .while_loop import Captured, Round, WhileLoop, finished


def _if(node: NodeContext) -> list[Value]:
    graphs = [node.attr_graph("else_branch"), node.attr_graph("then_branch")]
    known = node.known(0)
    if known is not None and known.size == 1:
        return node.scope.inline(graphs[bool(known.reshape(()))], {})
    outer = Captured(node, graphs)
    branches = []
    for proto in graphs:
        inner, inputs = outer.scope(f"{node.name}.{proto.name}")
        results = [inner.as_tensor(value) for value in inner.import_graph(proto, inner)]
        branches.append(finished(inner.graph, inputs, results))
    _check_branches(node, branches)
    index = node.converted(_truth(node, node.tensor(0)), S64)
    attrs = {"branches": tuple(branches)}
    choice = node.scope.graph.make("case", [index, *outer.tensors], attrs, node.name)
    return list(choice.outputs)


def _check_branches(node: NodeContext, branches: Sequence[Graph]) -> None:
    """UnsupportedError if the type of a result depends on the branch."""
    types = [
        ", ".join(str(op.inputs[0].details) for op in branch.outputs)
        for branch in reversed(branches)
    ]
    if types[0] != types[1]:
        raise node.unsupported(
            f"a choice between results of different types ({types[0]} and {types[1]})"
        )


def _truth(node: NodeContext, x: GraphTensor) -> GraphTensor:
    """A condition as bool[]."""
    if x.details.elements != 1:
        raise node.rule("a condition must have one element", str(x.details))
    return node.reshaped(node.converted(x, BOOL), ())


def _loop(node: NodeContext) -> list[Value]:
    body = node.attr_graph("body")
    most = node.value(0) if node.has(0) else None
    going = node.value(1) if node.has(1) else None
    state = [node.value(i) for i in range(2, node.count)]
    collected = len(body.output) - 1 - len(state)
    if len(body.input) != 2 + len(state) or collected < 0:
        raise node.rule(
            f"the body must take {2 + len(state)} inputs and return {1 + len(state)} values or more",
            f"{len(body.input)} inputs and {len(body.output)} values",
        )
    if not isinstance(most, GraphTensor) and not isinstance(going, GraphTensor):
        results = _unrolled(node, body, (most, going), state)
        if results is not None:
            return results
    return list(_while(node, body, (most, going), state, collected))


def _while(
    node: NodeContext,
    body: GraphProto,
    length: tuple[Value | None, Value | None],
    state: Sequence[Value],
    collected: int,
) -> list[GraphTensor]:
    most, going = length
    names = [x.name for x in body.input]
    if isinstance(most, GraphTensor):
        most = node.reshaped(node.converted(most, S64), ())
    first = None if going is None else _truth(node, node.scope.as_tensor(going))

    def step(
        scope: Scope, trip: GraphTensor, state: list[GraphTensor], fixed: list[GraphTensor]
    ) -> Round:
        scope.values.update(zip(names, (trip, np.array(True), *state), strict=True))
        holds, *results = [scope.as_tensor(v) for v in scope.import_graph(body, scope)]
        still = None
        if going is not None:
            still = scope.graph.make("reshape", (holds,), {"shape": ()}).outputs[0]
        return Round(still, results[: len(state)], results[len(state) :])

    values = [node.scope.as_tensor(value) for value in state]
    loop = WhileLoop(node, body, values, [], most, first)
    return loop.make(step, [False] * collected)


def _unrolled(
    node: NodeContext,
    body: GraphProto,
    length: tuple[Value | None, Value | None],
    state: Sequence[Value],
) -> list[Value] | None:
    """The results of a loop whose length is known and short; None for any other, leaving the graph unchanged."""
    most, going = (None if x is None else np.asarray(x).reshape(()) for x in length)
    limit = MOST_UNROLLED // max(sum(1 for _ in every_node(body)), 1)
    names = [x.name for x in body.input]
    count, trip, current = len(node.scope.graph.ops), 0, list(state)
    rows: list[list[Value]] = []
    holds = going is None or bool(going)
    while holds and (most is None or trip < most):
        given = (np.array(trip, np.int64), np.array(True), *current)
        still, *results = node.scope.inline(body, dict(zip(names, given, strict=True)))
        if trip == limit or (going is not None and isinstance(still, GraphTensor)):
            node.scope.graph.remove(node.scope.graph.ops[count:])
            return None
        holds = going is None or bool(np.asarray(still).reshape(()))
        current = results[: len(state)]
        rows.append(results[len(state) :])
        trip += 1
    collected = range(len(body.output) - 1 - len(state))
    if collected and not rows:
        raise node.unsupported("collecting rows in no rounds, whose shape is then never told,")
    return [*current, *(_stacked(node, [row[k] for row in rows]) for k in collected)]


def _stacked(node: NodeContext, rows: Sequence[Value]) -> Value:
    """The rows stacked along a new first axis."""
    parts = [node.scope.as_tensor(row) for row in rows]
    parts = [node.reshaped(x, (1, *x.details.plain_dims)) for x in parts]
    return parts[0] if len(parts) == 1 else node.helper("concat", *parts, axis=0)


HANDLERS: dict[str, Handler] = {"If": _if, "Loop": _loop}
