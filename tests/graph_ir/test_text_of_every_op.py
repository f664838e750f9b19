"""Every op in the registry is printed and read back."""

from __future__ import annotations

import pytest

from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.verifier import verify
from graphc.graph_ir.text.parser import parse_graph
from graphc.graph_ir.text.printer import print_graph
from support.every_op import OURS, make


@pytest.mark.parametrize("name", OURS)
def test_round_trip(name: str) -> None:
    graph = Graph(f"one {name}")
    make(graph, name)
    verify(graph)
    text = print_graph(graph, full=True)
    read = parse_graph(text)
    verify(read)
    assert print_graph(read, full=True) == text
    assert read.compare_contents(graph) and read.hash_contents() == graph.hash_contents()
    assert print_graph(read, annotate=False) == print_graph(graph, annotate=False)
