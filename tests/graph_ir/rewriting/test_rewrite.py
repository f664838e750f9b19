from __future__ import annotations

import pytest

from graphc.base.errors import InternalError
from graphc.graph_ir.ir.graph import Graph, GraphTensor, Op
from graphc.graph_ir.ir.verifier import verify
from graphc.graph_ir.rewriting.rewrite import rewrite
from support.expressions import expression_of, graph_from


def drop(graph: Graph, op: Op) -> GraphTensor | None:
    return op.inputs[0]


def become(name: str):  # type: ignore[no-untyped-def]
    def rule(graph: Graph, op: Op) -> GraphTensor | None:
        return graph.make(name, op.inputs).outputs[0]

    return rule


def never(graph: Graph, op: Op) -> GraphTensor | None:
    return None


def test_rules_apply_until_none_fits() -> None:
    graph = graph_from("exp(neg(neg(relu(neg(x)))))", x=(3,))
    assert rewrite(graph, {"neg": [never, drop]})
    verify(graph)
    assert expression_of(graph) == "exp(relu(x))"
    assert not rewrite(graph, {"neg": [drop]})


def test_new_ops_are_visited_too() -> None:
    graph = graph_from("neg(x)", x=(3,))
    assert rewrite(graph, {"neg": [become("exp")], "exp": [become("abs")]})
    verify(graph)
    assert expression_of(graph) == "abs(x)"
    assert [op.op_name for op in graph.ops] == ["input", "abs", "output"]


def test_users_are_visited_again() -> None:
    def after_input(graph: Graph, op: Op) -> GraphTensor | None:
        reads_input = op.inputs[0].producer_owner.op_name == "input"
        return op.inputs[0] if reads_input else None

    graph = graph_from("exp(exp(exp(x)))", x=(3,))
    graph.ops[1:4] = graph.ops[3:0:-1]  # so that the last exp is looked at first
    assert rewrite(graph, {"exp": [after_input]})
    assert expression_of(graph) == "x"


def test_what_became_unused_goes_and_the_rest_stays() -> None:
    graph = graph_from("add(neg(exp(x)), c(1.0))", x=(3,))
    shared = graph.ops[1].outputs[0]
    graph.make_output(shared, "shared")

    def to_x(graph: Graph, op: Op) -> GraphTensor | None:
        return graph.inputs[0].outputs[0]

    assert rewrite(graph, {"add": [to_x]})
    verify(graph)
    assert [op.op_name for op in graph.ops] == ["input", "exp", "output", "output"]


def test_rules_that_undo_each_other_are_an_internal_error() -> None:
    graph = graph_from("neg(x)", x=(3,))
    with pytest.raises(InternalError, match="rewriting around .* does not end"):
        rewrite(graph, {"neg": [become("abs")], "abs": [become("neg")]})


def test_a_replacement_of_another_shape_is_an_internal_error() -> None:
    graph = graph_from("exp(x)", x=(3,))
    with pytest.raises(InternalError, match=r"exp 'exp': f32\[3\] was replaced by f32\[\]"):
        rewrite(graph, {"exp": [become("reduce_sum")]})
