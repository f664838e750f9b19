"""Control flow without branches in the graph: calls are inlined, loops of known length unrolled, and of branches that
depend on the model's inputs all are computed and one is selected. Ops have no side effects, so the results are GE's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ...dtypes import S64
from ...graph_ir.graph import Array, GraphTensor
from ..op_builder import Value
from .document import DumpGraph, GraphName, Reference
from .scope import NodeContext, known_scalar

Typed = tuple[Value, bool]
"""A value, and whether its dtype was only guessed."""

Call = Callable[[DumpGraph, str, Mapping[int, Typed]], list[Typed]]
"""Imports a graph with values for its Data nodes, under a name; its results."""

ControlHandler = Callable[[NodeContext, Call], list[Value]]


def _arguments(node: NodeContext, name: str = "input") -> dict[int, Typed]:
    scope = node.scope
    return {
        index: (scope.values[reference], reference in scope.guessed)
        for index, reference in node.dynamic(name).items()
    }


def _bound(node: NodeContext, results: list[Typed]) -> list[Value]:
    """The values, with those of guessed dtype marked in the node's scope."""
    for index, (_, loose) in enumerate(results):
        if loose:
            node.scope.guessed.add(Reference(node.node.name, index))
    return [value for value, _ in results]


def _call(node: NodeContext, call: Call) -> list[Value]:
    return _bound(node, call(node.attr_graph("f"), node.name, _arguments(node, "args")))


def _if(node: NodeContext, call: Call) -> list[Value]:
    branches = [node.attr_graph("then_branch"), node.attr_graph("else_branch")]
    arguments = _arguments(node)
    condition = node.scope.values[node.reference("cond")]
    count = condition.size if isinstance(condition, np.ndarray) else condition.details.elements
    if count != 1:  # what is no scalar holds where it has elements
        chosen = branches[0 if count else 1]
        return _bound(node, call(chosen, node.name, arguments))
    if isinstance(condition, np.ndarray):
        chosen = branches[0 if known_scalar(condition) else 1]
        return _bound(node, call(chosen, node.name, arguments))
    found = [
        call(branch, f"{node.name}/{name}", arguments)
        for branch, name in zip(branches, ("then", "else"), strict=True)
    ]
    _check_counts(node, found)
    zero = node.constant(0, condition.details.dtype)
    holds = node.reshaped(node.helper("ne", condition, zero), ())
    return [
        _chosen(node, holds, then, other) for then, other in zip(found[0], found[1], strict=True)
    ]


def _check_counts(node: NodeContext, found: list[list[Typed]]) -> None:
    counts = [len(results) for results in found]
    if len(set(counts)) > 1:
        raise node.rule("all branches must have the same number of results", str(counts))


def _chosen(node: NodeContext, holds: GraphTensor, first: Typed, second: Typed) -> GraphTensor:
    a, b = (_tensor(node, value) for value, _ in (first, second))
    if first[1] and not second[1]:
        a = node.retyped(a, b.details.dtype)
    elif second[1] and not first[1]:
        b = node.retyped(b, a.details.dtype)
    if a.details != b.details:
        raise node.unsupported(
            f"a choice between results of different types ({a.details} and {b.details})"
        )
    return node.make("select", holds, a, b)


def _tensor(node: NodeContext, value: Value) -> GraphTensor:
    if isinstance(value, GraphTensor):
        return value
    return node.graph.make_constant(value, f"{node.name}.constant")


def _case(node: NodeContext, call: Call) -> list[Value]:
    graphs = [
        node.scope.session.dump.graph(value.name)
        for key, value in node.node.attrs.items()
        if key.startswith("branches") and isinstance(value, GraphName)
    ]
    if not graphs:
        raise node.rule("attributes 'branches0', ... must name graphs", "none")
    arguments = _arguments(node)
    known = node.known("branch_index")
    if known is not None:
        index = node.integer("branch_index")
        index = index if 0 <= index < len(graphs) else len(graphs) - 1
        return _bound(node, call(graphs[index], node.name, arguments))
    found = [call(graph, f"{node.name}/{i}", arguments) for i, graph in enumerate(graphs)]
    _check_counts(node, found)
    index_value = node.converted(node.scalar("branch_index"), S64)
    results = found[-1]
    for i in reversed(range(len(found) - 1)):
        here = node.helper("eq", index_value, node.constant(i, S64))
        results = [
            (_chosen(node, here, a, b), False) for a, b in zip(found[i], results, strict=True)
        ]
    return [value for value, _ in results]


def _for(node: NodeContext, call: Call) -> list[Value]:
    start, limit, delta = (node.integer(name) for name in ("start", "limit", "delta"))
    if not delta and start != limit:
        raise node.rule("delta must not be 0", f"start {start}, limit {limit}")
    trips = -(-abs(limit - start) // abs(delta)) if delta else 0
    body = node.attr_graph("body")
    carried = _carried(node, first=1)
    dtype = np.int32 if all(-(2**31) <= v < 2**31 for v in (start, limit)) else np.int64
    # GE's own example has one result more than carried values: then the first is that of the last iteration.
    extra = len(body.results) == len(carried) + 1 == node.node.outputs
    if not extra and len(body.results) != len(carried):
        counts = f"{len(body.results)} results and {len(carried)} inputs"
        raise node.rule("the body must return one value for each input of the loop", counts)
    own: Typed = (np.array(start, dtype), True)
    for trip in range(trips):
        counter: Typed = (np.array(start + trip * delta, dtype), True)
        arguments = {0: counter, **{i + 1: value for i, value in enumerate(carried)}}
        results = call(body, f"{node.name}/{trip}", arguments)
        if extra:
            own, *carried = results
        else:
            carried = results
    return _bound(node, [own, *carried] if extra else carried)


def _carried(node: NodeContext, first: int = 0) -> list[Typed]:
    arguments = _arguments(node)
    # GE's dynamic inputs may be counted from 0 or, in a loop with a counter, from 1.
    if arguments and min(arguments) not in (0, first):
        raise node.rule(f"inputs must be counted from {first}", str(sorted(arguments)))
    return list(arguments.values())


def _while(node: NodeContext, call: Call) -> list[Value]:
    condition, body = node.attr_graph("cond"), node.attr_graph("body")
    carried = _carried(node)
    if len(body.results) != len(carried):
        counts = f"{len(body.results)} results and {len(carried)} inputs"
        raise node.rule("the body must return one value for each input of the loop", counts)
    trip = 0
    while True:
        arguments = dict(enumerate(carried))
        results = call(condition, f"{node.name}/cond.{trip}", arguments)
        if len(results) != 1:
            raise node.rule("the condition must return one value", f"{len(results)} values")
        if not _holds(node, results[0][0]):
            return _bound(node, carried)
        carried = call(body, f"{node.name}/{trip}", arguments)
        trip += 1


def _holds(node: NodeContext, value: Value) -> bool:
    if isinstance(value, GraphTensor):
        raise node.unsupported("a loop whose number of iterations depends on the model's inputs")
    array: Array = value
    return bool(known_scalar(array)) if array.size == 1 else bool(array.size)


HANDLERS: dict[str, ControlHandler] = {
    **dict.fromkeys(("If", "StatelessIf", "StatefulIf"), _if),
    **dict.fromkeys(("Case", "StatelessCase"), _case),
    **dict.fromkeys(("While", "StatelessWhile", "StatefulWhile"), _while),
    **dict.fromkeys(("PartitionedCall", "StatefulPartitionedCall"), _call),
    "For": _for,
}
