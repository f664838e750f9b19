from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import F32, S32
from graphc.base.errors import InternalError, UnsupportedError, UserError
from graphc.graph_ir.ir.contents import attribute_tokens
from graphc.graph_ir.ir.format import parse_format, plain
from graphc.graph_ir.ir.graph import Graph, Op
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.operands import Operand, VariadicOperand
from graphc.graph_ir.ir.verifier import verify
from support.graphs import text_of

VECTOR = LogicalTensor(F32, (3,))


def chain() -> Graph:
    graph = Graph("chain")
    x = graph.make_input(VECTOR, "x")
    a = graph.make("relu", [x], name="a").outputs[0]
    b = graph.make("add", [a, x], name="b").outputs[0]
    graph.make_output(b, "y")
    return graph


def names(graph: Graph) -> list[str]:
    return [op.name for op in graph.ops]


def test_make_links_both_ways() -> None:
    graph = chain()
    x, a, b, y = graph.ops
    assert [op.logical_op_id for op in graph.ops] == [0, 1, 2, 3]
    assert list(x.outputs[0].uses) == [(0, a), (1, b)]
    assert y.inputs == b.outputs and a.outputs[0].producer_owner is a
    assert (a.outputs[0].name, a.outputs[0].index) == ("a", 0)
    assert graph.inputs == [x] and graph.outputs == [y]
    verify(graph)


def test_rejected_op_leaves_no_trace() -> None:
    graph = Graph()
    x = graph.make_input(VECTOR, "x")
    n = graph.make_input(LogicalTensor(S32, (3,)), "n")
    with pytest.raises(UserError):
        graph.make("add", [x, n])
    assert not x.uses and len(graph.ops) == 2
    verify(graph)


def test_unknown_op() -> None:
    with pytest.raises(UnsupportedError, match="'frobnicate' is not in the registry"):
        Graph().make("frobnicate")


def test_names_become_unique() -> None:
    graph = Graph()
    assert [graph.unique_name("a") for _ in range(3)] == ["a", "a_1", "a_2"]
    assert graph.unique_name("a_1") == "a_1_1"
    assert graph.unique_name("a") == "a_3"


def test_replace_uses_keeps_uses_exact() -> None:
    graph = chain()
    x, a, b, _ = graph.ops
    a.outputs[0].replace_uses(x.outputs[0])
    assert not a.outputs[0].uses
    assert sorted((i, op.name) for i, op in x.outputs[0].uses) == [(0, "a"), (0, "b"), (1, "b")]
    verify(graph)


def test_remove_refuses_what_is_used() -> None:
    graph = chain()
    with pytest.raises(InternalError, match="'a' cannot be removed: 'b' uses it"):
        graph.remove([graph.ops[1]])
    verify(graph)


def test_remove_frees_uses_and_name() -> None:
    graph = chain()
    a, b, y = graph.ops[1:]
    graph.remove([y, a, b])
    assert names(graph) == ["x"] and not graph.ops[0].outputs[0].uses
    assert graph.unique_name("a") == "a"


def test_sort_moves_new_ops_before_their_first_user() -> None:
    graph = chain()
    x, _, b, _ = graph.ops
    new = graph.make("neg", [x.outputs[0]], name="new")
    b.set_input(1, new.outputs[0])
    graph.sort()
    assert names(graph) == ["x", "a", "new", "b", "y"]
    verify(graph)


def test_sort_keeps_the_order_of_arguments_and_results() -> None:
    graph = Graph()
    late, early = graph.make_input(VECTOR, "late"), graph.make_input(VECTOR, "early")
    placeholder = graph.make("neg", [early])
    graph.make_output(placeholder.outputs[0], "first")
    graph.make_output(late, "second")
    new = graph.make("relu", [early], name="new")
    placeholder.outputs[0].replace_uses(new.outputs[0])
    graph.remove([placeholder])
    graph.sort()
    assert names(graph) == ["late", "early", "new", "first", "second"]


def test_sort_keeps_a_topological_order() -> None:
    graph = chain()
    before = list(graph.ops)
    graph.sort()
    assert graph.ops == before


def test_sort_reports_a_cycle() -> None:
    graph = chain()
    _, a, b, _ = graph.ops
    a.set_input(0, b.outputs[0])
    with pytest.raises(InternalError, match="must be acyclic"):
        graph.sort()


