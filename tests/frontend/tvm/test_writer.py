"""Graphs written as graph JSON and read back."""

from __future__ import annotations

import json

import numpy as np
import pytest

from graphc.base.dtypes import F32, S64, DType, by_name
from graphc.base.errors import UnsupportedError
from graphc.frontend import load
from graphc.frontend.correspondence.row import Op
from graphc.frontend.correspondence.spelling import Spelling
from graphc.frontend.correspondence.tables import TABLE
from graphc.frontend.correspondence.values import attributes_of
from graphc.frontend.tvm.document import NAMES
from graphc.frontend.tvm.importer import load_tvm
from graphc.frontend.tvm.params import write_params
from graphc.frontend.tvm.reader import parse_tvm
from graphc.frontend.tvm.writer import write_tvm
from graphc.graph_ir.ir.format import parse_format
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.plan_memory import MEMORY_PLAN
from support.row_examples import row_example


def network() -> Graph:
    """A layer, a chain, a split into two results, and one input that is a result."""
    rng = np.random.default_rng(0)
    graph = Graph("network")
    x = graph.make_input(LogicalTensor(F32, (4, 6)), "p0")  # the name of a parameter, taken
    index = graph.make_input(LogicalTensor(S64, (3,)), "index")
    weight = graph.make_constant(rng.standard_normal((8, 6)).astype(np.float32), "w")
    y = graph.make("matmul_core", [x, weight], {"transpose_b": True}, "fc").outputs[0]
    for i in range(4):
        y = graph.make("relu" if i % 2 else "sigmoid", [y], name=f"act{i}").outputs[0]
    y = graph.make("clamp", [y], {"min": 0.55, "max": None}).outputs[0]
    values, indices = graph.make("top_k", [y], {"k": 3, "axis": -1, "largest": True}).outputs
    picked = graph.make("gather", [values, index], {"axis": 0}).outputs[0]
    halves = graph.make("cast", [picked], {"dtype": "f16"}).outputs[0]
    for tensor in (halves, indices, x):
        graph.make_output(tensor)
    return graph


def test_reading_gives_the_graph_that_was_written(tmp_path):
    graph = network()
    text, params = write_tvm(graph)
    assert list(params) == ["p1"]
    (tmp_path / "m.json").write_text(text)
    write_params(tmp_path / "m.params", params)
    again = load(tmp_path / "m.json")
    inputs = [
        np.random.default_rng(1).standard_normal((4, 6)).astype(np.float32),
        np.array([3, 0, 1]),
    ]
    for mine, wanted in zip(again.evaluate(inputs), graph.evaluate(inputs), strict=True):
        np.testing.assert_array_equal(mine, wanted)
    second, _ = write_tvm(again)
    assert second == text
    assert load(second.encode(), constants=params).compare_contents(again)


def test_the_fields_of_the_format():
    text, _ = write_tvm(network())
    value = json.loads(text)
    assert list(value) == ["nodes", "arg_nodes", "heads", "attrs", "node_row_ptr"]
    assert list(value["attrs"]) == ["storage_id", "dltype", "shape", "device_index"]
    names = [node["attrs"]["func_name"] for node in value["nodes"] if node["op"] == "tvm_op"]
    assert names[:5] == [
        "tvmgen_default_fused_nn_matmul",
        "tvmgen_default_fused_sigmoid",
        "tvmgen_default_fused_nn_relu",
        "tvmgen_default_fused_sigmoid_1",
        "tvmgen_default_fused_nn_relu_1",
    ]
    assert all(
        isinstance(v, str) for node in value["nodes"] for v in node.get("attrs", {}).values()
    )


def test_storage_is_shared_only_where_nothing_is_still_read():
    text, _ = write_tvm(network())
    graph = parse_tvm(text)
    assert graph.storage_id is not None and graph.types is not None
    inside = [i for i, node in enumerate(graph.nodes) if node.op == "tvm_op"]
    first = [graph.storage_id[graph.row_ptr[i]] for i in inside[:6]]
    assert first == [3, 4, 3, 4, 3, 4]
    last_use = {}
    for number, node in enumerate(graph.nodes):
        for entry in node.inputs:
            last_use[graph.row_ptr[entry.node] + entry.output] = number
    for head in graph.heads:
        last_use[graph.row_ptr[head.node] + head.output] = len(graph.nodes)
    made = {
        e: n for n in range(len(graph.nodes)) for e in range(graph.row_ptr[n], graph.row_ptr[n + 1])
    }
    for a in made:
        for b in made:
            if a < b and graph.storage_id[a] == graph.storage_id[b]:
                assert last_use[a] < made[b]
                assert graph.nodes[made[a]].op == "tvm_op"


