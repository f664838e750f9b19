"""Control flow known before the model runs: branches taken, trip counts, loop invariants."""

from __future__ import annotations

import pytest

from graphc.base.dtypes import F32, S64
from graphc.graph_ir.ir.graph import Graph, Op
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.control import Case, While
from graphc.graph_ir.passes.fold_constants import fold_constants
from graphc.graph_ir.passes.remove_dead import remove_dead
from graphc.graph_ir.passes.simplify_control import simplify_control
from graphc.graph_ir.rewriting.trip_count import MAX_UNROLLED
from support.control import (
    RandomControl,
    constant,
    counted,
    made,
    make_case,
    make_while,
    small_inputs,
)
from support.graphs import CONTEXT, run_pass

X = LogicalTensor(F32, (3,))
INDEX = LogicalTensor(S64, ())


def simplified(graph: Graph, first: int | None = None) -> bool:
    """Run the pass, which must keep the meaning; drop what is dead then, and check that nothing is left to do."""
    changed = run_pass(simplify_control, graph, inputs=small_inputs(graph, 1, first))
    remove_dead(graph, CONTEXT)
    assert not simplify_control(graph, CONTEXT)
    return changed


def names(graph: Graph) -> list[str]:
    return [op.op_name for op in graph.ops if op.kind not in ("source", "sink")]


def only(graph: Graph, kind: type[Op]) -> Op:
    (op,) = [op for op in graph.ops if isinstance(op, kind)]
    return op


@pytest.mark.parametrize("index, kept", [(0, "add"), (1, "neg"), (7, "neg"), (-1, "neg")])
def test_a_known_branch_replaces_the_case(index: int, kept: str) -> None:
    graph = Graph("g")
    x, y = graph.make_input(X, "x"), graph.make_input(X, "y")
    op = make_case(
        graph, constant(graph, index), [x, y],
        lambda g, a, b: [made(g, "add", a, b)], lambda g, a, b: [made(g, "neg", b)],
    )  # fmt: skip
    graph.make_output(op.outputs[0])
    assert simplified(graph) and names(graph) == [kept]


def test_a_case_loses_what_is_constant_unread_or_given_twice() -> None:
    graph = Graph("g")
    index, x, y = (graph.make_input(d, n) for d, n in ((INDEX, "i"), (X, "x"), (X, "y")))
    w = constant(graph, [1, 2, 3], F32)
    op = make_case(
        graph, index, [x, w, y, x],
        lambda g, a, w, b, c: [made(g, "add", a, w), made(g, "exp", b)],
        lambda g, a, w, b, c: [made(g, "mul", a, c), made(g, "neg", b)],
    )  # fmt: skip
    graph.make_output(op.outputs[0])
    assert simplified(graph, 1)
    case = only(graph, Case)
    assert case.inputs == [index, x] and len(case.outputs) == 1
    assert [names(branch) for branch in case.attrs["branches"]] == [["add"], ["mul"]]


def test_a_short_loop_of_known_length_is_unrolled() -> None:
    graph = counted([X], lambda g, x: [made(g, "mul", x, x)], count=3)
    assert simplified(graph)
    fold_constants(graph, CONTEXT)
    remove_dead(graph, CONTEXT)
    assert names(graph) == ["mul"] * 3


def test_a_loop_that_never_runs_goes() -> None:
    graph = counted([X], lambda g, x: [made(g, "mul", x, x)], count=0)
    assert simplified(graph) and names(graph) == []


def test_a_long_loop_stays_and_counts_inside() -> None:
    graph = counted([X], lambda g, x: [made(g, "mul", x, x)], count=MAX_UNROLLED)
    assert simplified(graph)
    loop = only(graph, While)
    assert len(loop.inputs) == 2, "the length has moved into the condition"


def test_a_constant_loop_without_end_does_not_hold_up_the_compiler() -> None:
    graph = Graph("g")
    op = make_while(
        graph,
        [constant(graph, 1)],
        lambda g, i: [made(g, "gt", i, constant(g, 0))],
        lambda g, i: [made(g, "max", i, constant(g, 1))],
    )
    graph.make_output(op.outputs[0])
    assert not simplify_control(graph, CONTEXT) and not fold_constants(graph, CONTEXT)


def test_state_that_never_changes_is_no_state() -> None:
    graph = counted([X, X], lambda g, x, w: [made(g, "mul", x, w), w])
    assert simplified(graph, 3)
    loop = only(graph, While)
    assert loop.carried == 2 and len(loop.inputs) == 4  # type: ignore[attr-defined]
    assert graph.outputs[1].inputs[0].producer_owner.op_name == "input"


def test_state_nobody_reads_goes_with_what_only_it_needs() -> None:
    graph = Graph("g")
    n, x, y = (graph.make_input(d, name) for d, name in ((INDEX, "n"), (X, "x"), (X, "y")))
    op = make_while(
        graph, [constant(graph, 0), x, y, n],
        lambda g, i, a, b, n: [made(g, "lt", i, n)],
        lambda g, i, a, b, n: [made(g, "add", i, constant(g, 1)), made(g, "neg", a), made(g, "add", a, b)],
    )  # fmt: skip
    graph.make_output(op.outputs[1])
    assert simplified(graph, 2)
    loop = only(graph, While)
    assert loop.inputs[1:] == [x, n] and names(loop.attrs["body"]) == ["add", "neg"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(30))
def test_random_graphs_keep_their_meaning(seed: int) -> None:
    graph = RandomControl(seed).graph()
    graph.sort()
    remove_dead(graph, CONTEXT)
    for first in (0, 2):
        copy = graph.copy()
        run_pass(simplify_control, copy, inputs=small_inputs(copy, seed, first))
