"""While and For. A short loop of known length is unrolled, so that its body may use the counter as a shape; the others
become a `while`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...base.dtypes import BOOL, S64
from ...base.errors import UnsupportedError
from ...graph_ir.ir.graph import Array, Graph, GraphTensor
from ...graph_ir.rewriting.trip_count import MOST_UNROLLED
from ..op_builder import Value
from .document import DumpGraph
from .liveness import live_nodes
from .scope import NodeContext, known_scalar
from .subgraphs import (
    Call,
    ControlHandler,
    Typed,
    arguments_of,
    as_tensor,
    bound,
    details_of,
    fitted,
)

_LOG = logging.getLogger("graphc.ge")

Part = Callable[[Graph, list[Typed], list[GraphTensor]], list[Typed]]
"""Imports a condition (one bool[] result) or a body into a graph, given the state and the loop-invariant values."""


@dataclass(frozen=True)
class _Loop:
    """Builds a `while`."""

    node: NodeContext
    condition: Part
    body: Part
    fixed: list[GraphTensor]

    def make(self, state: Sequence[Typed]) -> list[Typed]:
        """The final state. A value of guessed type takes the type that the body gives it."""
        node, now = self.node, list(state)
        for _ in range(len(now) + 1):
            graph, given = self._begun("body", now)
            results = self.body(graph, *given)
            new = [self._taken_over(*pair) for pair in zip(now, results, strict=True)]
            if [details_of(v) for v, _ in new] == [details_of(v) for v, _ in now]:
                break
            now = new
        for before, result in zip(now, results, strict=True):
            tensor = fitted(node, graph, result, details_of(before[0]))
            if tensor is None:
                types = f"from {details_of(before[0])} to {details_of(result[0])}"
                raise node.unsupported(f"a state whose type changes from round to round ({types})")
            graph.make_output(tensor)
        graph.sort()
        attrs = {"condition": self._condition(now), "body": graph}
        inputs = [*(as_tensor(node.graph, value) for value, _ in now), *self.fixed]
        loop = node.graph.make("while", inputs, attrs, node.name)
        loose = [old and new for (_, old), (_, new) in zip(now, results, strict=True)]
        return list(zip(loop.outputs, loose, strict=True))

    def _taken_over(self, before: Typed, result: Typed) -> Typed:
        if not before[1] or result[1]:
            return before
        tensor = fitted(self.node, self.node.graph, before, details_of(result[0]))
        return before if tensor is None else (tensor, details_of(before[0]) == tensor.details)

    def _condition(self, state: Sequence[Typed]) -> Graph:
        graph, given = self._begun("cond", state)
        ((holds, _),) = self.condition(graph, *given)
        if not isinstance(holds, GraphTensor) and bool(holds):
            raise self.node.unsupported("a loop whose condition always holds")
        graph.make_output(as_tensor(graph, holds))
        graph.sort()
        return graph

    def _begun(
        self, name: str, state: Sequence[Typed]
    ) -> tuple[Graph, tuple[list[Typed], list[GraphTensor]]]:
        """A subgraph with its inputs: the state and the loop-invariant values."""
        graph = Graph(f"{self.node.name}/{name}")
        inputs: list[Typed] = [
            (graph.make_input(details_of(value), "state"), loose) for value, loose in state
        ]
        return graph, (inputs, [graph.make_input(x.details, x.name) for x in self.fixed])


def _carried(node: NodeContext, first: int = 0) -> list[Typed]:
    arguments = arguments_of(node)
    # GE's dynamic inputs may be counted from 0 or, in a loop with a counter, from 1.
    if arguments and min(arguments) not in (0, first):
        raise node.rule(f"inputs must be counted from {first}", str(sorted(arguments)))
    return list(arguments.values())


def _rounds_to_unroll(body: DumpGraph) -> int:
    return MOST_UNROLLED // max(len(live_nodes(body)), 1)


def _while(node: NodeContext, call: Call) -> list[Value]:
    condition, body = node.attr_graph("cond"), node.attr_graph("body")
    carried = _carried(node)
    if len(body.results) != len(carried):
        counts = f"{len(body.results)} results and {len(carried)} inputs"
        raise node.rule("the body must return one value for each input of the loop", counts)
    if len(condition.results) != 1:
        raise node.rule("the condition must return one value", f"{len(condition.results)} values")
    unrolled = _unrolled(node, call, carried)
    if unrolled is not None:
        return bound(node, unrolled)

    def decide(graph: Graph, state: list[Typed], fixed: list[GraphTensor]) -> list[Typed]:
        ((holds, _),) = call(condition, graph.name, dict(enumerate(state)), graph)
        return [(_truth(graph, holds), False)]

    def one_round(graph: Graph, state: list[Typed], fixed: list[GraphTensor]) -> list[Typed]:
        return call(body, graph.name, dict(enumerate(state)), graph)

    return bound(node, _Loop(node, decide, one_round, []).make(carried))


def _truth(graph: Graph, value: Value) -> Value:
    """A condition as a bool[]; a non-scalar is true if it has elements."""
    count = value.size if isinstance(value, np.ndarray) else value.details.elements
    if isinstance(value, np.ndarray) or count != 1:
        return np.array(_holds(value) if isinstance(value, np.ndarray) else bool(count))
    if value.details.dtype != BOOL:
        value = graph.make("cast", (value,), {"dtype": BOOL.name}).outputs[0]
    return graph.make("reshape", (value,), {"shape": ()}).outputs[0]


def _holds(array: Array) -> bool:
    return bool(known_scalar(array)) if array.size == 1 else bool(array.size)


def _unrolled(node: NodeContext, call: Call, carried: list[Typed]) -> list[Typed] | None:
    """The final state of a loop whose length is known and short; None for any other, leaving the graph unchanged."""
    condition, body = node.attr_graph("cond"), node.attr_graph("body")
    count, trip, state = len(node.graph.ops), 0, carried
    while trip <= _rounds_to_unroll(body):
        arguments = dict(enumerate(state))
        ((holds, _),) = call(condition, f"{node.name}/cond.{trip}", arguments)
        if isinstance(holds, GraphTensor):
            break
        if not _holds(holds):
            return state
        state = call(body, f"{node.name}/{trip}", arguments)
        trip += 1
    node.graph.remove(node.graph.ops[count:])
    return None


def _for(node: NodeContext, call: Call) -> list[Value]:
    body = node.attr_graph("body")
    carried = _carried(node, first=1)
    # GE's own example has one result more than carried values: the first is then that of the last iteration.
    extra = len(body.results) == len(carried) + 1 == node.node.outputs
    if not extra and len(body.results) != len(carried):
        counts = f"{len(body.results)} results and {len(carried)} inputs"
        raise node.rule("the body must return one value for each input of the loop", counts)
    if any(node.known(name) is None for name in ("start", "limit", "delta")):
        return bound(node, _counted(node, call, carried, extra))
    start, limit, delta = (node.integer(name) for name in ("start", "limit", "delta"))
    if not delta and start != limit:
        raise node.rule("delta must not be 0", f"start {start}, limit {limit}")
    trips = -(-abs(limit - start) // abs(delta)) if delta else 0
    if trips > _rounds_to_unroll(body):
        try:
            return bound(node, _counted(node, call, carried, extra))
        except UnsupportedError as error:
            # The body uses the counter as a shape or an axis; ops already built are dead and removed by the first pass.
            _LOG.info("%s is unrolled: %s", node.name, error)
    dtype = np.int32 if all(-(2**31) <= v < 2**31 for v in (start, limit)) else np.int64
    own: Typed = (np.array(start, dtype), True)
    for trip in range(trips):
        counter: Typed = (np.array(start + trip * delta, dtype), True)
        arguments = {0: counter, **{i + 1: value for i, value in enumerate(carried)}}
        results = call(body, f"{node.name}/{trip}", arguments)
        if extra:
            own, *carried = results
        else:
            carried = results
    return bound(node, [own, *carried] if extra else carried)


def _counted(node: NodeContext, call: Call, carried: list[Typed], extra: bool) -> list[Typed]:
    """The `while` of a For: its state is the iteration number, the body's counter, and the values.

    Iterations k = 0, 1, ... while k * |delta| < |limit - start|; none if delta is 0.
    """
    body = node.attr_graph("body")
    bounds = [node.scalar(name) for name in ("start", "limit", "delta")]
    known = [x.details.dtype for x in bounds if x.producer_owner.op_name != "constant"]
    dtype = known[0] if known else bounds[0].details.dtype
    start, limit, delta = (node.converted(x, S64) for x in bounds)
    size, step = node.helper("abs", node.helper("sub", limit, start)), node.helper("abs", delta)
    fixed = [start, delta, size, step]

    def decide(graph: Graph, state: list[Typed], fixed: list[GraphTensor]) -> list[Typed]:
        reached = graph.make("mul", (as_tensor(graph, state[0][0]), fixed[3])).outputs[0]
        below = graph.make("lt", (reached, fixed[2])).outputs[0]
        moves = graph.make("ne", (fixed[3], graph.make_constant(np.array(0, np.int64)))).outputs[0]
        return [(graph.make("and", (below, moves)).outputs[0], False)]

    def one_round(graph: Graph, state: list[Typed], fixed: list[GraphTensor]) -> list[Typed]:
        number = as_tensor(graph, state[0][0])
        way = graph.make("mul", (number, fixed[1])).outputs[0]
        counter = graph.make("add", (fixed[0], way)).outputs[0]
        counter = graph.make("cast", (counter,), {"dtype": dtype.name}).outputs[0]
        values = state[2:] if extra else state[1:]
        arguments = {0: (counter, not known), **{i + 1: value for i, value in enumerate(values)}}
        following = graph.make("add", (number, graph.make_constant(np.array(1, np.int64)))).outputs[
            0
        ]
        return [(following, False), *call(body, graph.name, arguments, graph)]

    own: list[Typed] = [(node.converted(start, dtype), not known)] if extra else []
    first: Typed = (np.array(0, np.int64), False)
    return _Loop(node, decide, one_round, fixed).make([first, *own, *carried])[1:]


HANDLERS: dict[str, ControlHandler] = {
    **dict.fromkeys(("While", "StatelessWhile", "StatefulWhile"), _while),
    "For": _for,
}