def test_what_cannot_be_written_is_named_at_once():
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, (4, 6)), "x")
    for name in ("a", "b"):
        blocked = graph.make("reorder", [x], {"format": parse_format("MK2k", None)}, name).outputs[
            0
        ]
        graph.make_output(blocked)
    with pytest.raises(UnsupportedError) as error:
        write_tvm(graph)
    assert str(error.value) == (
        "graph 'g': reorder 'a': a blocked layout cannot be written to a TVM graph; "
        "write the graph before layouts are chosen; "
        "reorder 'b': a blocked layout cannot be written to a TVM graph; write the graph before layouts are chosen"
    )


def test_element_types_that_tvm_does_not_have_are_named():
    graph = Graph("g")
    graph.make_output(graph.make_input(LogicalTensor(by_name("f8e4m3fn"), (4,)), "x"))
    with pytest.raises(UnsupportedError, match="a TVM graph has no element type f8e4m3fn; convert"):
        write_tvm(graph)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"x_op": "what"},
            "graph json: node 'act0': op 'what' is not in the registry; "
            "define it (`graphc.ops.define`) before the file is read",
        ),
        ({"x_attrs": "{"}, "graph json: node 'act0': attribute 'x_attrs' must be JSON, got '{'"),
        (
            {"x_attrs": "[]"},
            "graph json: node 'act0': attribute 'x_attrs' must be a JSON object, got []",
        ),
        (
            {"x_op": "constant"},
            "graph json: node 'act0': attribute 'x_op' must be an op that computes, got 'constant'",
        ),
        (
            {"x_op": "fused"},
            "graph json: node 'act0': attribute 'x_op' must be an op that computes, got 'fused'",
        ),
        (
            {"x_op": "top_k"},
            "graph json: node 'act0': top_k 'act0': attribute 'k' must be given, got no attributes",
        ),
    ],
)
def test_corrupt_own_attributes(changes, message):
    text, params = write_tvm(network())
    value = json.loads(text)
    node = next(node for node in value["nodes"] if node["name"] == "act0")
    node["attrs"] |= changes
    with pytest.raises(Exception) as error:
        load(json.dumps(value).encode(), constants=params)
    assert str(error.value) == message


def test_storage_is_that_of_the_memory_plan_and_views_are_no_kernels():
    graph = Graph("views")
    x = graph.make_input(LogicalTensor(F32, (4, 6)), "x")
    y = graph.make("sigmoid", [x]).outputs[0]
    for op_name, shape in (("relu", (24,)), ("tanh", (2, 12)), ("exp", (6, 4))):
        y = graph.make("reshape", [y], {"shape": shape}).outputs[0]
        y = graph.make(op_name, [y]).outputs[0]
    graph.make_output(y)
    text, _ = write_tvm(graph)
    assert not MEMORY_PLAN.is_on(graph)
    again = parse_tvm(text)
    kinds = [
        node.attrs.get("func_name", "").removeprefix("tvmgen_default_fused_")
        for node in again.nodes
    ]
    assert kinds == ["", "sigmoid", "__nop", "nn_relu", "__nop", "tanh", "__nop", "exp"]
    assert again.storage_id == (0, 1, 1, 2, 2, 1, 1, 3)
    assert load(text.encode()).compare_contents(graph)


NAMED = [
    pytest.param(row, spelling, id=f"{row.name}-{spelling.text}")
    for row in TABLE.rows
    if isinstance(row, Op)
    for spelling in row.spellings("tvm")
    if not spelling.pair
]


@pytest.mark.parametrize(("row", "spelling"), NAMED)
def test_a_kernel_is_read_by_its_name_alone(row: Op, spelling: Spelling) -> None:
    """Kernels of other writers: without our attributes, with operator attributes given by the user."""
    graph = row_example(row, spelling)
    (op,) = (op for op in graph.ops if op.name == "op")
    text, _ = write_tvm(graph)
    document = json.loads(text)
    (kernel,) = (node for node in document["nodes"] if node["op"] == "tvm_op")
    name = kernel["attrs"]["func_name"].removeprefix("tvmgen_default_fused_")
    assert name in [s.types[0] for s in row.spellings("tvm")]
    del kernel["attrs"]["x_op"], kernel["attrs"]["x_attrs"]
    values = attributes_of(op)
    given = {f"{op.name}.{a.name}": _text(values[a.ours]) for a in spelling.attributes if a.ours}
    if "" in given.values():  # a clamp with one bound, which TVM does not have
        given = {key: text for key, text in given.items() if text}
        with pytest.raises(UnsupportedError, match=r"attribute 'a_m\w\w' is not determined"):
            load_tvm(parse_tvm(json.dumps(document)), attrs=given)
    else:
        again = load_tvm(parse_tvm(json.dumps(document)), attrs=given)
        (mine,) = (op for op in again.ops if op.op_name == row.name)
        assert attributes_of(mine) == values


def _text(value: object) -> str:
    """An attribute as a user gives it; empty for none."""
    if isinstance(value, DType):
        return NAMES[value]
    return "" if value is None else str(value)
