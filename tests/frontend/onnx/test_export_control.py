"""Choices and loops written as If and Loop: checked by onnx, run by its evaluator, and read back."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from graphc.base.dtypes import BOOL, F32, S64
from graphc.base.errors import UnsupportedError
from graphc.frontend import load
from graphc.frontend.onnx import to_onnx
from graphc.frontend.onnx.export_control import MAX_BRANCHES
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor

X = LogicalTensor(F32, (3,))


def branch(*names: str) -> Graph:
    """A chain of ops on the first input, and the second input unchanged."""
    graph = Graph("_".join(names) or "same")
    first, second = graph.make_input(X, "x"), graph.make_input(X, "b")
    for name in names:
        first = graph.make(name, [first]).outputs[0]
    scaled = graph.make("mul", [first, graph.make_constant(np.float32(len(names) + 1), "c")])
    graph.make_output(scaled.outputs[0], "y")
    graph.make_output(second, "b")
    return graph


def choice(count: int) -> Graph:
    chains: list[tuple[str, ...]] = [(), ("neg",), ("neg", "abs"), ("square",)]
    graph = Graph("choice")
    index = graph.make_input(LogicalTensor(S64, ()), "index")
    x, b = graph.make_input(X, "x"), graph.make_input(X, "b")
    branches = tuple(branch(*chains[i % 4]) for i in range(count))
    for tensor in graph.make("case", [index, x, b], {"branches": branches}, "choose").outputs:
        graph.make_output(tensor)
    return graph


def check(graph: Graph, *inputs: Array) -> None:
    proto = to_onnx(graph)
    onnx.checker.check_model(proto, full_check=True)
    expected = graph.evaluate(inputs)
    names = [info.name for info in proto.graph.input]
    theirs: Any = ReferenceEvaluator(proto).run(None, dict(zip(names, inputs, strict=True)))
    mine = load(proto).evaluate(inputs)
    for results in (theirs, mine):
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result, wanted)


A, B = np.array([1, -2, 3], np.float32), np.array([4, 5, -6], np.float32)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_choices(count: int) -> None:
    for index in (0, 1, 3, 4, -1):
        check(choice(count), np.array(index), A, B)


def test_a_flag_is_the_condition() -> None:
    graph = Graph("g")
    flag = graph.make_input(LogicalTensor(BOOL, ()), "flag")
    x, b = graph.make_input(X, "x"), graph.make_input(X, "b")
    index = graph.make("cast", [flag], {"dtype": "s64"}).outputs[0]
    branches = (branch(), branch("neg"))
    choose = graph.make("case", [index, x, b], {"branches": branches}, "choose")
    graph.make_output(choose.outputs[0])
    for value in (True, False):
        check(graph, np.array(value), A, B)
    again = load(to_onnx(graph))
    assert load(to_onnx(again)).compare_contents(again)


def loop(carried: int) -> Graph:
    """While the sum of x is below a limit, x becomes x + x * step."""
    state = [X, LogicalTensor(S64, ())][:carried]
    condition, body = Graph("condition"), Graph("body")
    for graph in (condition, body):
        for number, details in enumerate([*state, LogicalTensor(F32, ())]):
            graph.make_input(details, f"in{number}")
    x, *_, limit = (op.outputs[0] for op in condition.inputs)
    total = condition.make("reduce_sum", [x], {}).outputs[0]
    condition.make_output(condition.make("lt", [total, limit]).outputs[0])
    x = body.inputs[0].outputs[0]
    body.make_output(body.make("add", [x, x]).outputs[0])
    if carried > 1:
        one = body.make_constant(np.array(1, np.int64), "one")
        body.make_output(body.make("add", [body.inputs[1].outputs[0], one]).outputs[0])
    graph = Graph("loop")
    inputs = [graph.make_input(d, f"x{i}") for i, d in enumerate([*state, LogicalTensor(F32, ())])]
    made = graph.make("while", inputs, {"condition": condition, "body": body}, "repeat")
    for tensor in made.outputs:
        graph.make_output(tensor)
    return graph


@pytest.mark.parametrize("limit", [0, 3, 1000])
def test_loops(limit: int) -> None:
    check(loop(1), A, np.array(limit, np.float32))
    check(loop(2), A, np.array(5, np.int64), np.array(limit, np.float32))


def test_a_computation_written_twice_has_nodes_of_other_names() -> None:
    """A loop's condition stands before the Loop and in its body, and the body of one loop in several."""
    graph = Graph("twice")
    x, limit = (graph.make_input(d, n) for d, n in ((X, "x"), (LogicalTensor(F32, ()), "limit")))
    part = loop(1).ops[-2]
    for _ in range(2):
        subgraphs = {key: part.attr(key) for key in ("condition", "body")}
        x = graph.make("while", [x, limit], subgraphs, "repeat").outputs[0]
    graph.make_output(x, "y")
    proto = to_onnx(graph)
    onnx.checker.check_model(proto, full_check=True)
    names = [node.name for node in proto.graph.node]
    assert len(set(names)) == len(names) > 4
    check(graph, A, np.array(50, np.float32))


def test_what_subgraphs_hold_is_listed_too() -> None:
    with pytest.raises(UnsupportedError) as error:
        to_onnx(choice(MAX_BRANCHES + 1))
    assert str(error.value) == (
        "graph 'choice': ONNX cannot express: case of more than 64 branches (1x); "
        "write another format, such as graphc's own (--to graph)"
    )
    graph = Graph("g")
    index = graph.make_constant(np.array(0), "index")
    x = graph.make_input(X, "x")
    inner = Graph("inner")
    y = inner.make_input(X, "x")
    inner.make_output(inner.make("atan2", [y, y]).outputs[0])
    made = graph.make("case", [index, x], {"branches": (inner, inner, inner)})
    graph.make_output(graph.make("atan2", [made.outputs[0], x]).outputs[0])
    with pytest.raises(UnsupportedError) as error:
        to_onnx(graph)
    assert str(error.value) == (
        "graph 'g': ONNX cannot express: atan2 (4x); "
        "write another format, such as graphc's own (--to graph)"
    )
