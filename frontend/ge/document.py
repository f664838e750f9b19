"""The parsed form of a readable dump, without any knowledge of ops: graphs, nodes, references, attribute values."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ...base.errors import UserError
from ...base.records import dataclass


@dataclass(frozen=True)
class Reference:
    """Output `index` of the node called `node` in the same graph."""

    node: str
    index: int = 0


@dataclass(frozen=True)
class GraphName:
    """A graph of the file as an attribute value."""

    name: str


@dataclass(frozen=True)
class TypeName:
    """A word as an attribute value, such as DT_FLOAT."""

    text: str


@dataclass(frozen=True)
class TensorText:
    """A tensor as an attribute value: flat, without shape and dtype.

    `items` are numbers and bools. `missing` is "" if all elements are present, else their placeholder:
    `elided` (items are then the first and last ones), `<invalid>` or `<not_supported>`.
    """

    items: tuple[int | float | bool, ...]
    missing: str = ""


@dataclass(frozen=True)
class Node:
    """The line of a node. `inputs` are (input name, "" where it is positional; reference) pairs."""

    name: str
    type: str
    inputs: tuple[tuple[str, Reference], ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class DumpGraph:
    """One graph; `results` are what it returns.

    Writers differ in two signs, which are kept: `hashes` says whether consumers are `#users`, `gap` whether a blank
    line is before the results.
    """

    name: str
    nodes: tuple[Node, ...]
    results: tuple[Reference, ...]
    line: int = field(default=0, compare=False)
    hashes: bool = field(default=True, compare=False)
    gap: bool = field(default=True, compare=False)


@dataclass(frozen=True)
class Dump:
    """The graphs of a file, the main one first."""

    label: str = field(compare=False)
    graphs: tuple[DumpGraph, ...]

    @property
    def main(self) -> DumpGraph:
        """The graph the others are used by."""
        return self.graphs[0]

    def graph(self, name: str) -> DumpGraph:
        """The graph of that name. Raise UserError if there is none."""
        found = next((graph for graph in self.graphs if graph.name == name), None)
        if found is None:
            raise UserError(
                f"{self.label}: graph '{name}' is used, so it must be defined; give the whole dump"
            )
        return found
