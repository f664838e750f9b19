"""Functions of a model: calls mean their bodies, whatever bodies, attributes and opsets they have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, TensorProto, helper

import graphc
from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend import load

X = np.array([1, -2, 3, -4], np.float32)
BOTH = [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)]
F = TensorProto.FLOAT
N = helper.make_node


def call(kind: str, inputs: str, outputs: str, **attrs: Any) -> Any:
    return N(kind, inputs.split(), outputs.split(), domain="my", **attrs)


def function(
    name: str, inputs: str, outputs: str, nodes: list[Any], defaults: dict[str, Any] | None = None,
    attributes: str = "", opset: int | None = 18,
) -> FunctionProto:  # fmt: skip
    opsets = [helper.make_opsetid("my", 1)]
    opsets += [] if opset is None else [helper.make_opsetid("", opset)]
    given = [helper.make_attribute(key, value) for key, value in (defaults or {}).items()]
    return helper.make_function(
        "my", name, inputs.split(), outputs.split(), nodes, opsets, attributes.split(), given
    )


def referring(node: Any, **names: tuple[str, int]) -> Any:
    """The node with attributes that refer to those of its function."""
    for name, (source, kind) in names.items():
        node.attribute.append(AttributeProto(name=name, ref_attr_name=source, type=kind))  # type: ignore[arg-type]
    return node


def graph_of(nodes: list[Any], outputs: str, shape: Any = (4,), kind: int = F) -> GraphProto:
    infos = [helper.make_tensor_value_info(name, kind, shape) for name in outputs.split()]
    return helper.make_graph(nodes, "inner", [], infos)


def model(
    nodes: list[Any], functions: list[FunctionProto], outputs: str = "y", opset: int = 18
) -> ModelProto:
    infos = [helper.make_tensor_value_info(name, F, None) for name in outputs.split()]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", F, [4])], infos)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("my", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=functions)


def run(*args: Any, **kwargs: Any) -> Any:
    results = load(model(*args, **kwargs)).evaluate([X])
    return results[0] if len(results) == 1 else results


LEAKY = function(
    "NegLeaky", "X", "Y",
    [N("Neg", ["X"], ["t"]), referring(N("LeakyRelu", ["t"], ["Y"]), alpha=("slope", AttributeProto.FLOAT))],
    {"slope": 0.75},
)  # fmt: skip


def leaky(x: Any, slope: float) -> Any:
    return np.where(x > 0, -slope * x, -x).astype(np.float32)


def test_defaults_of_attributes() -> None:
    nodes = [call("NegLeaky", "x", "a"), call("NegLeaky", "x", "b", slope=0.25)]
    first, second = graphc.compile(model(nodes, [LEAKY], "a b"))(X)
    assert np.array_equal(first, leaky(X, 0.75)) and np.array_equal(second, leaky(X, 0.25))


@pytest.mark.parametrize(
    ("given", "slope"), [({}, 0.75), ({"outer": 0.5}, 0.5), ({"slope": 0.5}, 0.75)]
)
def test_attributes_reach_functions_within_functions(given: dict[str, float], slope: float) -> None:
    """An attribute that neither a call nor its function gives is left out of the calls inside, which have defaults."""
    inner = referring(call("NegLeaky", "X", "Y"), slope=("outer", AttributeProto.FLOAT))
    outer = function("Outer", "X", "Y", [inner], attributes="outer")
    assert np.array_equal(run([call("Outer", "x", "y", **given)], [outer, LEAKY]), leaky(X, slope))


ATTRIBUTES: dict[str, tuple[Any, dict[str, Any], int, Any, Any]] = {
    "int": (
        N("Cast", ["X"], ["Y"]), {"to": AttributeProto.INT}, AttributeProto.INT, TensorProto.INT32,
        lambda x: x.astype(np.int32),
    ),
    "ints": (
        N("Constant", [], ["Y"]), {"value_ints": AttributeProto.INTS}, AttributeProto.INTS, [4, 5],
        lambda x: np.array([4, 5]),
    ),
    "floats": (
        N("Constant", [], ["Y"]), {"value_floats": AttributeProto.FLOATS}, AttributeProto.FLOATS, [0.5],
        lambda x: np.array([0.5], np.float32),
    ),
    "tensor": (
        N("Constant", [], ["Y"]), {"value": AttributeProto.TENSOR}, AttributeProto.TENSOR,
        helper.make_tensor("", F, [2], [7, 8]), lambda x: np.array([7, 8], np.float32),
    ),
    "string": (
        N("Gelu", ["X"], ["Y"]), {"approximate": AttributeProto.STRING}, AttributeProto.STRING, "tanh",
        lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ATTRIBUTES)
@pytest.mark.parametrize("is_default", [True, False])
def test_attributes_of_every_type(kind: str, is_default: bool) -> None:
    body, names, code, value, want = ATTRIBUTES[kind]
    node = type(body).FromString(body.SerializeToString())
    referring(node, **dict.fromkeys(names, ("given", code)))
    one = function(
        "One", "X", "Y", [node], {"given": value} if is_default else None,
        "" if is_default else "given", opset=20,
    )  # fmt: skip
    nodes = [call("One", "x", "y", **({} if is_default else {"given": value}))]
    np.testing.assert_allclose(run(nodes, [one], opset=20), want(X), rtol=1e-6)


def test_graphs_among_attributes_read_values_of_the_caller() -> None:
    """A branch given by the call reads its values, also where a value of the body has the same name."""
    node = N("If", ["c"], ["Y"], else_branch=graph_of([N("Neg", ["t"], ["e"])], "e"))
    referring(node, then_branch=("way", AttributeProto.GRAPH))
    body = [N("Abs", ["X"], ["t"]), node]
    either = function("Either", "c X", "Y", body, attributes="way")
    nodes = [
        N("Exp", ["x"], ["t"]),
        N("ReduceSum", ["x"], ["sum"], keepdims=0),
        N("Constant", [], ["zero"], value_float=0.0),
        N("Less", ["sum", "zero"], ["yes"]),
        N("Not", ["yes"], ["no"]),
        call("Either", "yes x", "a", way=graph_of([N("Identity", ["t"], ["e"])], "e")),
        call("Either", "no x", "b", way=graph_of([N("Identity", ["t"], ["e"])], "e")),
    ]
    a, b = run(nodes, [either], "a b")
    np.testing.assert_allclose(a, np.exp(X), rtol=1e-6)
    assert np.array_equal(b, -np.abs(X))


def test_calls_in_graphs_of_nodes_and_graphs_in_bodies() -> None:
    """Values of a body are its own: both calls, and the graphs of either, use the same names."""
    branches = {
        "then_branch": graph_of([call("NegLeaky", "t", "r")], "r"),
        "else_branch": graph_of([N("Mul", ["t", "t"], ["r"])], "r"),
    }
    nodes = [
        N("Constant", [], ["zero"], value_float=0.0),
        N("ReduceSum", ["X"], ["sum"], keepdims=0),
        N("Less", ["sum", "zero"], ["c"]),
        N("Add", ["X", "X"], ["t"]),
        N("If", ["c"], ["Y"], **branches),
    ]
    choose = function("Choose", "X", "Y", nodes)
    outer = [call("Choose", "x", "t"), call("Choose", "t", "y")]
    assert np.array_equal(run(outer, [choose, LEAKY]), (2 * leaky(2 * X, 0.75)) ** 2)


def test_inputs_and_outputs_that_are_left_out() -> None:
    """Nodes of the body lack an input that the call leaves out; a result that it leaves out may be needed inside."""
    body = [N("Clip", ["X", "low", "high"], ["t"]), N("Neg", ["t"], ["negated"])]
    clip = function("Clipped", "X low high", "t negated", body)
    nodes = [
        N("Constant", [], ["two"], value_float=2.0),
        call("Clipped", "x", "a"),
        N("Clipped", ["x", "", "two"], ["", "b"], domain="my"),
    ]
    a, b = run(nodes, [clip], "a b")
    assert np.array_equal(a, X) and np.array_equal(b, -np.minimum(X, 2))


def test_results_that_are_inputs_or_given_twice() -> None:
    one = function("One", "X", "X Y Y", [N("Neg", ["X"], ["Y"])], opset=18)
    results = run([call("One", "x", "a b c")], [one], "a b c")
    for result, want in zip(results, (X, -X, -X), strict=True):
        assert np.array_equal(result, want)
    assert np.array_equal(run([call("No", "x", "y")], [function("No", "X", "X", [])]), X)


def test_a_function_that_only_calls_another() -> None:
    one = function("One", "X", "Y", [N("Neg", ["X"], ["Y"])])
    two = function("Two", "X", "Y", [call("One", "X", "Y")], opset=None)
    assert np.array_equal(run([call("Two", "x", "y")], [two, one]), -X)


def test_a_chain_of_functions_is_no_recursion() -> None:
    chain = [
        function(f"F{k}", "X", "Y", [call(f"F{k + 1}", "X", "Y") if k < 1500 else N("Neg", ["X"], ["Y"])])
        for k in range(1501)
    ]  # fmt: skip
    assert np.array_equal(run([call("F0", "x", "y")], chain), -X)


def test_functions_of_one_name_told_apart_by_overload() -> None:
    made = [function("One", "X", "Y", [N(kind, ["X"], ["Y"])]) for kind in ("Neg", "Abs")]
    made[1].overload = "abs"
    calls = [call("One", "x", "a"), call("One", "x", "b")]
    calls[1].overload = "abs"
    a, b = run(calls, made, "a b")
    assert np.array_equal(a, -X) and np.array_equal(b, np.abs(X))


@pytest.mark.parametrize(("written", "opset"), [(12, 18), (18, 12), (6, 21)])
def test_a_body_keeps_the_opset_that_its_function_imports(written: int, opset: int) -> None:
    """Softmax of opset 12 flattens the axes from 1 on, of opset 13 it is along the last."""
    flat = N("Flatten", ["X"], ["f"], axis=0)
    shape = N(
        "Constant", [], ["s"], value=helper.make_tensor("", TensorProto.INT64, [3], [1, 2, 2])
    )
    body = [flat, shape, N("Reshape", ["f", "s"], ["t"]), N("Softmax", ["t"], ["Y"])]
    result = run(
        [call("Own", "x", "a"), N("Softmax", ["x"], ["b"], axis=0)],
        [function("Own", "X", "Y", body, opset=written)], "a b", opset=opset,
    )[0]  # fmt: skip
    over = (1, 2) if written < 13 else 2
    e = np.exp(X.reshape(1, 2, 2))
    np.testing.assert_allclose(result, e / e.sum(over, keepdims=True), rtol=1e-5)


def test_graphs_in_a_body_keep_its_opset_too() -> None:
    softmax = graph_of([N("Softmax", ["t"], ["r"])], "r", (1, 2, 2))
    shape = N(
        "Constant", [], ["s"], value=helper.make_tensor("", TensorProto.INT64, [3], [1, 2, 2])
    )
    yes = N("Constant", [], ["c"], value=helper.make_tensor("", TensorProto.BOOL, [], [True]))
    node = N("If", ["c"], ["Y"], then_branch=softmax, else_branch=softmax)
    body = [shape, yes, N("Reshape", ["X", "s"], ["t"]), node]
    result = run([call("Own", "x", "y")], [function("Own", "X", "Y", body, opset=12)])
    e = np.exp(X.reshape(1, 2, 2))
    np.testing.assert_allclose(result, e / e.sum(), rtol=1e-5)


REFUSED = {
    "calls itself": (
        [call("A", "x", "y")],
        [function("A", "X", "Y", [call("B", "X", "Y")]), function("B", "X", "Y", [call("A", "X", "Y")])],
        UserError, "a function must not call itself, but my.A does",
    ),
    "too many inputs": (
        [call("NegLeaky", "x x", "y")], [LEAKY],
        UserError, "'y' must have at most the 1 inputs of its function my.NegLeaky, got 2",
    ),
    "too many outputs": (
        [call("NegLeaky", "x", "y z")], [LEAKY],
        UserError, "'y' must have at most the 1 outputs of its function my.NegLeaky, got 2",
    ),
    "an old opset": (
        [call("A", "x", "y")], [function("A", "X", "Y", [N("Neg", ["X"], ["Y"])], opset=5)],
        UnsupportedError, "function my.A: opsets 6 to [0-9]+ are supported, it uses 5",
    ),
    "a result nothing makes": (
        [call("A", "x", "y")], [function("A", "X", "Y", [N("Neg", ["X"], ["Z"])])],
        UserError, "every value must have a producer, but there is none for 'y'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    nodes, functions, error, text = REFUSED[what]
    with pytest.raises(error, match=text):
        load(model(nodes, functions))
