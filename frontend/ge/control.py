"""If, Case and calls. Calls are inlined, and so are branches known at import; other branches become a `case`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...base.dtypes import BOOL, S64
from ...graph_ir.ir.graph import Graph, GraphTensor
from ..op_builder import Value
from .document import DumpGraph, GraphName
from .loops import HANDLERS as LOOPS
from .scope import NodeContext, known_scalar
from .subgraphs import (
    Call,
    ControlHandler,
    Typed,
    arguments_of,
    bound,
    details_of,
    entered,
    fitted,
    outside_tensors,
)


def _call(node: NodeContext, call: Call) -> list[Value]:
    return bound(node, call(node.attr_graph("f"), node.name, arguments_of(node, "args")))


def _if(node: NodeContext, call: Call) -> list[Value]:
    branches = [node.attr_graph("then_branch"), node.attr_graph("else_branch")]
    condition = node.scope.values[node.reference("cond")]
    count = condition.size if isinstance(condition, np.ndarray) else condition.details.elements
    if count != 1 or isinstance(condition, np.ndarray):
        # A non-scalar condition is true if it has elements.
        holds = (
            bool(known_scalar(condition))
            if isinstance(condition, np.ndarray) and count == 1
            else bool(count)
        )
        return bound(node, call(branches[0 if holds else 1], node.name, arguments_of(node)))
    truth = node.reshaped(node.converted(condition, BOOL), ())
    graphs = {"else": branches[1], "then": branches[0]}
    return _choice(node, call, node.converted(truth, S64), graphs)


def _case(node: NodeContext, call: Call) -> list[Value]:
    graphs = [
        node.scope.session.dump.graph(value.name)
        for key, value in node.node.attrs.items()
        if key.startswith("branches") and isinstance(value, GraphName)
    ]
    if not graphs:
        raise node.rule("attributes 'branches0', ... must name graphs", "none")
    if node.known("branch_index") is not None:
        index = node.integer("branch_index")
        index = index if 0 <= index < len(graphs) else len(graphs) - 1
        return bound(node, call(graphs[index], node.name, arguments_of(node)))
    index_value = node.converted(node.scalar("branch_index"), S64)
    return _choice(node, call, index_value, {str(i): graph for i, graph in enumerate(graphs)})


def _choice(
    node: NodeContext, call: Call, index: GraphTensor, branches: dict[str, DumpGraph]
) -> list[Value]:
    """A `case` of branches, named by their graphs."""
    arguments = arguments_of(node)
    graphs, found = [], []
    for name, branch in branches.items():
        graph = Graph(f"{node.name}/{name}")
        given = entered(graph, arguments)
        found.append(call(branch, graph.name, given, graph))
        graphs.append(graph)
    counts = [len(results) for results in found]
    if len(set(counts)) > 1:
        raise node.rule("all branches must have the same number of results", str(counts))
    loose = [_one_type(node, graphs, [results[i] for results in found]) for i in range(counts[0])]
    for graph in graphs:
        graph.sort()
    inputs = [index, *outside_tensors(arguments)]
    choice = node.graph.make("case", inputs, {"branches": tuple(graphs)}, node.name)
    return bound(node, list(zip(choice.outputs, loose, strict=True)))


def _one_type(node: NodeContext, graphs: Sequence[Graph], results: Sequence[Typed]) -> bool:
    """Return one result from all branches, in the type of the first that is not guessed; whether all are."""
    certain = [details_of(value) for value, guessed in results if not guessed]
    wanted = certain[0] if certain else details_of(results[0][0])
    for graph, result in zip(graphs, results, strict=True):
        tensor = fitted(node, graph, result, wanted)
        if tensor is None:
            raise node.unsupported(
                f"a choice between results of different types ({wanted} and {details_of(result[0])})"
            )
        graph.make_output(tensor)
    return not certain


HANDLERS: dict[str, ControlHandler] = {
    **dict.fromkeys(("If", "StatelessIf", "StatefulIf"), _if),
    **dict.fromkeys(("Case", "StatelessCase"), _case),
    **dict.fromkeys(("PartitionedCall", "StatefulPartitionedCall"), _call),
    **LOOPS,
}
