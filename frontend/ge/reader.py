"""Reads GE readable dumps, line by line.

There is no grammar file here: names are printed raw and may hold any delimiter (`a, b=%c)` is a legal name), so where a
name ends can only be told from the names defined so far, which no context-free grammar does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from ...base.errors import UserError
from ..model_text import read_text
from .attribute_text import read_attrs
from .document import Dump, DumpGraph, GraphName, Node, Reference

_GRAPH = re.compile(r'\s*graph\("(.*)"\):\s*\Z')
_NODE = re.compile(
    r"\s*%(.{1,4096}?) : \[#?users=(\d{1,9})\] = Node\[type=([^\]\s]+)\](?: ?\((.*)\))?\s*\Z"
)
_ELEMENT = re.compile(
    r"\s*%(.{1,4096}?) : \[#?users=\d{1,9}\] = get_element\[node=%(.+)\]\((\d{1,6})\)\s*\Z"
)
_RETURN = re.compile(r"\s*return \((.*)\)\s*\Z")
_SPLIT = re.compile(r", (?=(?:[^\s=,%]+=)?%)")
_OPERAND = re.compile(r"(?:([^\s=,%]+)=)?%(.*)\Z", re.DOTALL)
_FENCE = re.compile(r"\s*(```|~~~)")

_MAX_OUTPUTS = 65536
_SHOWN = 60


def read_ge(source: str | os.PathLike[str] | bytes) -> Dump:
    """The dump in a file, or in the bytes of one. UserError names file and line.

    A Markdown file with one dump in code fences is read too.
    """
    return parse_ge(*read_text(source, "ge dump", "readable dump"))


def parse_ge(text: str, label: str = "ge dump") -> Dump:
    """The dump in a text; `label` is what messages call it."""
    records = _split_graphs(text, label)
    graphs = tuple(_GraphReader(label, name, line).read(lines) for name, line, lines in records)
    names = set()
    for graph in graphs:
        if graph.name in names:
            raise UserError(
                f"{label} line {graph.line}: names of graphs must differ, got '{graph.name}' twice"
            )
        names.add(graph.name)
    _check_graph_names(label, graphs, names)
    return Dump(label, graphs)


def _split_graphs(text: str, label: str) -> list[tuple[str, int, list[tuple[int, str]]]]:
    """(name, line, its lines) of each graph, the Markdown around a fenced dump left out."""
    lines = [(number, line.rstrip("\r")) for number, line in enumerate(text.split("\n"), 1)]
    lines = _fenced(lines, label)
    records: list[tuple[str, int, list[tuple[int, str]]]] = []
    for number, line in lines:
        header = _GRAPH.match(line)
        if header:
            records.append((header[1], number, []))
        elif line.strip():
            if not records:
                raise UserError(
                    f'{label} line {number}: a readable dump must begin with graph("name"):, got {_cut(line)}'
                )
            records[-1][2].append((number, line))
    if not records:
        raise UserError(
            f'{label} line 1: a readable dump must begin with graph("name"):, got nothing'
        )
    return records


def _fenced(lines: list[tuple[int, str]], label: str) -> list[tuple[int, str]]:
    """The lines inside the one fence that holds a dump; all lines where there are no fences."""
    if not any(_FENCE.match(line) for _, line in lines):
        return lines
    blocks: list[list[tuple[int, str]]] = []
    inside = False
    for number, line in lines:
        if _FENCE.match(line):
            inside = not inside
            if inside:
                blocks.append([])
        elif inside:
            blocks[-1].append((number, line))
    found = [block for block in blocks if any(_GRAPH.match(line) for _, line in block)]
    if len(found) != 1:
        begins = ", ".join(str(block[0][0]) for block in found) or "none"
        raise UserError(
            f"{label}: exactly one code fence must hold a dump, got fences at line {begins}"
        )
    return found[0]


def _check_graph_names(label: str, graphs: Sequence[DumpGraph], names: set[str]) -> None:
    for graph in graphs:
        for node in graph.nodes:
            for key, value in node.attrs.items():
                if isinstance(value, GraphName) and value.name not in names:
                    raise UserError(
                        f"{label} line {node.line}: {node.type} '{node.name}': {key} names graph '{value.name}', "
                        "which must be defined; give the whole dump"
                    )


class _GraphReader:
    """Reads the lines of one graph; `defined` is what each name means at the present line."""

    def __init__(self, label: str, name: str, line: int) -> None:
        self.label, self.name, self.line = label, name, line
        self.defined: dict[str, Reference] = {}
        self.nodes: dict[str, dict[str, Any]] = {}
        self.max_pieces = 1  # of any name so far that holds the delimiter of a list of operands
        self.results: tuple[Reference, ...] | None = None
        self.last_line = line
        self.hashes = self.gap = True

    def read(self, lines: Iterable[tuple[int, str]]) -> DumpGraph:
        for number, line in lines:
            if self.results is not None:
                raise self.error(
                    number, f"nothing may follow the return of a graph, got {_cut(line)}"
                )
            for pattern, add in (
                (_NODE, self.node),
                (_ELEMENT, self.element),
                (_RETURN, self.result),
            ):
                match = pattern.match(line)
                if match:
                    add(number, match)
                    self.last_line = number
                    break
            else:
                raise self.error(
                    number, f"expected a node, get_element or return, got {_cut(line)}"
                )
        nodes = tuple(Node(**fields) for fields in self.nodes.values())
        return DumpGraph(self.name, nodes, self.results or (), self.line, self.hashes, self.gap)

    def error(self, number: int, rule: str) -> UserError:
        return UserError(f"{self.label} line {number}: {rule}")

    def node(self, number: int, match: re.Match[str]) -> None:
        name, users, type_name, body = match.groups()
        if name in self.nodes:
            raise self.error(number, f"names of nodes must differ, got '{name}' twice")
        inputs, attrs = self.split_body(number, body or "")  # neither: maybe no parentheses
        where = f"{self.label} line {number}: {type_name} '{_cut_name(name)}'"
        self.nodes[name] = {
            "name": name,
            "type": type_name,
            "inputs": self.operands(number, inputs) if inputs else (),
            "attrs": read_attrs(attrs, where) if attrs else {},
            "outputs": min(int(users), 1),
            "line": number,
        }
        self.define(name, Reference(name))

    def define(self, name: str, reference: Reference) -> None:
        self.defined[name] = reference
        self.max_pieces = max(self.max_pieces, name.count(", ") + 1)

    def split_body(self, number: int, body: str) -> tuple[str, str]:
        """The texts between the brackets of inputs and attrs."""
        body = body.strip()
        inputs, attrs = "", ""
        if body.startswith("inputs = ("):
            inputs, found, attrs = body[len("inputs = (") :].partition("), attrs = {")
            if found:
                attrs = "attrs = {" + attrs
            elif inputs.endswith(")"):
                inputs = inputs[:-1]
            else:
                raise self.error(number, f"')' must end the inputs, got {_cut(body)}")
        else:
            attrs = body
        if not attrs:
            return inputs, ""
        if not (attrs.startswith("attrs = {") and attrs.endswith("}")):
            raise self.error(
                number, f"expected inputs = (...) or attrs = {{...}}, got {_cut(attrs)}"
            )
        return inputs, attrs[len("attrs = {") : -1]

    def element(self, number: int, match: re.Match[str]) -> None:
        name, node, index = match[1], match[2], int(match[3])
        if node not in self.nodes:
            raise self.error(number, f"node '{_cut_name(node)}' must be defined above")
        if index >= _MAX_OUTPUTS:
            raise self.error(
                number, f"a node must have at most {_MAX_OUTPUTS} outputs, got {index}"
            )
        self.hashes = " : [#users=" in match[0]
        fields = self.nodes[node]
        fields["outputs"] = max(fields["outputs"], index + 1)
        self.define(name, Reference(node, index))

    def result(self, number: int, match: re.Match[str]) -> None:
        self.results = tuple(reference for _, reference in self.operands(number, match[1]))
        self.gap = number > self.last_line + 1

    def operands(self, number: int, text: str) -> tuple[tuple[str, Reference], ...]:
        """(input name, reference) of `x=%a, y=%b`; of several readings the one with the longest names counts."""
        if not text.strip():
            return ()
        pieces = _SPLIT.split(text)
        operands = []
        at = 0
        while at < len(pieces):
            end = at + 1
            if self.max_pieces > 1:
                last = min(at + self.max_pieces, len(pieces))
                end = next((e for e in range(last, at, -1) if self.known(pieces[at:e])), end)
            key, reference = self.operand(number, ", ".join(pieces[at:end]))
            operands.append((key, reference))
            at = end
        return tuple(operands)

    def known(self, pieces: Sequence[str]) -> bool:
        match = _OPERAND.match(", ".join(pieces))
        return match is not None and match[2] in self.defined

    def operand(self, number: int, text: str) -> tuple[str, Reference]:
        match = _OPERAND.match(text)
        if not match:
            raise self.error(number, f"an operand must be written name=%value, got {_cut(text)}")
        if match[2] not in self.defined:
            raise self.error(number, f"'%{_cut_name(match[2])}' must be defined above")
        return match[1] or "", self.defined[match[2]]


def _cut(text: str) -> str:
    text = text.strip()
    return f"'{text[:_SHOWN]}'" + ("..." if len(text) > _SHOWN else "")


def _cut_name(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
