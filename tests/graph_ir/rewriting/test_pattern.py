from __future__ import annotations

import pytest

from graphc.graph_ir.ir.graph import GraphTensor
from graphc.graph_ir.rewriting.pattern import (
    Capture,
    Pattern,
    Scalar,
    either,
    make_instead,
    match,
    multiplied,
    node,
    recipe,
)
from graphc.graph_ir.rewriting.rewrite import rewrite
from support.expressions import expression_of, graph_from
from support.graphs import graph_of

X, Y = Capture("x"), Capture("y")


def found(pattern: Pattern, text: str, dtype: str = "f32") -> dict[str, object] | None:
    """Captures by name, tensors as the names of what produces them."""
    result = match(pattern, graph_from(text, dtype, p=(4,), q=(4,)).outputs[0].inputs[0])
    if result is None:
        return None
    return {k: v.name if isinstance(v, GraphTensor) else v for k, v in result.items()}


def test_captures_are_consistent() -> None:
    assert found(node("add", X, node("neg", X)), "add(p, neg(p))") == {"x": "p"}
    assert found(node("add", X, node("neg", X)), "add(p, neg(q))") is None
    assert found(node("sub", X, Y), "sub(q, p)") == {"x": "q", "y": "p"}


def test_captures_with_a_pattern() -> None:
    inner = Capture("e", node("exp", X))
    assert found(node("sub", inner, node("neg", inner)), "sub(exp(p), neg(exp(p)))") is None
    graph = graph_from("exp(p)", p=(4,))
    exp = graph.ops[1].outputs[0]
    both = graph.make("sub", [exp, graph.make("neg", [exp]).outputs[0]]).outputs[0]
    result = match(node("sub", inner, node("neg", inner)), both)
    assert result is not None and result["e"] is exp


def test_only_commutative_ops_swap() -> None:
    assert found(node("mul", node("exp", X), Y), "mul(p, exp(q))") == {"x": "q", "y": "p"}
    assert found(node("div", node("exp", X), Y), "div(p, exp(q))") is None


def test_backtracking_over_nested_matmuls() -> None:
    three = multiplied(X, node("exp", X), 0.5)
    for text in (
        "mul(mul(p, exp(p)), c(0.5))",
        "mul(mul(c(0.5), p), exp(p))",
        "mul(p, mul(exp(p), c(0.5)))",
    ):
        assert found(three, text) == {"x": "p"}
    assert found(three, "mul(mul(p, exp(q)), c(0.5))") is None
    assert found(multiplied(X, 2), "mul(c(2.0), p)") == {"x": "p"}


def test_either_takes_the_first_that_fits() -> None:
    options = either(node("exp", X), node("neg", X))
    assert found(options, "neg(q)") == {"x": "q"}
    assert found(options, "abs(q)") is None


@pytest.mark.parametrize(
    ("dtype", "value", "fits"),
    [
        ("f32", 1.41421354, True),
        ("f32", 1.41421, False),
        ("f64", 1.4142135, True),
        ("f16", 1.414, True),
        ("bf16", 1.414, True),
        ("f16", 1.42, False),
        ("s32", 1, False),
    ],
)
def test_scalars_have_a_tolerance(dtype: str, value: float, fits: bool) -> None:
    pattern = node("mul", X, 2**0.5)
    assert (found(pattern, f"mul(p, c({value}))", dtype) is not None) == fits


def test_named_scalars_are_captured() -> None:
    pattern = node("add", X, Scalar(name="epsilon"))
    assert found(pattern, "add(p, c([0.5, 0.5, 0.5, 0.5]))") == {"x": "p", "epsilon": 0.5}
    assert found(pattern, "add(p, q)") is None


def test_attributes_are_compared_with_defaults() -> None:
    pattern = node("hard_sigmoid", X, alpha=1 / 6, beta=0.5)
    assert found(pattern, "hard_sigmoid(p, alpha=0.16666667)") == {"x": "p"}
    assert found(pattern, "hard_sigmoid(p, alpha=0.16666667, beta=0.25)") is None
    assert found(node("clamp", X, min=0), "clamp(p, max=1.0)") is None


def test_a_recipe_is_a_rewriting_rule() -> None:
    rule = recipe(node("mul", X, node("sigmoid", X)), make_instead("silu"))
    graph = graph_from("neg(mul(sigmoid(p), p))", p=(4,))
    assert rewrite(graph, {"mul": [rule]})
    assert expression_of(graph) == "neg(silu(p))"


def test_a_recipe_keeps_the_shape() -> None:
    rule = recipe(node("mul", X, 2), make_instead("relu"))
    graph = graph_from("mul(p, c([[2.0]]))", p=(4,))
    assert not rewrite(graph, {"mul": [rule]})


def test_a_number_of_one_name_is_the_same_everywhere() -> None:
    pattern = node("mul", node("add", Capture("x"), Scalar(name="k")), Scalar(name="k"))
    for second, matches in (("2.0", True), ("3.0", False)):
        graph = graph_of(
            f"""
            %x = Node[type=input] () -> f32[4]
            %a = Node[type=constant] (attrs = {{value: [2.0]}}) -> f32[]
            %b = Node[type=constant] (attrs = {{value: [{second}]}}) -> f32[]
            %s = Node[type=add] (inputs = (a=%x, b=%a)) -> f32[4]
            %y = Node[type=mul] (inputs = (a=%s, b=%b)) -> f32[4]
            return (output=%y)
            """
        )
        found = match(pattern, graph.outputs[0].inputs[0])
        assert (found is not None) == matches