def test_sort_of_a_long_chain_does_not_recurse() -> None:
    graph = Graph()
    x = graph.make_input(VECTOR)
    for _ in range(3000):
        x = graph.make("neg", [x]).outputs[0]
    graph.make_output(x)
    graph.ops.reverse()
    graph.sort()
    verify(graph)
    assert graph.evaluate([np.ones(3, np.float32)])[0].tolist() == [1, 1, 1]


def test_evaluate() -> None:
    x = np.array([-1, 0, 2], np.float32)
    assert chain().evaluate([x])[0].tolist() == [-1, 0, 4]


def test_walk_reference_yields_every_op() -> None:
    steps = [
        (op.name, value.tolist())
        for op, value in chain().walk_reference([np.array([-1, 0, 2], np.float32)])
    ]
    assert steps == [("x", [-1, 0, 2]), ("a", [0, 0, 2]), ("b", [-1, 0, 4]), ("y", [-1, 0, 4])]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "each of its 1 inputs, got 0"),
        ([np.zeros(4, np.float32)], r"'x' must be f32\[3\], got an array float32\[4\]"),
        ([np.zeros(3)], r"'x' must be f32\[3\], got an array float64\[3\]"),
    ],
)
def test_evaluate_checks_its_inputs(inputs: list[Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        chain().evaluate(inputs)


def test_contents_ignore_names_and_temporaries() -> None:
    one, two = chain(), chain()
    two.name = "other"
    two.ops[1].name = "renamed"
    two.ops[1].attrs["temp.mark"] = object()
    assert one.compare_contents(two) and one.hash_contents() == two.hash_contents()


@pytest.mark.parametrize("change", ["attrs", "wire", "format", "extra", "graph attrs"])
def test_contents_see_every_difference(change: str) -> None:
    one, two = chain(), chain()
    x, a, b, _ = two.ops
    if change == "attrs":
        one.make("leaky_relu", one.ops[0].outputs)
        two.make("leaky_relu", x.outputs, {"alpha": 1})
    elif change == "wire":
        b.set_input(0, x.outputs[0])
    elif change == "format":
        a.outputs[0].details = VECTOR.with_format(parse_format("A2a"))
    elif change == "extra":
        two.make_output(x.outputs[0])
    else:
        two.attrs["opset"] = 17
    assert not one.compare_contents(two) and one.hash_contents() != two.hash_contents()


def test_ops_have_contents_of_their_own() -> None:
    graph = Graph("g")
    x, y = (graph.make_input(LogicalTensor(F32, (4, 4)), name) for name in "xy")
    one = graph.make("softmax", [x], {"axis": 1, "temp.note": 1}, "one")
    same = graph.make("softmax", [y], {"axis": 1}, "same")
    for other in (
        graph.make("softmax", [x], {"axis": 0}),
        graph.make("log_softmax", [x], {"axis": 1}),
    ):
        assert not one.compare_contents(other) and one.hash_contents() != other.hash_contents()
    assert one.compare_contents(same) and one.hash_contents() == same.hash_contents()


def test_attribute_tokens() -> None:
    def same(one: object, two: object) -> bool:
        return list(attribute_tokens(one)) == list(attribute_tokens(two))

    assert same((1, 2), [1, 2]) and not same((1, 2), (2, 1)) and not same(((1,), 2), ((1, 2),))
    assert same(np.float64(0.5), 0.5) and not same(1, 1.0) and not same(1, True)
    assert same(np.array([1, 2], ">i4"), np.array([1, 2], "<i4"))
    assert not same(np.array([1, 2]), np.array([[1, 2]])) and not same(np.zeros(2), -np.zeros(2))
    assert same(parse_format("NCHW"), plain(4)) and not same(parse_format("NHWC"), plain(4))
    assert same({"b": 1, "a": 2, "temp.c": 3}, {"a": 2, "b": 1}) and not same({"a": 1}, {"b": 1})


def test_input_names_number_the_rest() -> None:
    class Many(Op):
        x = Operand()
        y = VariadicOperand()

        def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
            return []

    graph = Graph()
    x = graph.make_input(VECTOR)
    assert [Many("m", "m", [x] * 2, {}).input_name(i) for i in range(2)] == ["x", "y"]
    assert [Many("m", "m", [x] * 4, {}).input_name(i) for i in range(4)] == [
        "x",
        "y_0",
        "y_1",
        "y_2",
    ]


def test_gflop_adds_up() -> None:
    assert chain().get_gflop() == pytest.approx(6e-9)


def test_text_helper_reads_what_it_prints() -> None:
    assert text_of(chain()).splitlines()[0] == "%x = Node[type=input] () -> f32[3]"
