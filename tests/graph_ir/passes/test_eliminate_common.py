from __future__ import annotations

from graphc.graph_ir.passes.eliminate_common import eliminate_common
from support.graphs import check_pass, graph_of, run_pass


def test_equal_chains_and_constants_merge() -> None:
    check_pass(
        eliminate_common,
        """
        %x = Node[type=input] () -> f32[2]
        %c = Node[type=constant] (attrs = {value: [1.0 2.0]}) -> f32[2]
        %d = Node[type=constant] (attrs = {value: [1.0 2.0]}) -> f32[2]
        %a = Node[type=add] (inputs = (a=%x, b=%c)) -> f32[2]
        %b = Node[type=add] (inputs = (a=%x, b=%d)) -> f32[2]
        %e = Node[type=relu] (inputs = (x=%a)) -> f32[2]
        %f = Node[type=relu] (inputs = (x=%b)) -> f32[2]
        %g = Node[type=mul] (inputs = (a=%e, b=%f)) -> f32[2]
        return (y=%g, z=%f)
        """,
        """
        %x = Node[type=input] () -> f32[2]
        %c = Node[type=constant] (attrs = {value: [1.0 2.0]}) -> f32[2]
        %a = Node[type=add] (inputs = (a=%x, b=%c)) -> f32[2]
        %e = Node[type=relu] (inputs = (x=%a)) -> f32[2]
        %g = Node[type=mul] (inputs = (a=%e, b=%e)) -> f32[2]
        return (y=%g, z=%e)
        """,
    )


def test_what_differs_stays() -> None:
    graph = graph_of(
        """
        %x = Node[type=input] () -> f32[2]
        %x2 = Node[type=input] () -> f32[2]
        %zero = Node[type=constant] (attrs = {value: [0.0]}) -> f32[1]
        %minus = Node[type=constant] (attrs = {value: [-0.0]}) -> f32[1]
        %shaped = Node[type=constant] (attrs = {value: [0.0]}) -> f32[1,1]
        %packed = Node[type=constant] (attrs = {value: [0.0]}) -> f32[1]{A4a}
        %a = Node[type=sub] (inputs = (a=%x, b=%x2)) -> f32[2]
        %b = Node[type=sub] (inputs = (a=%x2, b=%x)) -> f32[2]
        %c = Node[type=leaky_relu] (inputs = (x=%x), attrs = {alpha: 0.1}) -> f32[2]
        %d = Node[type=leaky_relu] (inputs = (x=%x), attrs = {alpha: 0.2}) -> f32[2]
        return (y=%a, z=%b, u=%c, v=%d, o=%zero, p=%minus, q=%shaped, r=%packed)
        """
    )
    assert not run_pass(eliminate_common, graph)


def test_temporary_attributes_do_not_count() -> None:
    graph = graph_of(
        """
        %x = Node[type=input] () -> f32[2]
        %a = Node[type=relu] (inputs = (x=%x)) -> f32[2]
        %b = Node[type=relu] (inputs = (x=%x)) -> f32[2]
        return (y=%a, z=%b)
        """
    )
    graph.ops[1].attrs["temp.note"] = 1
    assert run_pass(eliminate_common, graph)
    assert [op.name for op in graph.ops] == ["x", "a", "y", "z"]
