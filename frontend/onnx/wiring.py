"""Checks the connections of a file's nodes and sorts them topologically."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from graphlib import CycleError, TopologicalSorter

from onnx import GraphProto, NodeProto

from ...base.errors import UserError
from .nesting import reads
from .scope import node_name

_SHOWN = 8  # names that a message lists before it counts the rest


def ordered_nodes(graph: GraphProto, label: str, outside: Collection[str] = ()) -> list[NodeProto]:
    """The nodes that the outputs depend on, each after those it reads.

    `outside`: names that a graph inside a node may read from those around it. Raise UserError for a value written
    twice, read but never written, or depending on itself.
    """
    sources = {x.name for x in graph.initializer} | {x.name for x in graph.input}
    producer = _producers(graph.node, sources, label)
    _check_reads(graph, sources | set(outside), producer, label)
    return [graph.node[i] for i in _order(graph, producer, label)]


def _producers(nodes: Sequence[NodeProto], sources: set[str], label: str) -> dict[str, int]:
    """The number of the node that writes each value."""
    producer: dict[str, int] = {}
    for number, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in producer:
                first = node_name(nodes[producer[name]])
                raise UserError(
                    f"{label}: a value must have one producer, but '{name}' is written by both "
                    f"{nodes[producer[name]].op_type} '{first}' and {node.op_type} '{node_name(node)}'"
                )
            if name in sources:
                raise UserError(
                    f"{label}: a value must have one producer, but '{name}' is an input or initializer "
                    f"and also written by {node.op_type} '{node_name(node)}'"
                )
            producer[name] = number
    return producer


def _check_reads(
    graph: GraphProto, sources: set[str], producer: dict[str, int], label: str
) -> None:
    missing = [
        f"'{name}' (read by {node.op_type} '{node_name(node)}')"
        for node in graph.node
        for name in reads(node)
        if name not in producer and name not in sources
    ]
    missing += [
        f"'{x.name}' (a graph output)"
        for x in graph.output
        if x.name not in producer and x.name not in sources
    ]
    if missing:
        raise UserError(
            f"{label}: every value must have a producer, but there is none for {listed(missing)}"
        )


def _order(graph: GraphProto, producer: dict[str, int], label: str) -> list[int]:
    sources = [[producer[name] for name in reads(node) if name in producer] for node in graph.node]
    needed = _reachable((producer[x.name] for x in graph.output if x.name in producer), sources)
    try:
        # The whole graph, so that a cycle in an unused part is reported too.
        order = list(TopologicalSorter(dict(enumerate(sources))).static_order())
    except CycleError as error:
        loop = [f"'{node_name(graph.node[i])}'" for i in error.args[1][1:]]
        raise UserError(
            f"{label}: a graph must be acyclic, but nodes {listed(loop)} depend on each other"
        ) from error
    pairs = ((source, number) for number, those in enumerate(sources) for source in those)
    if all(
        source < number for source, number in pairs
    ):  # keep the file's own order, which readers of the dumps know
        return [i for i in range(len(sources)) if i in needed]
    return [i for i in order if i in needed]


def _reachable(roots: Iterable[int], sources: list[list[int]]) -> set[int]:
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        number = waiting.pop()
        if number not in found:
            found.add(number)
            waiting.extend(sources[number])
    return found


def listed(items: Sequence[str]) -> str:
    """Items joined by commas, the rest counted where there are too many for one message."""
    text = ", ".join(items[:_SHOWN])
    return text if len(items) <= _SHOWN else f"{text} and {len(items) - _SHOWN} more"
