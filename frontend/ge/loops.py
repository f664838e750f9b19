"""While and For. A short loop of known length is unrolled, so that its body may use the counter as a shape; the others
become a `while`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import numpy as np

from ...base.dtypes import S64
from ...base.errors import UnsupportedError
from ...graph_ir.ir.graph import Graph, GraphTensor
from ...graph_ir.rewriting.trip_count import MAX_UNROLLED
from ..correspondence.compositions.control import CountedLoop, Round, truth, unroll, while_loop
from ..correspondence.compositions.growing_state import changing_state
from ..correspondence.scoped import details_of
from ..op_builder import OpBuilder, Value
from .document import DumpGraph
from .liveness import live_nodes
from .scope import NodeContext
from .subgraphs import Call, ControlHandler, Typed, arguments_of, as_tensor, bound, fitted

_LOG = logging.getLogger("graphc.ge")


class _RetypedError(Exception):
    """Give a value of guessed type in the body another type; `state` has it."""

    def __init__(self, state: list[Typed]) -> None:
        super().__init__()
        self.state = state


class _State:
    """The values a loop carries, some of which have a type that is only guessed."""

    def __init__(self, node: NodeContext, values: list[Typed]) -> None:
        self.node, self.values = node, values
        self.loose: list[bool] = []
        """Find the state variables whose types the body leaves undetermined."""

    def typed(self, tensors: Sequence[GraphTensor]) -> dict[int, Typed]:
        """The inputs of a subgraph for these values, by number."""
        return {i: (x, self.values[i][1]) for i, x in enumerate(tensors)}

    def following(self, graph: Graph, results: list[Typed]) -> list[GraphTensor]:
        """The results of an iteration in the types of the values; _RetypedError where these must change."""
        pairs = list(zip(self.values, results, strict=True))
        new = [self._taken_over(*pair) for pair in pairs]
        if [details_of(v) for v, _ in new] != [details_of(v) for v, _ in self.values]:
            raise _RetypedError(new)
        self.loose = [before[1] and result[1] for before, result in pairs]
        found = []
        for (before, _), result in pairs:
            tensor = fitted(self.node, graph, result, details_of(before))
            if tensor is None:
                raise changing_state(self.node, details_of(before), details_of(result[0]))
            found.append(tensor)
        return found

    def _taken_over(self, before: Typed, result: Typed) -> Typed:
        if not before[1] or result[1]:
            return before
        tensor = fitted(self.node, self.node.graph, before, details_of(result[0]))
        return before if tensor is None else (tensor, details_of(before[0]) == tensor.details)

    def after(self, make: Callable[[_State, list[GraphTensor]], list[GraphTensor]]) -> list[Typed]:
        """Return the results of the loop that `make` builds, in types that it keeps."""
        state = self
        while True:
            tensors = [as_tensor(self.node.graph, value) for value, _ in state.values]
            try:
                made = make(state, tensors)
                return list(zip(made, state.loose, strict=True))
            except _RetypedError as error:
                state = _State(self.node, error.state)


def _carried(node: NodeContext, first: int = 0) -> list[Typed]:
    arguments = arguments_of(node)
    # GE's dynamic inputs may be counted from 0 or, in a loop with a counter, from 1.
    if arguments and min(arguments) not in (0, first):
        raise node.rule(f"inputs must be counted from {first}", str(sorted(arguments)))
    return list(arguments.values())


def _rounds_to_unroll(body: DumpGraph) -> int:
    return MAX_UNROLLED // max(len(live_nodes(body)), 1)


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

    def make(state: _State, tensors: list[GraphTensor]) -> list[GraphTensor]:
        def decide(graph: Graph, own: list[GraphTensor], _: list[GraphTensor]) -> GraphTensor:
            ((holds, _loose),) = call(condition, graph.name, state.typed(own), graph)
            holds = truth(OpBuilder(graph, node.type, node.name), holds)
            if not isinstance(holds, GraphTensor) and bool(holds):
                raise node.unsupported("a loop whose condition always holds")
            return as_tensor(graph, holds)

        def once(
            graph: Graph, _: list[GraphTensor], own: list[GraphTensor], same: list[GraphTensor]
        ) -> list[GraphTensor]:
            return state.following(graph, call(body, graph.name, state.typed(own), graph))

        return while_loop(node, tensors, [], decide, once)

    return bound(node, _State(node, carried).after(make))


def _unrolled(node: NodeContext, call: Call, carried: list[Typed]) -> list[Typed] | None:
    """The final state of a loop whose length is known and short; None for any other, leaving the graph unchanged."""
    condition, body = node.attr_graph("cond"), node.attr_graph("body")
    state = list(carried)

    def advance(trip: int) -> bool | None:
        arguments = dict(enumerate(state))
        ((holds, _),) = call(condition, f"{node.name}/cond.{trip}", arguments)
        if isinstance(holds, GraphTensor):
            return None
        if truth(node, holds):
            state[:] = call(body, f"{node.name}/{trip}", arguments)
            return True
        return False

    return state if unroll(node.graph, _rounds_to_unroll(body), advance) else None


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
    results: list[Typed] = [(np.array(start, dtype), True), *carried]
    for trip in range(trips):
        counter: Typed = (np.array(start + trip * delta, dtype), True)
        values = call(body, f"{node.name}/{trip}", dict(enumerate([counter, *results[1:]])))
        results = values if extra else [counter, *values]
    return bound(node, results if extra else results[1:])


def _counted(node: NodeContext, call: Call, carried: list[Typed], extra: bool) -> list[Typed]:
    """The `while` of a For, of as many iterations as k * |delta| < |limit - start|; none if delta is 0."""
    body = node.attr_graph("body")
    bounds = [node.scalar(name) for name in ("start", "limit", "delta")]
    known = [x.details.dtype for x in bounds if not x.is_constant]
    dtype = known[0] if known else bounds[0].details.dtype
    start, limit, delta = (node.converted(x, S64) for x in bounds)
    size, step = node.helper("abs", node.helper("sub", limit, start)), node.helper("abs", delta)
    one, zero = (node.constant(number, S64) for number in (1, 0))
    above = node.helper("sub", node.helper("add", size, step), one)
    count = node.helper("div", above, node.helper("max", step, one))
    trips = node.helper("select", node.helper("ne", step, zero), count, zero)

    def make(state: _State, tensors: list[GraphTensor]) -> list[GraphTensor]:
        def once(
            build: OpBuilder, trip: GraphTensor, own: list[GraphTensor], fixed: list[GraphTensor]
        ) -> Round:
            way = build.helper("add", fixed[0], build.helper("mul", trip, fixed[1]))
            values = [*state.typed(own).values()]
            counter: Typed = (build.converted(way, dtype), not known)
            arguments = dict(enumerate([counter, *values[extra:]]))
            results = call(body, build.graph.name, arguments, build.graph)
            return Round(state.following(build.graph, results))

        return CountedLoop(node, trips).make(tensors, [start, delta], once)

    own: list[Typed] = [(node.converted(start, dtype), not known)] if extra else []
    return _State(node, [*own, *carried]).after(make)


HANDLERS: dict[str, ControlHandler] = {
    **dict.fromkeys(("While", "StatelessWhile", "StatefulWhile"), _while),
    "For": _for,
}
