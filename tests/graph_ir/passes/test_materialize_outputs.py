"""Results of a graph never share memory with each other, with an input or with a constant."""

from __future__ import annotations

import pytest

from graphc.graph_ir.passes.materialize_outputs import materialize_outputs
from graphc.graph_ir.rewriting.groups import storage_root
from support.graphs import check_pass, graph_of, run_pass
from support.lowered import check_interpreted, context

X = "%x = Node[type=input] () -> f32[2,3]\n"
C = "%c = Node[type=constant] (attrs = {value: [1.0 2.0]}) -> f32[2]\n"
FLAT = "%f = Node[type=reshape] (inputs = (x=%{}), attrs = {{shape: {{{}}}}}) -> f32[{}]\n"
NEG = "%n = Node[type=neg] (inputs = (x=%x)) -> f32[2,3]\n"

CASES = {
    "an input": (X + "return (y=%x)", 1),
    "an input twice": (X + "return (y=%x, z=%x)", 2),
    "a constant": (C + "return (y=%c)", 1),
    "a view of an input": (X + FLAT.format("x", "6", "6") + "return (y=%f)", 1),
    "a view of a constant": (C + FLAT.format("c", "1, 2", "1,2") + "return (y=%f)", 1),
    "one result twice": (X + NEG + "return (y=%n, z=%n)", 1),
    "a result and its view": (X + NEG + FLAT.format("n", "6", "6") + "return (y=%n, z=%f)", 1),
    "a view and its source": (X + NEG + FLAT.format("n", "6", "6") + "return (y=%f, z=%n)", 1),
    "a result": (X + NEG + "return (y=%n)", 0),
    "a view of a result": (X + NEG + FLAT.format("n", "6", "6") + "return (y=%f)", 0),
}


@pytest.mark.parametrize("name", CASES)
def test_every_output_has_separate_memory(name: str) -> None:
    text, copies = CASES[name]
    graph = graph_of(text)
    assert run_pass(materialize_outputs, graph) == (copies > 0)
    assert sum(op.op_name == "copy" for op in graph.ops) == copies
    roots = [storage_root(op.inputs[0]) for op in graph.outputs]
    assert len(set(roots)) == len(roots)
    assert all(root.producer_owner.kind != "source" for root in roots)
    assert not run_pass(materialize_outputs, graph)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("disabled", [(), ("fuse", "fold", "cse", "simplify")], ids=["all", "none"])
def test_the_program_gives_every_result(name: str, disabled: tuple[str, ...]) -> None:
    check_interpreted(graph_of(CASES[name][0]), context(disabled=disabled))


def test_text_before_and_after() -> None:
    check_pass(
        materialize_outputs,
        """
        %x = Node[type=input] () -> f32[2,3]
        %n = Node[type=neg] (inputs = (x=%x)) -> f32[2,3]
        return (a=%n, b=%x, c=%n)
        """,
        """
        %x = Node[type=input] () -> f32[2,3]
        %n = Node[type=neg] (inputs = (x=%x)) -> f32[2,3]
        %x.copy = Node[type=copy] (inputs = (x=%x)) -> f32[2,3]
        %n.copy = Node[type=copy] (inputs = (x=%n)) -> f32[2,3]
        return (a=%n, b=%x.copy, c=%n.copy)
        """,
    )
