"""Liveness: the nodes of a graph that its results need."""

from __future__ import annotations

from .document import DumpGraph, Node


def live_nodes(graph: DumpGraph) -> list[Node]:
    """The nodes whose outputs the results depend on, in the graph's order."""
    needed = {reference.node for reference in graph.results}
    live: list[Node] = []
    for node in reversed(
        graph.nodes
    ):  # definitions come before uses: one walk from the back is enough
        if node.name in needed:
            live.append(node)
            if node.type != "Data":  # a Data of a subgraph may have an input itself
                needed.update(reference.node for _, reference in node.inputs)
    return live[::-1]
