from __future__ import annotations

from graphc.graph_ir.passes.remove_dead import remove_dead
from support.graphs import check_pass, graph_of, run_pass


def test_dead_ops_and_constants_go_inputs_stay() -> None:
    check_pass(
        remove_dead,
        """
        %x = Node[type=input] () -> f32[3]
        %unused = Node[type=input] () -> f32[2]
        %c = Node[type=constant] (attrs = {value: [1.0]}) -> f32[1]
        %d = Node[type=constant] (attrs = {value: [2.0]}) -> f32[1]
        %a = Node[type=relu] (inputs = (x=%x)) -> f32[3]
        %b = Node[type=add] (inputs = (a=%a, b=%c)) -> f32[3]
        %e = Node[type=exp] (inputs = (x=%b)) -> f32[3]
        %f = Node[type=mul] (inputs = (a=%a, b=%d)) -> f32[3]
        return (y=%f)
        """,
        """
        %x = Node[type=input] () -> f32[3]
        %unused = Node[type=input] () -> f32[2]
        %d = Node[type=constant] (attrs = {value: [2.0]}) -> f32[1]
        %a = Node[type=relu] (inputs = (x=%x)) -> f32[3]
        %f = Node[type=mul] (inputs = (a=%a, b=%d)) -> f32[3]
        return (y=%f)
        """,
    )


def test_nothing_dead() -> None:
    graph = graph_of("%x = Node[type=input] () -> f32[3]\nreturn (y=%x, z=%x)")
    assert not run_pass(remove_dead, graph)


def test_no_outputs_leaves_the_inputs() -> None:
    graph = graph_of(
        "%x = Node[type=input] () -> f32[3]\n%a = Node[type=neg] (inputs = (x=%x)) -> f32[3]"
    )
    assert run_pass(remove_dead, graph)
    assert [op.name for op in graph.ops] == ["x"] and not graph.ops[0].outputs[0].uses
