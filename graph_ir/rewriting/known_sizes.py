"""A graph of open sizes with numbers for them: what references and inspection of one call need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...base.dims import Dim, evaluate
from ..ir.graph import Graph, GraphTensor
from ..ir.logical_tensor import LogicalTensor


def with_sizes(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """A copy with numbers for the open sizes, by name: ops, names, formats and schedules are the same.

    The graph itself where none is open. KeyError for an open size that has no number.
    """
    if all(y.details.is_known for op in graph.inputs for y in op.outputs):
        return graph
    return _copied(graph, sizes)


def _copied(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    twin = Graph(graph.name, dict(graph.attrs))
    mapping: dict[GraphTensor, GraphTensor] = {}
    for op in graph.ops:
        attrs = {key: known(value, sizes) for key, value in op.attrs.items()}
        new = twin.make(op.op_name, [mapping[x] for x in op.inputs], attrs, op.name)
        new.schedule = op.schedule
        for old, made in zip(op.outputs, new.outputs, strict=True):
            made.details = known(old.details, sizes)
            mapping[old] = made
    return twin


def known(value: Any, sizes: Mapping[str, int]) -> Any:
    """An attribute or a type with numbers for the sizes in it; the same where none is open."""
    if not sizes:
        return value
    if isinstance(value, Dim):
        return evaluate(value, sizes)
    if isinstance(value, LogicalTensor):
        return replace(value, plain_dims=known(value.plain_dims, sizes))
    if isinstance(value, Graph):
        return _copied(value, sizes)
    if isinstance(value, (tuple, list)):
        return type(value)(known(one, sizes) for one in value)
    return value
