"""Operands that decide shapes but are only known at run time: the declared result says which values are possible."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper

import graphc
from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend import load
from support.onnx_models import Array, expected, model, node

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7


def declared(
    made: NodeProto, feeds: Mapping[str, Array], shapes: Sequence[Sequence[int]], opset: int = 21
) -> ModelProto:
    """A model of one node whose results have these shapes."""
    kinds = {name: helper.np_dtype_to_tensor_dtype(x.dtype) for name, x in feeds.items()}
    dims = {name: list(x.shape) for name, x in feeds.items()}
    proto = model([made], dims, opset=opset, outputs=list(made.output), dtypes=kinds)
    for info, shape in zip(proto.graph.output, shapes, strict=True):
        info.CopyFrom(helper.make_tensor_value_info(info.name, TensorProto.FLOAT, shape))
    return proto


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


# The node, the shapes of its results, values of operands that are possible and one that is not.
CASES: dict[str, tuple[NodeProto, list[list[int]], list[dict[str, Array]], dict[str, Array]]] = {
    "axes of a sum": (
        node("ReduceSum", "x a"), [[2, 1, 1]],
        [{"a": ints(1, 2)}, {"a": ints(-1, 1)}], {"a": ints(0, 1)},
    ),
    "axis of a cumulative sum": (
        node("CumSum", "x a"), [[2, 3, 4]],
        [{"a": np.array(n)} for n in (0, 2, -2)], {"a": np.array(3)},
    ),
    "new axes": (
        node("Unsqueeze", "x a"), [[2, 1, 3, 4]], [{"a": ints(1)}, {"a": ints(-3)}], {"a": ints(0)},
    ),
    "shape": (
        node("Reshape", "x s"), [[2, 12]],
        [{"s": ints(2, 12)}, {"s": ints(-1, 12)}, {"s": ints(0, -1)}], {"s": ints(12, 2)},
    ),
    "repetitions": (node("Tile", "x r"), [[2, 6, 4]], [{"r": ints(1, 2, 1)}], {"r": ints(2, 1, 1)}),
    "a slice": (
        node("Slice", "x b e a s"), [[2, 2, 4]],
        [
            {"b": ints(1), "e": ints(9), "a": ints(1), "s": ints(1)},
            {"b": ints(-1), "e": ints(-9), "a": ints(-2), "s": ints(-2)},
        ],
        {"b": ints(2), "e": ints(3), "a": ints(1), "s": ints(1)},
    ),
    "constant border": (
        node("Pad", "x p v"), [[2, 3, 6]],
        [
            {"p": ints(0, 0, p, 0, 0, 2 - p), "v": np.array(p, np.float32)} for p in (0, 2)
        ],
        {"p": ints(0, 0, 0, 0, 0, 0), "v": np.array(0, np.float32)},
    ),
    "mirrored border": (
        node("Pad", "x p", mode="reflect"), [[2, 3, 6]],
        [{"p": ints(0, 0, p, 0, 0, 2 - p)} for p in (0, 1, 2)], {"p": ints(0, 2, 0, 0, 0, 0)},
    ),
    "diagonal": (
        node("Trilu", "x k", upper=0), [[2, 3, 4]], [{"k": np.array(k)} for k in (-9, -1, 2)], {},
    ),
    "parts": (
        node("Split", "x s", "y z", axis=1), [[2, 1, 4], [2, 2, 4]], [{"s": ints(1, 2)}],
        {"s": ints(2, 1)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_that_the_declared_result_allows(name: str) -> None:
    made, shapes, possible, wrong = CASES[name]
    proto = declared(made, {"x": X, **possible[0]}, shapes)
    graph = load(proto)
    for operands in possible:
        feeds = {"x": X, **operands}
        results = graph.evaluate([feeds[op.name] for op in graph.inputs])
        for result, wanted in zip(results, expected(proto, feeds), strict=True):
            assert np.array_equal(result, wanted)
    if wrong:
        with pytest.raises(UserError, match="declared"):
            graph.evaluate([{"x": X, **wrong}[op.name] for op in graph.inputs])


def test_a_range_and_a_window() -> None:
    feeds = {name: np.array(value, np.float32) for name, value in (("b", 1), ("e", 4), ("s", 1))}
    graph = load(declared(node("Range", "b e s"), feeds, [[3]]))
    assert graph.evaluate([*feeds.values()])[0].tolist() == [1, 2, 3]
    two = [np.array(value, np.float32) for value in (5, -1, -2)]
    assert graph.evaluate(two)[0].tolist() == [5, 3, 1]
    with pytest.raises(UserError, match="there must be 3 numbers, as the result is declared"):
        graph.evaluate([two[0], two[0], two[2]])
    window = load(declared(node("HannWindow", "n"), {"n": np.array(4)}, [[4]]))
    assert np.allclose(window.evaluate([np.array(4)])[0], [0, 0.5, 1, 0.5])
    with pytest.raises(UserError, match=re.escape("input 'n' must be [4], as the results are")):
        window.evaluate([np.array(5)])


def test_natively_each_run_checks_the_value() -> None:
    proto = declared(node("ReduceSum", "x a"), {"x": X, "a": ints(1)}, [[2, 1, 4]])
    with graphc.compile(proto) as compiled:
        assert [spec.name for spec in compiled.outputs] == ["y"]
        for axis in (1, -2):
            assert np.array_equal(compiled(X, ints(axis)), X.sum(1, keepdims=True))
        with pytest.raises(UserError) as error:
            compiled(X, ints(2))
        assert str(error.value) == (
            "model 'test': ReduceSum 'y': 'a' must be [1], as the result is declared to be [2, 1, 4]; "
            "compile it for another value (`constants=`)"
        )
        out = np.empty((2, 1, 4), np.float32)
        assert compiled.bind({"x": X, "a": ints(1)}, [out])() == 0
        assert np.array_equal(out, X.sum(1, keepdims=True))


def test_checks_survive_saving_and_printing(tmp_path: Any) -> None:
    from graphc.graph_ir.text.parser import parse_graph
    from graphc.graph_ir.text.printer import print_graph

    graph = load(declared(node("Tile", "x r"), {"x": X, "r": ints(1, 1, 1)}, [[2, 3, 8]]))
    assert parse_graph(print_graph(graph, full=True)).checks == graph.checks
    path = tmp_path / "tile.gcm"
    graphc.compile(graph).save(path)
    with pytest.raises(UserError, match="'r' must be"):
        graphc.load(path)(X, ints(1, 1, 3))


def test_what_stays_refused() -> None:
    open_ = model([node("Reshape", "x r")], {"x": [2], "r": [1]}, dtypes={"r": TensorProto.INT64})
    with pytest.raises(UnsupportedError, match="fix the input's value: --constant r=@value.npy"):
        load(open_)
