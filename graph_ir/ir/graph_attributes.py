"""Attributes that are graphs: the branches and bodies of control flow, what a fused op is made of."""

from __future__ import annotations

from typing import Any

from .attributes import Attribute
from .graph import Graph


class GraphAttr(Attribute[Graph]):
    """A closed graph."""

    type_name = "graph"
    wanted = "a graph"

    def convert(self, value: Any) -> Graph:
        """The Graph."""
        if not isinstance(value, Graph):
            raise TypeError
        return value


class GraphsAttr(Attribute[tuple[Graph, ...]]):
    """Closed graphs."""

    type_name = "graphs"
    wanted = "a list of graphs"

    def convert(self, value: Any) -> tuple[Graph, ...]:
        """A tuple of them."""
        if not isinstance(value, (tuple, list)) or not all(isinstance(g, Graph) for g in value):
            raise TypeError
        return tuple(value)
