from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32, F64, S64
from graphc.graph_ir.ir.format import parse_format
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.op_kinds import CompositeOp
from graphc.graph_ir.ir.operands import Operand
from graphc.graph_ir.ir.registry import register
from graphc.graph_ir.text.parser import parse_graph
from graphc.graph_ir.text.printer import print_graph, print_op


@register("test_split")
class Split(CompositeOp):
    """Two copies: an op with several outputs."""

    x = Operand()

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        return [inputs[0], inputs[0].with_format(parse_format("A4a"))]


def mlp() -> Graph:
    graph = Graph("mlp")
    x = graph.make_input(LogicalTensor(F32, (8, 64)), "x")
    weight = np.arange(128 * 64, dtype=np.float32).reshape(128, 64) / 2
    w = graph.make_constant(weight, "layer.0/w", parse_format("MK16m16k"))
    fc1 = graph.make("matmul_core", [x, w], {"transpose_b": True, "temp.cost": 3.5}, "fc1")
    relu = graph.make("leaky_relu", [fc1.outputs[0]], {"alpha": 0.1}, "onnx::relu")
    graph.make_output(relu.outputs[0], "y")
    return graph


def test_annotated() -> None:
    assert print_graph(mlp()) == (
        'graph("mlp"):\n'
        "  %x : [#users=1] = Node[type=input] () -> f32[8,64]\n"
        "  %layer.0/w : [#users=1] = Node[type=constant] "
        "(attrs = {value: [0.0 0.5 1.0 ... 4094.5 4095.0 4095.5]}) -> f32[128,64]{MK16m16k}\n"
        "  %fc1 : [#users=1] = Node[type=matmul_core] "
        "(inputs = (a=%x, b=%layer.0/w), attrs = {transpose_b: true}) -> f32[8,128]\n"
        "  %onnx::relu : [#users=1] = Node[type=leaky_relu] "
        "(inputs = (x=%fc1), attrs = {alpha: 0.1}) -> f32[8,128]\n"
        "\n"
        "  return (y=%onnx::relu)\n"
    )


def test_without_annotations_it_is_the_ge_dump() -> None:
    assert print_graph(mlp(), annotate=False) == (
        'graph("mlp"):\n'
        "  %x : [#users=1] = Node[type=input] ()\n"
        "  %layer.0/w : [#users=1] = Node[type=constant] "
        "(attrs = {value: [0.000000 0.500000 1.000000 ... 4094.500000 4095.000000 4095.500000]})\n"
        "  %fc1 : [#users=1] = Node[type=matmul_core] "
        "(inputs = (a=%x, b=%layer.0/w), attrs = {transpose_b: true})\n"
        "  %onnx::relu : [#users=1] = Node[type=leaky_relu] "
        "(inputs = (x=%fc1), attrs = {alpha: 0.100000})\n"
        "\n"
        "  return (%onnx::relu)\n"
    )


def constant_text(value: np.ndarray, *, full: bool = False, annotate: bool = True) -> str:
    graph = Graph()
    graph.make_constant(value, "c")
    line = print_graph(graph, full=full, annotate=annotate).splitlines()[1]
    return line.partition("value: ")[2].partition("})")[0]


@pytest.mark.parametrize(
    ("value", "ge", "annotated"),
    [
        (np.array([1, -2]), "[1 -2]", "[1 -2]"),
        (np.array(7, np.uint8), "[7]", "[7]"),
        (np.array([True, False]), "[true false]", "[true false]"),
        (np.array([1e-7, 1e20]), "[0.000000 100000000000000000000.000000]", "[1e-07 1e+20]"),
        (np.array([0.1], np.float16), "[0.099976]", "[0.1]"),
        (np.array([0.1], ml_dtypes.bfloat16), "<not_supported>", "[0.100097656]"),
        (
            np.array([np.inf, -np.inf, np.nan, -0.0]),
            "[inf -inf nan -0.000000]",
            "[inf -inf nan -0.0]",
        ),
        (np.zeros((2, 0), np.float32), "<empty>", "<empty>"),
        (np.arange(6), "[0 1 2 3 4 5]", "[0 1 2 3 4 5]"),
        (np.arange(7), "[0 1 2 ... 4 5 6]", "[0 1 2 ... 4 5 6]"),
    ],
)
def test_constants(value: np.ndarray, ge: str, annotated: str) -> None:
    assert constant_text(value, annotate=False) == ge
    assert constant_text(value) == annotated


def test_full_constants() -> None:
    assert constant_text(np.arange(7), full=True) == "[0 1 2 3 4 5 6]"
    assert constant_text(np.arange(7), full=True, annotate=False) == "[0 1 2 3 4 5 6]"


