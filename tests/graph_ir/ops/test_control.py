"""Shape rules and references of case and while."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import F32, S32, S64
from graphc.base.errors import UserError
from graphc.graph_ir.ir.graph import Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.control import constant, counted, made, make_case, make_while, subgraph

X = LogicalTensor(F32, (3,))
INDEX = LogicalTensor(S64, ())


def two_branches() -> Graph:
    graph = Graph("g")
    index, x, y = (graph.make_input(d, n) for d, n in ((INDEX, "i"), (X, "x"), (X, "y")))
    op = make_case(
        graph,
        index,
        [x, y],
        lambda g, a, b: [made(g, "add", a, b), a],
        lambda g, a, b: [made(g, "neg", a), b],
    )
    for tensor in op.outputs:
        graph.make_output(tensor)
    return graph


def test_case_takes_the_branch_of_its_index_and_the_last_one_outside() -> None:
    graph = two_branches()
    x, y = np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32)
    for index in (-1, 0, 1, 2, 1 << 40):
        first, second = graph.evaluate([np.array(index), x, y])
        np.testing.assert_array_equal(first, x + y if index == 0 else -x)
        np.testing.assert_array_equal(second, x if index == 0 else y)


def test_while_replaces_its_state_until_the_condition_fails() -> None:
    graph = counted([X, X], lambda g, a, b, w: [b, made(g, "add", a, w)], fixed=[X])
    a, b, w = (np.full(3, v, np.float32) for v in (1, 2, 10))
    for n in range(5):
        wanted = [a, b]
        for _ in range(n):
            wanted = [wanted[1], wanted[0] + w]
        for got, want in zip(graph.evaluate([np.array(n), a, b, w]), wanted, strict=True):
            np.testing.assert_array_equal(got, want)


def test_work_is_that_of_one_round_and_of_the_longest_branch() -> None:
    loop = counted([X], lambda g, x: [made(g, "neg", x)])
    assert loop.get_gflop() == pytest.approx(5e-9)  # lt, add, neg of 3
    assert two_branches().get_gflop() == pytest.approx(3e-9)


def other(g: Graph, *xs: GraphTensor) -> list[GraphTensor]:
    return [made(g, "cast", xs[0], dtype="s32")]


def same(g: Graph, *xs: GraphTensor) -> list[GraphTensor]:
    return [xs[0]]


def yes(g: Graph, *xs: GraphTensor) -> list[GraphTensor]:
    return [made(g, "lt", constant(g, 0), constant(g, 1))]


BROKEN: dict[str, dict[str, Any]] = {
    "case 'op': the index must be s64[], got s32[]": {"index": S32},
    "case 'op': there must be a branch, got none": {"branches": ()},
    "case 'op': branch 'wide' must take the op's inputs (f32[3]), got a graph of (f32[4])": {
        "branches": (subgraph("wide", [LogicalTensor(F32, (4,))], same),)
    },
    "case 'op': all branches must return the same types, got (f32[3]) from 'one' and (s32[3]) from 'two'": {
        "branches": (subgraph("one", [X], same), subgraph("two", [X], other))
    },
    "while 'op': condition 'c' must take the op's inputs (f32[3]), got a graph of (s64[])": {
        "condition": subgraph("c", [INDEX], yes)
    },
    "while 'op': the condition must return a bool[], got (f32[3])": {
        "condition": subgraph("c", [X], same)
    },
    "while 'op': the body must return the types of the state (f32[3]), got (s32[3])": {
        "body": subgraph("b", [X], other)
    },
    "while 'op': the body must return the types of the state (), got ()": {
        "body": subgraph("b", [X], lambda g, x: [])
    },
}


@pytest.mark.parametrize("message", BROKEN)
def test_what_subgraphs_must_take_and_return(message: str) -> None:
    given = dict(BROKEN[message])
    graph = Graph("g")
    x = graph.make_input(X, "x")
    with pytest.raises(UserError) as caught:
        if message.startswith("case"):
            index = graph.make_input(LogicalTensor(given.pop("index", S64), ()), "i")
            attrs = {"branches": (subgraph("one", [X], same),), **given}
            graph.make("case", [index, x], attrs, "op")
        else:
            attrs = {
                "condition": subgraph("c", [X], yes),
                "body": subgraph("b", [X], same),
                **given,
            }
            graph.make("while", [x], attrs, "op")
    assert str(caught.value) == message
    assert not x.uses


def test_a_body_may_not_return_more_than_the_inputs() -> None:
    graph = Graph("g")
    x = graph.make_input(X, "x")
    with pytest.raises(UserError, match="the body must return the types of the state"):
        make_while(graph, [x], yes, lambda g, a: [a, a])
