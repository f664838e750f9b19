"""Attributes that are graphs: the branches and bodies of control flow, what a fused op is made of."""

from __future__ import annotations

from .attributes import Attribute
from .axis_attributes import ListAttr
from .graph import Graph


class GraphAttr(Attribute[Graph]):
    """A closed graph."""

    type_name = "graph"
    wanted = "a graph"
    kind = Graph


class GraphsAttr(ListAttr[Graph]):
    """Closed graphs."""

    type_name = "graphs"
    wanted = "a list of graphs"
    kind = Graph
