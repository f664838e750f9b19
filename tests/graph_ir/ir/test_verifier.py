from __future__ import annotations

from collections.abc import Callable

import pytest

from graphc.base.dtypes import F32
from graphc.base.errors import InternalError
from graphc.graph_ir.ir.format import parse_format
from graphc.graph_ir.ir.graph import Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.verifier import verify
from graphc.graph_ir.text.printer import print_op
from support.graphs import graph_of


def legal() -> Graph:
    return graph_of(
        """
        %x = Node[type=input] () -> f32[3]
        %a = Node[type=relu] (inputs = (x=%x)) -> f32[3]
        %b = Node[type=add] (inputs = (a=%a, b=%x)) -> f32[3]
        return (y=%b)
        """
    )


def wrong_rank(g: Graph) -> None:
    details = LogicalTensor(F32, (3,))
    object.__setattr__(details, "format", parse_format("MK"))
    g.ops[1].outputs[0].details = details


def foreign_output(g: Graph) -> None:
    g.ops[1].outputs[0].producer_owner = g.ops[0]


def wrong_shape(g: Graph) -> None:
    g.ops[2].outputs[0].details = LogicalTensor(F32, (4,))


def unacceptable(g: Graph) -> None:
    g.ops[0].outputs[0].details = LogicalTensor(F32, (4,))
    g.ops[0].attrs["details"] = LogicalTensor(F32, (4,))


def dangling(g: Graph) -> None:
    g.ops = [g.ops[0], *g.ops[2:]]
    g.renumber()


def swapped(g: Graph) -> None:
    g.ops[1], g.ops[2] = g.ops[2], g.ops[1]
    g.renumber()


def output_first(g: Graph) -> None:
    g.make("neg", [g.ops[0].outputs[0]], name="late")


def reads_unlisted(g: Graph) -> None:
    g.ops[2].inputs[0] = g.ops[0].outputs[0]


def unlisted(g: Graph) -> None:
    g.ops[0].outputs[0].uses.clear()


def lists_unread(g: Graph) -> None:
    g.ops[1].outputs[0].uses[(0, g.ops[3])] = None


def detached(g: Graph) -> None:
    g.ops[3].set_input(0, GraphTensor(LogicalTensor(F32, (3,)), g.ops[2]))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda g: setattr(g.ops[1], "logical_op_id", 7), "op 'a' must have logical_op_id 1, got 7"),
        (lambda g: setattr(g.ops[1], "name", "b"), "op 'b' shares its name with another op"),
        (foreign_output, "op 'a' has an output that says another op produces it"),
        (dangling, "op 'b' reads 'a' .input 0., not produced above it"),
        (swapped, "op 'b' reads 'a' .input 0., not produced above it"),
        (detached, "op 'y' reads 'b' .input 0., not produced above it"),
        (reads_unlisted, "op 'a' lists a use by 'b' .input 0. that does not exist"),
        (unlisted, "op 'a' reads input 0, but is not among the uses of 'x' once"),
        (lists_unread, "op 'a' lists a use by 'y' .input 0. that does not exist"),
        (output_first, "op 'late' must come before the outputs"),
        (wrong_rank, "op 'a' has a tensor of rank 1 in the format MK"),
        (wrong_shape, r"op 'b' must produce .f32\[3\]., got .f32\[4\]."),
        (unacceptable, "must produce"),
    ],
)  # fmt: skip
def test_every_rule(spoil: Callable[[Graph], None], message: str) -> None:
    graph = legal()
    verify(graph)
    spoil(graph)
    with pytest.raises(InternalError, match=message):
        verify(graph)


def test_excerpt_shows_the_op_and_its_neighbors() -> None:
    graph = legal()
    wrong_shape(graph)
    with pytest.raises(InternalError) as caught:
        verify(graph, print_op)
    (note,) = caught.value.__notes__
    assert "> %b : [#users=1] = Node[type=add]" in note and "  %a : " in note and "%y" in note


def test_subgraphs_are_checked() -> None:
    graph, inner = Graph("outer"), legal()
    x = graph.make_input(LogicalTensor(F32, (3,)), "x")
    graph.make_output(graph.make("fused", [x], {"graph": inner}).outputs[0])
    verify(graph)
    inner.ops[1].logical_op_id = 9
    with pytest.raises(InternalError, match="graph 'g': op 'a'"):
        verify(graph)
