"""If, Case and calls. Calls are inlined, and so are branches known at import; other branches become a `case`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...base.dtypes import S64
from ...graph_ir.ir.graph import Graph, GraphTensor
from ..correspondence.compositions.control import choice, finished, inputs_like, truth
from ..correspondence.scoped import details_of
from ..op_builder import Value
from .document import DumpGraph, GraphName
from .loops import HANDLERS as LOOPS
from .scope import NodeContext
from .subgraphs import Call, ControlHandler, Typed, arguments_of, bound, fitted


def _call(node: NodeContext, call: Call) -> list[Value]:
    """A graph under its own name, or as the first one of a node whose signature the writer did not know."""
    key, name = ("f", "args") if "f" in node.node.attrs else ("_graph_0", "_input")
    arguments = arguments_of(node, name) or arguments_of(node, "args")
    return bound(node, call(node.attr_graph(key), node.name, arguments))


def _if(node: NodeContext, call: Call) -> list[Value]:
    branches = [node.attr_graph("then_branch"), node.attr_graph("else_branch")]
    holds = truth(node, node.value("cond"))
    if not isinstance(holds, GraphTensor):
        return bound(node, call(branches[0 if holds else 1], node.name, arguments_of(node)))
    graphs = {"else": branches[1], "then": branches[0]}
    return _choice(node, call, node.converted(holds, S64), graphs)


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
    outside = [value for value, _ in arguments.values() if isinstance(value, GraphTensor)]
    graphs = [Graph(f"{node.name}/{name}") for name in branches]
    inputs = [inputs_like(graph, outside) for graph in graphs]
    found = [
        call(branch, graph.name, _inside(arguments, given), graph)
        for branch, graph, given in zip(branches.values(), graphs, inputs, strict=True)
    ]
    counts = [len(results) for results in found]
    if len(set(counts)) > 1:
        raise node.rule("all branches must have the same number of results", str(counts))
    loose: list[bool] = []
    results: list[list[GraphTensor]] = [[] for _ in graphs]
    for several in zip(*found, strict=True):
        tensors, is_loose = _one_type(node, graphs, several)
        loose.append(is_loose)
        for mine, tensor in zip(results, tensors, strict=True):
            mine.append(tensor)
    made = [finished(*parts) for parts in zip(graphs, inputs, results, strict=True)]
    return bound(node, list(zip(choice(node, index, made, outside), loose, strict=True)))


def _inside(arguments: Mapping[int, Typed], inputs: Sequence[GraphTensor]) -> dict[int, Typed]:
    """The arguments in a subgraph: arrays unchanged, tensors as its inputs."""
    rest = iter(inputs)
    return {
        index: (next(rest) if isinstance(value, GraphTensor) else value, loose)
        for index, (value, loose) in arguments.items()
    }


def _one_type(
    node: NodeContext, graphs: Sequence[Graph], results: Sequence[Typed]
) -> tuple[list[GraphTensor], bool]:
    """One result of all branches, in the type of the first that is not guessed; whether all are."""
    certain = [details_of(value) for value, guessed in results if not guessed]
    wanted = certain[0] if certain else details_of(results[0][0])
    tensors = []
    for graph, result in zip(graphs, results, strict=True):
        tensor = fitted(node, graph, result, wanted)
        if tensor is None:
            raise node.unsupported(
                f"a choice between results of different types ({wanted} and {details_of(result[0])})"
            )
        tensors.append(tensor)
    return tensors, not certain


HANDLERS: dict[str, ControlHandler] = {
    **dict.fromkeys(("If", "StatelessIf", "StatefulIf"), _if),
    **dict.fromkeys(("Case", "StatelessCase"), _case),
    **dict.fromkeys(("PartitionedCall", "StatefulPartitionedCall"), _call),
    **LOOPS,
}
