"""Passes of user code: run at their points, verified, and told apart from graphc's own where they go wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.base.dtypes import S64
from graphc.base.errors import UserError
from graphc.extension.passes import graph_pass
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.rewriting.rewrite import rewrite
from graphc.tools.bisect_passes import blame_graph_pass
from support.check_op import random_array
from support.graphs import CONTEXT, graph_of
from support.user_ops import graph_with

X = random_array("f32", (6, 21))


def swap(new_name: str) -> Any:
    """A rule that makes relu another op."""
    return lambda graph, op: graph.make(new_name, op.inputs, name=f"{op.name}.{new_name}").outputs[
        0
    ]


def names() -> list[str]:
    return [step.__name__ for step, _ in pipeline.steps()]


def test_a_pass_runs_at_its_point_and_is_seen_in_the_dump(tmp_path: Path) -> None:
    @graph_pass(before="decompose")
    def relu_to_abs(graph: Graph, ctx: Any) -> bool:
        return rewrite(graph, {"relu": [swap("abs")]})

    model = graphc.compile(graph_with("neg"), threads=1, dump_dir=tmp_path)
    np.testing.assert_array_equal(model(X), -np.abs(X) * 2)
    (file,) = tmp_path.glob("*relu_to_abs*")
    assert "before.abs" in file.read_text()


def test_points_are_first_and_last_runs_and_passes_keep_their_order() -> None:
    for name, point in {
        "a": {"before": "eliminate_common"}, "b": {"after": "eliminate_common"}, "c": {"before": "eliminate_common"},
        "d": {"before": "remove_dead"}, "e": {"before": "choose_schedules"},
    }.items():  # fmt: skip
        graph_pass(name=name, **point)(lambda graph, ctx: False)
    found, own = names(), [step.__name__ for step, _ in pipeline.PIPELINE]
    assert [name for name in found if len(name) > 1] == own
    assert found[0] == "d"
    first = found.index("eliminate_common")
    assert found[first - 2 : first] == ["a", "c"]
    assert found[found.index("b") - 1] == "eliminate_common" not in found[found.index("b") :]
    assert found[found.index("e") + 1] == "choose_schedules"
    graph_pass(name="a", after="decompose")(lambda graph, ctx: False)
    assert names().count("a") == 1


def test_a_pass_that_changes_the_meaning_is_found_by_compare() -> None:
    @graph_pass(after="recompose_softmax")
    def wrong(graph: Graph, ctx: Any) -> bool:
        return rewrite(graph, {"relu": [swap("abs")]})

    blame = blame_graph_pass(graph_with("neg"), CONTEXT, [X])
    assert blame is not None and blame.culprit == "wrong"


def _raises(graph: Graph, ctx: Any) -> bool:
    raise KeyError("x")


def _returns_nothing(graph: Graph, ctx: Any) -> None:
    pass


def _leaves_disorder(graph: Graph, ctx: Any) -> bool:
    graph.ops.reverse()
    return True


def _drops_an_output(graph: Graph, ctx: Any) -> bool:
    graph.remove(graph.outputs[1:])
    graph.sort()
    return True


WRONG = {
    _raises: "graph pass '_raises': it raised KeyError: 'x'",
    _returns_nothing: "graph pass '_returns_nothing': it must return whether it changed graph 'g', got None",
    _leaves_disorder: "graph pass '_leaves_disorder': graph 'g' is invalid after it: graph 'g': op ",
    _drops_an_output: (
        "graph pass '_drops_an_output': inputs and outputs of graph 'g' must stay as they are, "
        "(x: f32[4]) -> (f32[4], f32[4]), got (x: f32[4]) -> (f32[4])"
    ),
}


@pytest.mark.parametrize("function", WRONG)
def test_an_invalid_pass_is_the_error_of_its_author(function: Any) -> None:
    graph_pass(before="decompose")(function)
    graph = graph_of(
        """
        %x = Node[type=input] () -> f32[4]
        %a = Node[type=neg] (inputs = (x=%x)) -> f32[4]
        return (y=%a, z=%x)
        """
    )
    with pytest.raises(UserError) as caught:
        graphc.compile(graph, cache=False)
    assert str(caught.value).startswith(WRONG[function])


def test_a_pass_runs_on_the_graphs_of_control_flow_too() -> None:
    seen = []

    @graph_pass(before="fuse")
    def look(graph: Graph, ctx: Any) -> bool:
        seen.append(graph.name)
        return False

    graph = Graph("outer")
    flag = graph.make_input(graphc.ops.LogicalTensor(S64, ()), "flag")
    branches = []
    for name in ("yes", "no"):
        inner = Graph(name)
        inner.make_output(inner.make_constant(np.float32(len(name)), "c"))
        branches.append(inner)
    graph.make_output(graph.make("case", [flag], {"branches": branches}).outputs[0])
    graphc.compile(graph, cache=False)
    assert seen == ["yes", "no", "outer"]


def test_bad_declarations_are_one_sentence() -> None:
    message = r"^graph_pass: one of before= and after= must be given, got "
    with pytest.raises(UserError, match=message + "none$"):
        graph_pass()
    with pytest.raises(UserError, match=message + "both$"):
        graph_pass(before="fuse", after="fuse")
    with pytest.raises(UserError, match=r"got 'decompos'; did you mean 'decompose'\?$"):
        graph_pass(before="decompos")
    for point in ({"after": "choose_schedules"}, {"before": "plan_memory"}):
        with pytest.raises(
            UserError,
            match=r"^graph_pass: it must run before choose_schedules, which needs the final",
        ):
            graph_pass(**point)
    with pytest.raises(UserError, match=r"of no pass of graphc, got 'fuse'$"):
        graph_pass(before="fuse", name="fuse")(lambda graph, ctx: False)
    with pytest.raises(
        UserError, match=r"^graph pass 'f': it must take \(graph, ctx\), got \(graph\)$"
    ):
        graph_pass(before="fuse", name="f")(lambda graph: False)  # type: ignore[type-var, misc]
