"""Attributes of an FX graph: tensors, and the graphs that are parts of its control flow."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from ...base.errors import UnsupportedError
from ...base.records import dataclass
from ...graph_ir.ir.graph import Graph, GraphTensor
from ..correspondence.compositions.control import finished, inputs_like
from .complex_numbers import constant_of
from .fx_reader import MISSING, Values, read_nodes
from .node import Node
from .sizes import Sizes


@dataclass(frozen=True, eq=False)
class Subgraph:
    """A graph that a call of control flow takes, called `name`."""

    module: Any
    name: str
    sizes: Sizes

    def read(self, node: Node, arguments: Sequence[GraphTensor]) -> Graph:
        """Read the module as a graph with inputs like `arguments`. May raise UnsupportedError."""
        graph = Graph(f"{node.name}/{self.name}")
        taken = inputs_like(graph, arguments)
        nodes = list(self.module.graph.nodes)
        values: Values = dict(zip((n for n in nodes if n.op == "placeholder"), taken, strict=True))
        values |= attributes_of(graph, self.module, self.sizes)
        calls = [n for n in nodes if n.op == "call_function"]
        for reason in read_nodes(graph, calls, values, self.sizes).values():
            raise node.unsupported(f"'{self.name}', where {reason},")
        (output,) = [n for n in nodes if n.op == "output"]
        given = output.args[0]
        results = [values.get(x) for x in (given if isinstance(given, (list, tuple)) else [given])]
        tensors = [x for x in results if isinstance(x, GraphTensor)]
        if len(tensors) != len(results):
            raise node.unsupported(f"'{self.name}', which gives what is not a tensor,")
        return finished(graph, taken, tensors)


def attributes_of(graph: Graph, module: Any, sizes: Sizes, *, pairs: bool = False) -> Values:
    """Return the values of attributes of a GraphModule, by node. MISSING for a constant that no tensor of a graph
    can be."""
    values = {}
    for node in module.graph.nodes:
        if node.op == "get_attr":
            value = _attribute(module, node.target)
            is_graph = hasattr(value, "graph")
            values[node] = (
                Subgraph(value, node.target, sizes)
                if is_graph
                else constant_in(graph, value, node.name, pairs)
            )
    return values


def constant_in(graph: Graph, value: Any, name: str, pairs: bool) -> Any:
    """Return a tensor for an array, or any other value unchanged."""
    if not hasattr(value, "shape"):
        return value
    with contextlib.suppress(UnsupportedError):
        if pairs or not value.is_complex():
            return constant_of(graph, value, name)
    return MISSING


def _attribute(module: Any, target: str) -> Any:
    for part in target.split("."):
        module = getattr(module, part)
    return module
