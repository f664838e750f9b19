"""Graphs written as dumps and read back."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import by_name
from graphc.base.errors import UnsupportedError
from graphc.frontend import load
from graphc.frontend.ge import dump_constants, write_ge
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.op_cases import CASES, graph_of, inputs_of


def read_back(graph, full=False):
    specs = {op.name: str(op.outputs[0].details) for op in graph.inputs}
    return load(write_ge(graph, full=full).encode(), specs, dump_constants(graph))


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "types", "attrs"), CASES)
def test_reading_gives_the_graph_that_was_written(name, types, attrs):
    graph = graph_of(name, types, attrs)
    again = read_back(graph)
    inputs = inputs_of(name, types)
    for mine, wanted in zip(again.evaluate(inputs), graph.evaluate(inputs), strict=True):
        assert mine.dtype == wanted.dtype
        np.testing.assert_array_equal(mine, wanted)
    assert read_back(again).compare_contents(again)
    assert write_ge(read_back(again)) == write_ge(again)


@pytest.mark.parametrize("dtype", [None, "s32"])
@pytest.mark.parametrize("byte", ["u8", "s8"])
@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("matmul_core", [(3, 40), (40, 5)]),
        ("matmul_core", [(2, 1, 3, 4), (2, 4, 5)]),
        ("convolution", [(1, 7, 5, 4), (2, 7, 3, 3)]),
        ("convolution", [(1, 7, 9), (2, 7, 3)]),
    ],
)
def test_matmuls_of_bytes_come_back(name, shapes, byte, dtype):
    """GE's are in s32; those that wrap are cast after them."""
    graph = Graph("g")
    types = [LogicalTensor(by_name(byte), shape) for shape in shapes]
    inputs = [graph.make_input(details, f"x{i}") for i, details in enumerate(types)]
    graph.make_output(graph.make(name, inputs, {"dtype": dtype}, "op").outputs[0])
    again = read_back(graph)
    info = np.iinfo(types[0].dtype.numpy)
    random = np.random.default_rng(0)
    arrays = [random.integers(info.min, info.max + 1, s).astype(info.dtype) for s in shapes]
    (mine,), (wanted,) = again.evaluate(arrays), graph.evaluate(arrays)
    assert mine.dtype == wanted.dtype == (info.dtype if dtype is None else np.int32)
    np.testing.assert_array_equal(mine, wanted)
    assert read_back(again).compare_contents(again)


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
        "graph 'g': GE cannot express: and of s32 (1x), xor (2x); "
        "write another format, such as graphc's own (--to graph)"
    )


IMAGE = (2, 4, 7, 6)
WINDOWS = [
    ("convolution", [IMAGE, (6, 2, 3, 2)], {"groups": 2, "strides": (2, 1), "before": (1, 0), "after": (0, 1)}),
    ("convolution", [(2, 4, 9), (6, 4, 3)], {"dilations": (2,), "before": (2,), "after": (2,)}),
    ("convolution", [(1, 2, 4, 5, 3), (3, 2, 2, 3, 1)], {"after": (1, 0, 2)}),
    ("convolution_transpose", [IMAGE, (4, 3, 3, 2)], {"strides": (2, 2), "before": (1, 0), "output_padding": (1, 0)}),
    ("convolution_transpose", [(2, 4, 6), (4, 3, 2)], {"strides": (2,), "output_padding": (1,)}),
    ("max_pool", [IMAGE], {"kernel": (3, 3), "strides": (2, 2), "before": (1, 1), "after": (1, 1), "ceil_mode": True}),
    ("max_pool", [(3, 2, 2, 9)], {"kernel": (2,), "strides": (2,)}),
    ("avg_pool", [IMAGE], {"kernel": (2, 2), "before": (1, 1), "count_include_pad": True}),
    ("avg_pool", [IMAGE], {"kernel": (2, 2), "after": (1, 1)}),
    ("sum_pool", [(4, 7, 6)], {"kernel": (2, 3)}),
    ("resize", [IMAGE], {"shape": (2, 4, 9, 5), "mode": "linear", "coordinates": "half_pixel"}),
    ("layer_norm", [IMAGE, (6,)], {"axis": -1}),
    ("layer_norm", [IMAGE], {"axis": 2, "epsilon": 1e-3}),
    ("rms_norm", [IMAGE], {}),
    ("group_norm", [IMAGE, (4,), (4,)], {"groups": 2}),
    ("instance_norm", [IMAGE, (4,), (4,)], {}),
    ("arg_max", [IMAGE], {"axis": 1, "keep_dims": True}),
    ("reduce_l2", [IMAGE], {"axes": (1, 3), "keep_dims": True}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shapes", "attrs"), WINDOWS)
def test_windows_and_norms_come_back(name, shapes, attrs):
    graph = Graph("g")
    f32 = by_name("f32")
    tensors = [graph.make_input(LogicalTensor(f32, s), f"x{i}") for i, s in enumerate(shapes)]
    graph.make_output(graph.make(name, tensors, attrs, "op").outputs[0])
    again = read_back(graph)
    inputs = [
        np.random.default_rng(i).standard_normal(s).astype("f4") for i, s in enumerate(shapes)
    ]
    (mine,), (wanted,) = again.evaluate(inputs), graph.evaluate(inputs)
    assert mine.dtype == wanted.dtype
    np.testing.assert_array_equal(mine, wanted)
    assert read_back(again).compare_contents(again)


@pytest.mark.parametrize(
    ("name", "attrs", "why"),
    [
        ("max_pool", {"kernel": (2, 2), "dilations": (2, 2)}, "dilations"),
        ("avg_pool", {"kernel": (2, 2, 2)}, "a window over 3 axes"),
        ("resize", {"shape": IMAGE, "antialias": True}, "antialias"),
        ("layer_norm", {"epsilon": 1e-12}, "epsilon=1e-12"),
        ("leaky_relu", {"alpha": 1.23456e-4}, "negative_slope=0.000123456"),
    ],
)
def test_what_a_node_does_not_hold_is_named(name, attrs, why):
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(by_name("f32"), IMAGE), "x")
    graph.make_output(graph.make(name, [x], attrs).outputs[0])
    with pytest.raises(UnsupportedError) as error:
        write_ge(graph)
    assert (
        str(error.value) == f"graph 'g': GE cannot express: {name} with {why} (1x); "
        "write another format, such as graphc's own (--to graph)"
    )
