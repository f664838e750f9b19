"""Graphs written as dumps and read back."""

from __future__ import annotations

import numpy as np
import pytest

import graphc.graph_ir.ops  # noqa: F401 - fills the registry
from graphc.dtypes import by_name
from graphc.errors import UnsupportedError
from graphc.frontend import load
from graphc.frontend.ge import dump_constants, write_ge
from graphc.graph_ir.graph import Graph
from graphc.graph_ir.logical_tensor import LogicalTensor
from support.check_op import random_array

F = [("f32", (2, 3, 4))]
AB = [("f32", (2, 3, 4)), ("f32", (3, 1))]
I = [("s32", (2, 3))] * 2  # noqa: E741
P = [("f32", (4, 6)), *[("f32", (6,))] * 2]

CASES = [
    *((name, F, {}) for name in (
        "neg", "abs", "exp", "relu", "sigmoid", "tanh", "erf", "square", "floor", "round", "sin", "isnan", "isinf",
        "softplus", "mish", "hard_swish", "silu", "gelu", "selu", "elu", "leaky_relu", "softsign", "copy", "sign",
        "softmax", "log_softmax", "reduce_sum", "arg_max", "arg_min", "expm1", "trunc",
    )),
    *((name, AB, {}) for name in ("add", "sub", "mul", "div", "max", "min", "pow", "eq", "lt", "ge", "ne", "atan2")),
    *((name, I, attrs) for name, attrs in (
        ("div", {"rounding": "trunc"}), ("div", {}), ("mod", {}), ("mod", {"sign": "trunc"}), ("add", {}))),
    ("and", [("bool", (2, 3))] * 2, {}), ("or", [("bool", (2, 3))] * 2, {}), ("not", [("bool", (2,))], {}),
    ("gelu", F, {"approximate": "tanh"}), ("leaky_relu", F, {"alpha": 0.25}), ("elu", F, {"alpha": 2.0}),
    ("selu", F, {"alpha": 1.5, "gamma": 0.5}), ("hard_sigmoid", F, {"alpha": 1 / 6, "beta": 0.5}),
    ("clamp", F, {"min": -0.1, "max": None}), ("clamp", I[:1], {"min": -2, "max": 3}), ("cast", F, {"dtype": "s8"}),
    ("cast", F, {"dtype": "bf16"}), ("prelu", [("f32", (2, 4)), ("f32", (4,))], {}),
    ("select", [("bool", (3, 1)), *F, *F], {}), ("broadcast", [("f32", (3, 1))], {"shape": (2, 3, 4)}),
    ("reshape", F, {"shape": (4, 6)}), ("reshape", [("f32", (0, 3))], {"shape": (3, 0)}),
    ("transpose", F, {"perm": (2, 0, 1)}), ("concat", F * 2, {"axis": 1}),
    ("slice", F, {"starts": (0, 1, 1), "steps": (1, 1, 1), "sizes": (2, 2, 3)}),
    ("slice", F, {"starts": (1, 2, 3), "steps": (-1, -2, -3), "sizes": (2, 2, 2)}),
    ("slice", F, {"starts": (0, 0, 1), "steps": (1, 2, 2), "sizes": (0, 2, 2)}),
    ("pad", F, {"before": (0, 1, 2), "after": (1, 0, 0), "mode": "constant", "value": 0.3}),
    ("pad", F, {"before": (0, 1, 2), "after": (1, 0, 0), "mode": "edge"}),
    ("gather", [*F, ("s64", (5,))], {"axis": 2}), ("gather_elements", [("f32", (2, 3)), ("s64", (2, 3))], {"axis": 1}),
    ("scatter_elements", [("f32", (2, 3)), ("s64", (2, 3)), ("f32", (2, 3))], {"axis": 1, "reduction": "add"}),
    ("top_k", F, {"k": 2, "axis": 1, "largest": False}), ("cum_sum", F, {"axis": -1, "reverse": True}),
    ("cum_prod", F, {"axis": 1, "exclusive": True}), ("matmul_core", [("f32", (2, 3)), ("f32", (4, 3))],
                                                      {"transpose_b": True}),
    ("matmul_core", [("f32", (5, 3, 2)), ("f32", (3, 4))], {"transpose_a": True}),
    ("reduce_mean", F, {"axes": (0, -1), "keep_dims": True}), ("reduce_max", F, {"axes": ()}),
    ("reduce_any", [("bool", (2, 3))], {"axes": (1,)}), ("reduce_log_sum_exp", F, {"axes": (1,)}),
    ("arg_max", F, {"axis": 1}), ("softmax", F, {"axis": 1}), ("layer_norm", P, {"axis": -1, "epsilon": 0.001}),
    ("rms_norm", P[:2], {"axis": -1, "epsilon": 0.001}), ("batch_norm", [("f32", (2, 3)), *[("f32", (3,))] * 4], {}),
]  # fmt: skip


