from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphc.base.dtypes import ALL, F32
from graphc.base.errors import UnsupportedError, UserError
from graphc.graph_ir.ir.attributes import AttributeOwner
from graphc.graph_ir.ir.format import parse_format
from graphc.graph_ir.ir.graph import Graph, Op
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.operands import VariadicOperand
from graphc.graph_ir.ir.registry import register
from graphc.graph_ir.ir.schema import OpSchema
from graphc.graph_ir.ir.verifier import verify
from graphc.graph_ir.text.parser import parse_graph
from graphc.graph_ir.text.printer import print_graph
from support.graphs import graph_of


class AnySchema(OpSchema):
    """Takes every attribute unchecked."""

    def checked(self, op: AttributeOwner, given: Mapping[str, Any]) -> dict[str, Any]:
        return dict(given)


@register("test_any")
class AnyOp(Op):
    """Any inputs and attributes; `count` outputs like the first input."""

    x = VariadicOperand()

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        return [inputs[0]] * self.attrs.get("count", 1)


AnyOp.schema = AnySchema(AnyOp.schema.operands)


def check_round_trip(graph: Graph) -> Graph:
    text = print_graph(graph, full=True)
    read = parse_graph(text)
    verify(read)
    assert print_graph(read, full=True) == text
    assert read.compare_contents(graph) and graph.compare_contents(read)
    assert read.hash_contents() == graph.hash_contents()
    assert [op.name for op in read.ops] == [op.name for op in graph.ops]
    return read


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=8),
    st.sampled_from(["inf", "true", "f32", "MK", "...", '"', "\\", "a}, b"]),
    st.sampled_from([parse_format("NCHW16c"), parse_format("NK8k16n2k"), parse_format("NCHW", "NHWC")]),
    st.sampled_from(ALL),
    st.builds(LogicalTensor, st.sampled_from(ALL), st.just((2, 3)), st.sampled_from([None, parse_format("MK2k")])),
)  # fmt: skip
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
names = st.one_of(
    st.sampled_from(
        ["x", "0", "1e5", "a/b:c", "onnx::X", "inputs", "return", "graph", "ret", "f32", "-3"]
    ),
    st.text(string.printable, min_size=1, max_size=6),
)


@given(st.dictionaries(names.filter(lambda n: not n.startswith("temp.") and n != "count"), values, max_size=4),
       st.lists(names, min_size=3, max_size=3, unique=True))  # fmt: skip
def test_names_and_attributes_round_trip(attrs: dict[str, object], three: list[str]) -> None:
    graph = Graph(three[0], dict(attrs))
    x = graph.make_input(LogicalTensor(F32, (2, 3)), three[0])
    op = graph.make("test_any", [x, x], attrs, three[1])
    graph.make_output(op.outputs[0], three[2])
    read = check_round_trip(graph)
    assert read.name == graph.name
    for key, value in attrs.items():
        assert repr(read.ops[1].attrs[key]) == repr(value)


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 7)], ids=str)
def test_constants_of_every_dtype_round_trip(
    dtype: object, shape: tuple[int, ...], seed: int
) -> None:
    assert isinstance(dtype, type(F32))
    rng = np.random.default_rng(seed)
    size = int(np.prod(shape))
    bits = rng.integers(0, 1 << min(dtype.bits, 8), size * dtype.size).astype(np.uint8)
    graph = Graph()
    value = np.frombuffer(bits.tobytes(), dtype.numpy).reshape(shape)
    graph.make_output(graph.make_constant(value, "c"))
    read = check_round_trip(graph)
    assert read.ops[0].attrs["value"].tobytes() == value.tobytes()


def test_layouts_round_trip() -> None:
    graph = Graph("layouts")
    x = graph.make_input(LogicalTensor(F32, (5, 33), parse_format("MK16m16k")), "x")
    w = graph.make_constant(np.ones((5, 33), np.float32), "w", parse_format("KM"))
    added = graph.make("add", [x, w], name="added")
    added.outputs[0].details = x.details
    packed = graph.make("reorder", added.outputs, {"format": parse_format("MK8k")}, "packed")
    graph.make_output(packed.outputs[0])
    read = check_round_trip(graph)
    assert [str(op.outputs[0].details) for op in read.ops[:-1]] == [
        "f32[5,33]{MK16m16k}", "f32[5,33]{KM}", "f32[5,33]{MK16m16k}", "f32[5,33]{MK8k}",
    ]  # fmt: skip


