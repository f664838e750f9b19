"""Patterns of user code: recognized as one op, before and after graphc's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from graphc.base.dtypes import F32
from graphc.base.errors import UserError
from graphc.driver.compiler import compile_stages
from graphc.extension.patterns import recompose
from graphc.graph_ir.inspect.compare import difference
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.passes.recompose_user_patterns import recompose_user_patterns
from graphc.graph_ir.rewriting.pattern import Capture, Scalar, either, node
from graphc.graph_ir.schedule.user_code import PATTERNS
from support.check_op import random_array
from support.graphs import check_pass, graph_of, run_pass
from support.user_ops import define_root_mean

X = Capture("x")
SHRINK = """
    %x = Node[type=input] () -> f32[4]
    %t = Node[type=tanh] (inputs = (x=%x)) -> f32[4]
    %y = Node[type=sub] (inputs = (a=%x, b=%t)) -> f32[4]
    return (output=%y)
    """


def define_tanhshrink() -> None:
    graphc.ops.define(
        "tanhshrink", "x - tanh(x).", reference=lambda x: x - np.tanh(x), infer=lambda x: x,
        compose=lambda make, x: make("add", x, make("neg", make("tanh", x))),
    )  # fmt: skip


def test_ops_become_the_one_they_are() -> None:
    define_tanhshrink()
    recompose(node("sub", X, node("tanh", X)), "tanhshrink")
    check_pass(
        recompose_user_patterns, SHRINK,
        """
        %x = Node[type=input] () -> f32[4]
        %y.tanhshrink = Node[type=tanhshrink] (inputs = (x=%x)) -> f32[4]
        return (output=%y.tanhshrink)
        """,
        exact=False,
    )  # fmt: skip
    graph = graph_of(SHRINK)
    compiled = compile_stages(graph)
    assert any("tanhshrink" in call.note for call in compiled.lowered.calls)


def test_operands_and_attributes_are_the_captures_of_their_names() -> None:
    define_root_mean()
    mean = node("reduce_mean", node("square", X))
    root = node("sqrt", node("add", mean, Scalar(name="eps")))
    recompose(node("mul", node("div", X, root), Capture("scale")), "root_mean")
    text = """
        %x = Node[type=input] () -> f32[3,4]
        %s = Node[type=input] () -> f32[4]
        %e = Node[type=constant] (attrs = {value: [0.25]}) -> f32[]
        %q = Node[type=square] (inputs = (x=%x)) -> f32[3,4]
        %m = Node[type=reduce_mean] (inputs = (x=%q), attrs = {axes: {1}, keep_dims: true}) -> f32[3,1]
        %a = Node[type=add] (inputs = (a=%m, b=%e)) -> f32[3,1]
        %r = Node[type=sqrt] (inputs = (x=%a)) -> f32[3,1]
        %d = Node[type=div] (inputs = (a=%x, b=%r)) -> f32[3,4]
        %y = Node[type=mul] (inputs = (a=%d, b=%s)) -> f32[3,4]
        return (output=%y)
        """
    graph = graph_of(text)
    run_pass(recompose_user_patterns, graph, exact=False)
    (made,) = (op for op in graph.ops if op.op_name == "root_mean")
    assert [x.name for x in made.inputs] == ["x", "s"] and made.attrs == {"eps": 0.25}
    arrays = [random_array("f32", (3, 4)), random_array("f32", (4,), 1)]
    model = graphc.compile(graph_of(text), cache=False)
    assert difference(model(*arrays), graph.evaluate(arrays)[0]).ok


def test_what_would_have_another_shape_does_not_match() -> None:
    define_root_mean()
    recompose(node("reduce_mean", X), "root_mean")
    graph = graph_of(
        """
        %x = Node[type=input] () -> f32[3,4]
        %m = Node[type=reduce_mean] (inputs = (x=%x), attrs = {axes: {1}}) -> f32[3]
        return (output=%m)
        """
    )
    assert not run_pass(recompose_user_patterns, graph)


def test_a_function_builds_what_no_op_says() -> None:
    @recompose(
        either(node("sub", X, node("tanh", X)), node("neg", node("sub", node("tanh", X), X)))
    )
    def shrink(graph: Graph, op: Any, found: Any) -> Any:
        if found["x"].details.rank != 1:
            return None
        return graph.make("gelu", [found["x"]], name=f"{op.name}.gelu").outputs[0]

    graph = graph_of(SHRINK)
    assert recompose_user_patterns(graph, None)  # type: ignore[arg-type]
    assert [op.op_name for op in graph.ops] == ["input", "gelu", "output"]
    assert set(PATTERNS["shrink"].rules) == {"sub", "neg"}


def test_patterns_run_before_and_after_those_of_graphc() -> None:
    seen = []

    @recompose(node("sigmoid", X))
    def after(graph: Graph, op: Any, found: Any) -> None:
        seen.append("sigmoid")

    @recompose(node("div", 1, node("add", node("exp", node("neg", X)), 1)))
    def before(graph: Graph, op: Any, found: Any) -> None:
        seen.append("div")

    graph = Graph("m")
    x = graph.make_input(graphc.ops.LogicalTensor(F32, (4,)), "x")
    one = graph.make_constant(np.float32(1), "one")
    exp = graph.make("exp", graph.make("neg", [x]).outputs).outputs[0]
    graph.make_output(graph.make("div", [one, graph.make("add", [exp, one]).outputs[0]]).outputs[0])
    graphc.compile(graph, cache=False)
    assert seen == ["div", "sigmoid"]


def _raises(graph: Graph, op: Any, found: Any) -> Any:
    return found["nothing"]


def _returns_a_name(graph: Graph, op: Any, found: Any) -> Any:
    return "x"


def _gives_another_type(graph: Graph, op: Any, found: Any) -> Any:
    return graph.make("cast", [found["x"]], {"dtype": "s32"}).outputs[0]


def _never_ends(graph: Graph, op: Any, found: Any) -> Any:
    inner = graph.make("tanh", [found["x"]]).outputs[0]
    return graph.make("sub", [found["x"], inner]).outputs[0]


WRONG = {
    _raises: "pattern '_raises' at sub 'y': it raised KeyError: 'nothing'",
    _returns_a_name: "pattern '_returns_a_name' at sub 'y': it must return a tensor of the graph or None, got 'x'",
    _gives_another_type: "pattern '_gives_another_type' at sub 'y': the result must be f32[4], got s32[4]",
    _never_ends: "patterns _never_ends of user code: graph 'g': rewriting around ",
}


@pytest.mark.parametrize("build", WRONG)
def test_an_invalid_pattern_is_the_error_of_its_author(build: Any) -> None:
    recompose(node("sub", X, node("tanh", X)))(build)
    with pytest.raises(UserError) as caught:
        graphc.compile(graph_of(SHRINK), cache=False)
    assert str(caught.value).startswith(WRONG[build])


def test_bad_declarations_are_one_sentence() -> None:
    with pytest.raises(
        UserError, match=r"^recompose: there is no op 'sigmoit'; did you mean 'sigmoid'\?$"
    ):
        recompose(node("sigmoit", X), "relu")
    with pytest.raises(
        UserError, match=r"^recompose: there is no op 'rellu'; did you mean 'relu'\?$"
    ):
        recompose(node("tanh", X), "rellu")
    with pytest.raises(
        UserError, match=r"^recompose: a pattern of graphc.pattern that ends in an op must be given"
    ):
        recompose(X, "relu")
    captures = r"^pattern 'leaky_relu': captures and attributes must be those of leaky_relu, x, alpha, got "
    with pytest.raises(UserError, match=captures + "'y' too$"):
        recompose(node("add", X, Capture("y")), "leaky_relu")
    with pytest.raises(UserError, match=captures + "'x' missing$"):
        recompose(node("tanh", 1.0), "leaky_relu")
    with pytest.raises(UserError, match=captures + "'beta' too$"):
        recompose(node("tanh", X), "leaky_relu", beta=1)
    with pytest.raises(
        UserError, match=r"^recompose: attributes need into=, the op that has them, got alpha$"
    ):
        recompose(node("tanh", X), alpha=1)
    with pytest.raises(
        UserError, match=r"^pattern 'f': it must take \(graph, op, found\), got \(x\)$"
    ):
        recompose(node("tanh", X), name="f")(lambda x: x)
