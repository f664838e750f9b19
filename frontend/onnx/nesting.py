"""Graphs nested in the nodes of a graph, and the outer values they read."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import AttributeProto, GraphProto, NodeProto


def graphs_of(node: NodeProto) -> list[GraphProto]:
    """The graphs among a node's attributes."""
    return [graph for attribute in node.attribute for graph in graphs_in(attribute)]


def graphs_in(attribute: AttributeProto) -> list[GraphProto]:
    """Return the graphs that an attribute holds."""
    if attribute.type == AttributeProto.GRAPH:
        return [attribute.g]
    return list(attribute.graphs) if attribute.type == AttributeProto.GRAPHS else []


def every_graph(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and those inside it, at any depth."""
    pending = [graph]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(inner for node in current.node for inner in graphs_of(node))


def every_node(graph: GraphProto) -> Iterator[NodeProto]:
    """The nodes of a graph and of those inside it."""
    for current in every_graph(graph):
        yield from current.node


def reads(node: NodeProto) -> list[str]:
    """The names a node reads: its inputs, and the outer values its graphs read."""
    names = [name for name in node.input if name]
    return [*names, *(name for graph in graphs_of(node) for name in captured(graph))]


def captured(graph: GraphProto) -> list[str]:
    """The names a graph and those inside it read but do not define, each once.

    Protobuf reads graphs at most 100 deep, so this may recurse.
    """
    own = {x.name for x in graph.initializer} | {x.name for x in graph.input}
    own.update(name for node in graph.node for name in node.output)
    read = [name for node in graph.node for name in reads(node)]
    read += [x.name for x in graph.output]
    return [name for name in dict.fromkeys(read) if name not in own]