def test_several_outputs_and_subgraphs_round_trip() -> None:
    def part(depth: int) -> Graph:
        graph = Graph("part")
        x = graph.make_input(LogicalTensor(F32, (3,)), "ret")
        many = graph.make("test_any", [x], {"count": 3}, "many")
        y = many.outputs[2]
        if depth:
            y = graph.make("test_any", [y], {"graph": part(depth - 1), "list": (part(0),)}).outputs[
                0
            ]
        graph.make_output(y)
        graph.make_output(many.outputs[0])
        return graph

    check_round_trip(part(3))


def test_tensor_attributes_round_trip() -> None:
    graph = Graph()
    x = graph.make_input(LogicalTensor(F32, (3,)), "x")
    table = np.arange(8, dtype=np.int32).reshape(2, 4)
    graph.make("test_any", [x], {"value": table, "more": (table, np.zeros(0, np.float16))})
    read = check_round_trip(graph)
    assert np.array_equal(read.ops[1].attrs["value"], table)


def test_deep_lists_do_not_recurse_in_the_grammar() -> None:
    depth = 400
    text = "%x = Node[type=input] () -> f32[3]\n" + (
        "%a = Node[type=test_any] (inputs = (x=%x), attrs = {deep: "
        + "{" * depth
        + "}" * depth
        + "}) -> f32[3]"
    )
    graph = graph_of(text)
    depth_read, value = 0, graph.ops[1].attrs["deep"]
    while value:
        depth_read, value = depth_read + 1, value[0]
    assert depth_read == depth - 1


def test_results_may_be_called_like_ops() -> None:
    text = "%x = Node[type=input] () -> f32[3]\nreturn (x=%x, x=%x)"
    read = check_round_trip(graph_of(text))
    assert [op.name for op in read.ops] == ["x", "x_1", "x_2"]
    assert print_graph(read).endswith("  return (x=%x, x=%x)\n")


def test_line_ends_and_blank_lines_do_not_matter() -> None:
    text = print_graph(graph_of("%x = Node[type=input] () -> f32[3]\nreturn (y=%x)"))
    assert parse_graph(text.replace("\n", "\r\n\r\n")).compare_contents(parse_graph(text))


X = "%x = Node[type=input] () -> f32[3]\n"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%x = Node[type=input] (", "line 2: cannot read on"),
        ("%x = Nod[type=input] () -> f32[3]", "line 2: cannot read on at"),
        ("%x = Node[type=input] ()", "line 2: input 'x' needs a type"),
        ("%x = Node[type=constant] () -> f32[3]", "line 2: constant 'x' needs a value"),
        ("%x = Node[type=constant] (attrs = {value: [1.0]}) -> f32[3]", "needs 3 elements, got 1"),
        ("%x = Node[type=constant] (attrs = {value: [1 2]}) -> bool[2]", "elements of tensor text must be bool"),
        ("%x = Node[type=constant] (attrs = {value: [1 ... 2]}) -> s8[9]", "print the graph with full=True"),
        (X + "%y = Node[type=neg] (inputs = (x=%z)) -> f32[3]", "line 3: %z must be defined above"),
        (X + "%y = Node[type=neg] (inputs = (x=%x)) -> f32[4]", r"'y' must be f32\[3\], got f32\[4\]"),
        (X + "%y = Node[type=neg] (inputs = (x=%x))", r"'y' must be f32\[3\], got None"),
        (X + "%y = Node[type=neg] (inputs = (b=%x)) -> f32[3]", "the inputs of neg must be x"),
        (X + X, "names of ops must differ, got 'x' twice"),
        (X + "return (y=%z)", "return: %z must be defined above"),
        (X + "%y = Node[type=fused] (inputs = (x=%x), attrs = {graph: %g2}) -> f32[3]", "'g2' is used, so"),
        (X + "%r : [#users=0] = get_element[node=%x](1) -> f32[3]", "'x' must be defined above, with an output 1"),
        (X + "%y = Node[type=test_any] (inputs = (x=%x), attrs = {f: M4k}) -> f32[3]", "format"),
        (X + 'graph("g"):', "graph names must be unique"),
        ("%x = Node[type=input] () -> f32[3]{MK}", "must have the axes of"),
    ],
)  # fmt: skip
def test_rejected(body: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        graph_of(body)


def test_unknown_op_is_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="'nope'"):
        graph_of(X + "%y = Node[type=nope] (inputs = (x=%x)) -> f32[3]")


def test_numbers_of_a_million_digits() -> None:
    digits = "9" * 10**6
    for line in (
        f"%x = Node[type=input] () -> f32[{digits}]",
        f"%x = Node[type=input] (attrs = {{a: {digits}}}) -> f32[1]",
    ):
        with pytest.raises(UserError) as error:
            graph_of(line)
        assert str(error.value) == (
            "graph text line 2: a number must fit 64 bits, got one of 1000000 digits"
        )
