"""Graphs made anew op by op, and the values of all tensors of a graph."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import TypeVar

import numpy as np

from ..graph_ir.ir.graph import Graph, GraphTensor, Op

T = TypeVar("T")
Rewrite = Callable[[Op, list[GraphTensor]], Sequence[GraphTensor] | None]
"""Function that returns the replacement of an op in the new graph, given its new inputs; None keeps the op."""


def rebuild(
    graph: Graph, ops: Iterable[Op], twins: dict[GraphTensor, GraphTensor], rewrite: Rewrite
) -> Graph:
    """Append ops of another graph or their replacements; return the graph. `twins`: the new tensors of old ones."""
    for op in ops:
        inputs = [twins[x] for x in op.inputs]
        made = rewrite(op, inputs)
        if made is None:
            made = graph.make(op.op_name, inputs, op.attrs, op.name).outputs
        twins.update(zip(op.outputs, made, strict=True))
    return graph


def needed_for(
    wanted: Iterable[GraphTensor], known: Container[GraphTensor], graph: Graph
) -> list[Op]:
    """The ops of a graph, in its order, that compute tensors from `known` ones."""
    found: set[Op] = set()
    pending = list(wanted)
    while pending:
        tensor = pending.pop()
        if tensor not in known and tensor.producer_owner not in found:
            found.add(tensor.producer_owner)
            pending += tensor.producer_owner.inputs
    return [op for op in graph.ops if op in found]


def all_values(
    graph: Graph, inputs: Iterable[T], run: Callable[[Op, list[T]], Sequence[T]]
) -> dict[GraphTensor, T]:
    """The values of all tensors of a graph, where `run` makes those of each op of those of its inputs."""
    values: dict[GraphTensor, T] = {}
    fed = iter(inputs)
    with np.errstate(all="ignore"):
        for op in graph.ops:
            if op.kind != "sink":
                made = [next(fed)] if op.is_input else run(op, [values[x] for x in op.inputs])
                values.update(zip(op.outputs, made, strict=True))
    return values
