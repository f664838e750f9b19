"""Shared by nodes that name graphs: their arguments, and the values that enter and leave subgraphs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Protocol

from ...base.records import dataclass
from ...graph_ir.ir.graph import Graph, GraphTensor, Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..op_builder import Value
from .document import DumpGraph, Reference
from .scope import NodeContext, Scope

Typed = tuple[Value, bool]
"""A value, and whether its dtype was only guessed."""


class Call(Protocol):
    """Imports a graph with values for its Data nodes, under a name; its results. `graph`: into another graph."""

    def __call__(
        self,
        source: DumpGraph,
        name: str,
        arguments: Mapping[int, Typed],
        graph: Graph | None = None,
    ) -> list[Typed]:
        """The results."""


ControlHandler = Callable[[NodeContext, Call], list[Value]]


def argument_types(arguments: Mapping[int, Typed]) -> Hashable:
    """All that an import of a graph depends on: types of tensors, and the values of arrays."""
    return tuple(
        (index, loose, value.details)
        if isinstance(value, GraphTensor)
        else (index, loose, value.dtype.str, value.shape, value.tobytes())
        for index, (value, loose) in arguments.items()
    )


@dataclass(frozen=True)
class Imported:
    """A graph imported as a separate subgraph. Subgraphs that name each other in two branches double with each
    level; so each graph is imported once per types of its arguments, and copied afterwards.
    """

    prefix: str
    arguments: Mapping[int, Typed]
    ops: Sequence[Op]
    results: list[Typed]
    steps: int

    def repeated(self, inner: Scope, arguments: Mapping[int, Typed]) -> list[Typed]:
        """The same ops on other arguments. The subgraphs inside are shared, as no pass changes one in place."""
        twins = {
            old: new
            for index, (old, _) in self.arguments.items()
            if isinstance(old, GraphTensor) and isinstance(new := arguments[index][0], GraphTensor)
        }
        for op in self.ops:
            name = inner.prefix + op.name.removeprefix(self.prefix)
            copy = inner.graph.make(op.op_name, [twins[x] for x in op.inputs], op.attrs, name)
            twins.update(zip(op.outputs, copy.outputs, strict=True))
        return [
            (twins[value] if isinstance(value, GraphTensor) else value, loose)
            for value, loose in self.results
        ]


def arguments_of(node: NodeContext, name: str = "input") -> dict[int, Typed]:
    """The values of a dynamic input by their numbers."""
    scope = node.scope
    return {
        index: (scope.values[reference], reference in scope.guessed)
        for index, reference in node.dynamic(name).items()
    }


def bound(node: NodeContext, results: list[Typed]) -> list[Value]:
    """The values, with those of guessed dtype marked in the node's scope."""
    for index, (_, loose) in enumerate(results):
        if loose:
            node.scope.guessed.add(Reference(node.node.name, index))
    return [value for value, _ in results]


def as_tensor(graph: Graph, value: Value) -> GraphTensor:
    """A value as a tensor of a graph."""
    return value if isinstance(value, GraphTensor) else graph.make_constant(value)


def fitted(
    node: NodeContext, graph: Graph, value: Typed, wanted: LogicalTensor
) -> GraphTensor | None:
    """A value in a type; None where it has another that was not guessed, or more elements."""
    tensor, loose = as_tensor(graph, value[0]), value[1]
    found = tensor.details
    if found == wanted:
        return tensor
    if (
        not loose
        or found.elements != wanted.elements
        or (found.dtype.is_float and not wanted.dtype.is_float)
    ):
        return None
    if found.plain_dims != wanted.plain_dims and found.elements != 1:
        return None
    constant = tensor.producer_owner
    if constant.is_constant:
        array = constant.attr("value").astype(wanted.dtype.numpy)
        return graph.make_constant(array.reshape(wanted.plain_dims), f"{node.name}.constant")
    if found.dtype != wanted.dtype:
        tensor = graph.make("cast", (tensor,), {"dtype": wanted.dtype.name}).outputs[0]
    if found.plain_dims != wanted.plain_dims:
        tensor = graph.make("reshape", (tensor,), {"shape": wanted.plain_dims}).outputs[0]
    return tensor
