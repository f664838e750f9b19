"""Notes on graphs: typed, shared by copies, and no part of what a graph is."""

from __future__ import annotations

import re

import pytest

from graphc.base.errors import InternalError
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.note import Note
from graphc.graph_ir.text.printer import print_graph

COUNTS: Note[dict[str, int]] = Note("counts", dict)
PLAN: Note[int] = Note("plan")


def test_a_note_that_can_be_empty_is_made_when_it_is_read() -> None:
    graph = Graph("noted")
    assert not COUNTS.is_on(graph)
    COUNTS.of(graph)["x"] = 3
    assert COUNTS.of(graph) == {"x": 3} and COUNTS.of(Graph("other")) == {}


def test_a_note_that_cannot_be_missing_is_an_internal_error() -> None:
    graph = Graph("noted")
    with pytest.raises(InternalError, match=re.escape("graph 'noted' has no plan")):
        PLAN.of(graph)
    PLAN.set(graph, 7)
    assert PLAN.of(graph) == 7 == PLAN.of(graph.copy())


def test_notes_are_no_part_of_a_graph() -> None:
    graph = Graph("noted")
    text, contents = print_graph(graph, full=True), graph.hash_contents()
    PLAN.set(graph, 7)
    assert print_graph(graph, full=True) == text and graph.hash_contents() == contents