def test_several_outputs_are_named_like_in_ge() -> None:
    graph = Graph()
    x = graph.make_input(LogicalTensor(F32, (8,)), "ret")
    split = graph.make("test_split", [x], name="s")
    graph.make_output(split.outputs[1], "a")
    graph.make_output(split.outputs[1], "b")
    assert print_graph(graph, annotate=False).splitlines()[2:] == [
        "  %s : [#users=2] = Node[type=test_split] (inputs = (x=%ret))",
        "  %ret_1 : [#users=0] = get_element[node=%s](0)",
        "  %ret_2 : [#users=2] = get_element[node=%s](1)",
        "",
        "  return (output_0=%ret_2, output_1=%ret_2)",
    ]
    assert "%ret_2 : [#users=2] = get_element[node=%s](1) -> f32[8]{A4a}" in print_graph(graph)


def leaf(name: str) -> Graph:
    graph = Graph(name)
    x = graph.make_input(LogicalTensor(F32, (3,)), "x")
    graph.make_output(graph.make("neg", [x]).outputs[0])
    return graph


def test_subgraphs_follow_depth_first_and_once() -> None:
    shared, inner = leaf("part"), Graph("part")
    x = inner.make_input(LogicalTensor(F32, (3,)), "x")
    inner.make_output(inner.make("fused", [x], {"graph": shared}).outputs[0])
    graph = Graph("main")
    x = graph.make_input(LogicalTensor(F32, (3,)), "x")
    one = graph.make("fused", [x], {"graph": inner}, "one")
    two = graph.make("fused", one.outputs, {"graph": shared}, "two")
    graph.make_output(two.outputs[0])
    text = print_graph(graph)
    assert [line for line in text.splitlines() if line.startswith("graph")] == [
        'graph("main"):',
        'graph("part"):',
        'graph("part_1"):',
    ]
    assert "one : [#users=1] = Node[type=fused] (inputs = (x=%x), attrs = {graph: %part})" in text
    assert (
        "two : [#users=1] = Node[type=fused] (inputs = (x=%one), attrs = {graph: %part_1})" in text
    )
    assert "\n\n\n" not in text


def test_no_outputs_no_return() -> None:
    graph = Graph()
    graph.make_input(LogicalTensor(S64, ()), "n")
    assert (
        print_graph(graph) == 'graph("graph"):\n  %n : [#users=1] = Node[type=input] () -> s64[]\n'
    )


def test_attributes_ge_leaves_out() -> None:
    op = leaf("g").ops[1]
    op.attrs = {"empty": (), "text": "", "none": None, "kept": (1, (2.5, "a b"))}
    assert 'attrs = {kept: {1, {2.500000, "a b"}}}' in print_graph_of(op, annotate=False)
    assert 'attrs = {empty: {}, text: "", none: none, kept: {1, {2.5, "a b"}}}' in print_op(op)


def print_graph_of(op: object, **options: bool) -> str:
    graph = Graph()
    graph.ops = [op]  # type: ignore[list-item]
    return print_graph(graph, **options)


def test_attributes_of_every_kind() -> None:
    op = leaf("g").ops[1]
    op.attrs = {
        "format": parse_format("NCHW16c"),
        "type": LogicalTensor(F32, (4, 8), parse_format("MK4k")),
        "dtype": F64,
        "tensor": np.array([[1.5, 2]], np.float32),
        "count": np.int64(3),
        "odd": object(),
        "a key": "line\n",
    }
    assert print_op(op).partition("attrs = ")[2] == (
        "{format: NCHW16c, type: f32[4,8]{MK4k}, dtype: f64, tensor: f32[1,2][1.5 2.0], count: 3, "
        'odd: <not_supported>, "a key": "line\\n"}) -> f32[3]'
    )


def test_ambiguous_names_are_quoted_when_annotated() -> None:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, ()), "a, (b)")
    graph.make_output(x, "y:0")
    assert print_graph(graph).splitlines()[1:] == [
        '  %"a, (b)" : [#users=1] = Node[type=input] () -> f32[]',
        "",
        '  return ("y:0"=%"a, (b)")',
    ]
    assert "  %a, (b) : [#users=1]" in print_graph(graph, annotate=False)


def test_ranges_of_sizes_that_are_first_part_of_an_expression() -> None:
    graph = Graph("longer")
    past = size(Symbol("P", 0, 40))
    x = graph.make_input(LogicalTensor(F32, (past + 1, 3)), "x")
    graph.make_output(graph.make("relu", [x]).outputs[0], "y")
    text = print_graph(graph, full=True)
    assert text.startswith('graph("longer", attrs = {sizes: {<P=0..40>}}):')
    again = parse_graph(text)
    assert again.compare_contents(graph) and print_graph(again, full=True) == text
    assert again.inputs[0].outputs[0].details == x.details