def graph_of(name, types, attrs):
    """One op between inputs, a weight and outputs."""
    graph = Graph("g")
    tensors = [
        graph.make_input(LogicalTensor(by_name(t), dims), f"x{i}")
        for i, (t, dims) in enumerate(types)
    ]
    for tensor in graph.make(name, tensors, attrs, "/layer.0/op").outputs:
        graph.make_output(tensor)
    return graph


def read_back(graph, full=False):
    specs = {op.name: str(op.outputs[0].details) for op in graph.inputs}
    return load(write_ge(graph, full=full).encode(), specs, dump_constants(graph))


@pytest.mark.parametrize(("name", "types", "attrs"), CASES)
def test_reading_gives_the_graph_that_was_written(name, types, attrs):
    graph = graph_of(name, types, attrs)
    again = read_back(graph)
    inputs = [np.abs(random_array(t, dims, i)) if name in ("pow", "batch_norm") else random_array(t, dims, i)
              for i, (t, dims) in enumerate(types)]  # fmt: skip
    for mine, wanted in zip(again.evaluate(inputs), graph.evaluate(inputs), strict=True):
        assert mine.dtype == wanted.dtype
        np.testing.assert_array_equal(mine, wanted)
    assert read_back(again).compare_contents(again)
    assert write_ge(read_back(again)) == write_ge(again)


def test_the_text():
    graph = graph_of("softmax", [("f32", (2, 3))], {"axis": 1})
    assert write_ge(graph) == (
        'graph("g"):\n'
        "  %x0 : [#users=1] = Node[type=Data] (attrs = {index: 0})\n"
        "  %/layer.0/op : [#users=1] = Node[type=SoftmaxV2] (inputs = (x=%x0), "
        "attrs = {axes: {1}, half_to_float: false})\n"
        "\n"
        "  return (%/layer.0/op)\n"
    )


def test_long_constants_are_elided_unless_full():
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(by_name("f32"), (7,)), "x")
    weight = graph.make_constant(np.arange(7, dtype=np.float32) / 3, "w")
    graph.make_output(graph.make("add", [x, weight], name="y").outputs[0])
    assert (
        "%w : [#users=1] = Node[type=Const] (attrs = {value: [0.000000 0.333333 0.666667 ... 1.333333"
        in write_ge(graph)
    )
    full = load(write_ge(graph, full=True).encode(), {"x": "f32[7]"})
    (y,) = full.evaluate([np.zeros(7, np.float32)])
    np.testing.assert_allclose(y, np.arange(7) / 3, atol=1e-6)
    assert read_back(graph).compare_contents(graph)


def test_all_ops_without_a_node_are_named():
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(by_name("s32"), (2,)), "x")
    y = graph.make("xor", [x, graph.make("and", [x, x]).outputs[0]]).outputs[0]
    graph.make_output(graph.make("xor", [y, y]).outputs[0])
    with pytest.raises(UnsupportedError) as error:
        write_ge(graph)
    assert str(error.value) == (
        "graph 'g': GE has no node for these ops: and with integers (1x), xor (2x)"
    )
