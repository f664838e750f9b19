"""Replaces names for formats that cannot represent every name."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.graph import Graph


def with_names(graph: Graph, written: Callable[[str], str]) -> Graph:
    """The graph, or a copy in which every op is named `written(name)`, with a numeric suffix if needed."""
    names = [written(op.name) for op in graph.ops]
    if names == [op.name for op in graph.ops]:
        return graph
    twin = graph.copy()
    for op, name in zip(twin.ops, names, strict=True):
        if op.name != name:
            twin.rename(op, name)
    return twin
