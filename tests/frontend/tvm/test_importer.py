"""Kernels expanded into operators, and what is said where they cannot be."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphc import compile
from graphc.base.errors import GraphcError, UnsupportedError, UserError
from graphc.frontend import load
from graphc.frontend.tvm.kernel_name import split_name
from graphc.frontend.tvm.op_table import OPERATORS
from graphc.frontend.tvm.params import write_params
from graphc.frontend.tvm.reader import parse_tvm
from support.tvm_graphs import graph_json, one


def arrays(shapes: list[list[int]]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


@pytest.mark.parametrize(
    ("func", "shapes", "formula"),
    [
        ("tvmgen_default_fused_nn_dense_add_nn_relu_3", [[2, 5], [3, 5], [3]],
         lambda a, b, c: np.maximum(a @ b.T + c, 0)),
        ("fused_nn_dense", [[2, 5], [3, 5]], lambda a, b: a @ b.T),
        ("fuse_dense_relu", [[2, 5], [3, 5]], lambda a, b: np.maximum(a @ b.T, 0)),
        ("fused_nn_dense_1", [[2, 5], [3, 5], [3]], lambda a, b, c: a @ b.T + c),
        ("fused_nn_contrib_dense_pack_add", [[2, 5], [2, 5, 4], [8]],
         lambda a, b, c: a @ b.transpose(1, 0, 2).reshape(5, 8) + c),
        ("fused_nn_batch_matmul", [[4, 2, 5], [4, 3, 5]], lambda a, b: a @ b.transpose(0, 2, 1)),
        ("fused_add_subtract_multiply_divide", [[2, 3]] * 5, lambda a, b, c, d, e: (a + b - c) * d / e),
        ("fused_sigmoid_multiply", [[2, 3]], lambda a: a / (1 + np.exp(-a))),
        ("fused_nn_softmax_0", [[2, 3]], lambda a: softmax(a, -1)),
        ("fused_nn_bias_add", [[2, 3, 4, 5], [3]], lambda a, b: a + b[:, None, None]),
        ("fused_nn_batch_flatten_tanh", [[2, 3, 4]], lambda a: np.tanh(a.reshape(2, 12))),
        ("fused_transpose", [[2, 3, 4]], lambda a: a.transpose(2, 0, 1)),
        ("fused_concatenate", [[2, 3], [2, 4]], lambda a, b: np.concatenate([a, b], 1)),
        ("fused_mean", [[2, 3, 4]], lambda a: a.mean((0, 2))),
        ("fused_max", [[2, 3, 4]], lambda a: a.max(2, keepdims=True)),
        ("fused_nn_global_avg_pool2d", [[2, 3, 4, 5]], lambda a: a.mean((2, 3), keepdims=True)),
        ("fused_expand_dims", [[2, 3]], lambda a: a[:, None]),
        ("fused_nn_relu_exp", [[2, 3]], lambda a: np.exp(np.maximum(a, 0))),
        ("fuse_dense_relu", [[2, 5], [3, 5], [3]], lambda a, b, c: np.maximum(a @ b.T + c, 0)),
        ("fuse_conv2d_relu", [[1, 2, 4, 4], [3, 2, 1, 1], [3]],
         lambda a, b, c: np.maximum(np.einsum("nchw,oc->nohw", a, b[..., 0, 0]) + c[:, None, None], 0)),
        ("fused_nn_conv2d_add_nn_prelu", [[1, 2, 4, 4], [3, 2, 1, 1], [3, 1, 1], [3]],
         lambda a, b, c, d: (lambda y: np.where(y < 0, y * d[:, None, None], y))(
             np.einsum("nchw,oc->nohw", a, b[..., 0, 0]) + c)),
        ("fuse_broadcast_max_broadcast_min", [[2, 3], [2, 3], [3]],
         lambda a, b, c: np.minimum(np.maximum(a, b), c)),
        ("fused_logsumexp", [[2, 3]], lambda a: np.log(np.exp(a).sum(1))),
    ],
)  # fmt: skip
def test_kernels(func, shapes, formula):
    values = arrays(shapes)
    expected = formula(*values)
    (got,) = one(func, shapes, list(expected.shape)).evaluate(values)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_attributes_of_the_caller():
    (a,) = arrays([[2, 3, 4, 5]])
    shape = [2, 3, 4, 5]
    for hints in ({"axis": "1"}, {"nn_softmax.axis": "1"}):
        (got,) = one("fused_nn_softmax", [shape], shape, **hints).evaluate([a])
        np.testing.assert_allclose(got, softmax(a, 1), rtol=1e-5)
    (got,) = one("fused_clip", [shape], shape, a_min="-0.5", a_max="1").evaluate([a])
    np.testing.assert_array_equal(got, a.clip(-0.5, 1))
    (got,) = one(
        "fused_strided_slice", [shape], [2, 2, 4, 5], begin="(0, 1)", end="[2, 3]"
    ).evaluate([a])
    np.testing.assert_array_equal(got, a[:, 1:3])


def test_patterns_fill_in_what_is_not_determined():
    text = graph_json(
        {"x": [1, 3, 8, 8], "p0": [4, 3, 3, 3], "p1": [4, 4, 1, 1]},
        [
            ("fused_nn_conv2d_nn_relu", [0, 1], [[1, 4, 4, 4]]),
            ("fused_nn_conv2d", [3, 2], [[1, 4, 4, 4]]),
        ],
        [4],
    )
    with pytest.raises(UnsupportedError, match="attribute 'padding' is not determined"):
        load(text.encode())
    for hints in (
        {"*.padding": "1"},
        {"k*.nn_conv2d.padding": "1"},
        {"*.padding": "0", "k0.padding": "1"},
    ):
        graph = load(text.encode(), attrs=hints)
        first, second = (op for op in graph.ops if op.op_name == "convolution")
        assert (first.attr("before"), first.attr("strides")) == ((1, 1), (2, 2))
        assert second.attr("before") == (0, 0)
    with pytest.raises(UserError, match=r"'z\*.padding' must be written node.key=value"):
        load(text.encode(), attrs={"z*.padding": "1"})


def test_a_split_and_a_chain_native(tmp_path: Path):
    text = graph_json(
        {"data": [4, 6], "p0": [8, 3]},
        [
            ("tvmgen_default_fused_split", [0], [[4, 3], [4, 3]]),
            ("tvmgen_default_fused_nn_dense_nn_relu", [2, 1], [[4, 8]]),
            ("__nop", [3], [[32]]),
        ],
        [4, 3],
    )
    (tmp_path / "m.json").write_text(text)
    rng = np.random.default_rng(1)
    weight = rng.standard_normal((8, 3)).astype(np.float32)
    write_params(tmp_path / "m.params", {"p0": weight, "unused": weight})
    data = rng.standard_normal((4, 6)).astype(np.float32)
    expected = np.maximum(data[:, :3] @ weight.T, 0)
    graph = load(tmp_path / "m.json")
    assert [op.name for op in graph.inputs] == ["data"]
    with compile(graph, threads=1) as model:
        for flat, full in (graph.evaluate([data]), model(data)):
            np.testing.assert_allclose(full, expected, rtol=1e-5)
            np.testing.assert_array_equal(flat, full.reshape(32))
    same = load(text.encode(), constants={"p0": weight})
    assert same.compare_contents(graph)


def test_the_documents_example():
    text = """{
    "nodes": [                                    # List of nodes
      {"op": "null", "name": "x", "inputs": []},  # a placeholder, "#" in a string stays
      {"op": "tvm_op", "name": "relu0#", "attrs": {"flatten_data": "0", "func_name": "fuse_relu",
        "num_inputs": "1", "num_outputs": "1"}, "inputs": [[0, 0]]}
    ],
    "arg_nodes": [0], "node_row_ptr": [0, 1, 2], "heads": [[1, 0, 0]],
    "attrs": {
      "storage_id": ["list_int", [1, 0]], "dtype": ["list_int", [0, 0]],
      "dltype": ["list_str", ["float32", "float32"]],
      "shape": ["list_shape", [[1, 3, 20, 20], [1, 3, 20, 20]]],
      "device_index": ["list_int", [1, 1]],       # trailing comma
    }
}"""
    graph = load(text.encode())
    (x,) = arrays([[1, 3, 20, 20]])
    np.testing.assert_array_equal(graph.evaluate([x])[0], np.maximum(x, 0))
    assert parse_tvm(text).nodes[1].name == "relu0#"


def test_an_old_symbol():
    nodes = [
        {"op": "null", "name": "data", "inputs": []},
        {"op": "null", "name": "fc_weight", "inputs": []},
        {"op": "null", "name": "fc_bias", "inputs": []},
        {
            "op": "dense",
            "name": "fc",
            "attr": {"units": "4", "use_bias": "True"},
            "inputs": [[0, 0], [1, 0], [2, 0]],
        },
        {
            "op": "__mul_scalar__",
            "name": "twice",
            "attrs": {"scalar": "2.0"},
            "inputs": [[3, 0, 0]],
        },
        {
            "op": "reshape",
            "name": "shaped",
            "attrs": {"shape": "(0, 2L, -1)"},
            "inputs": [[4, 0, 0]],
        },
        {"op": "softmax", "name": "out", "inputs": [[5, 0, 0]]},
    ]
    text = json.dumps({"nodes": nodes, "arg_nodes": [0, 1, 2], "heads": [[6, 0, 0]]}).encode()
    data, weight, bias = arrays([[3, 2, 5], [4, 10], [4]])
    graph = load(text, {"data": "f32[3,2,5]"}, {"fc_weight": weight, "fc_bias": bias})
    expected = softmax((2 * (data.reshape(3, 10) @ weight.T + bias)).reshape(3, 2, 2), -1)
    np.testing.assert_allclose(graph.evaluate([data])[0], expected, rtol=1e-5)
    with pytest.raises(UserError) as error:
        load(text, constants={"fc_bias": bias})
    assert str(error.value) == (
        "graph json: an uncompiled graph does not hold dtype and shape of 'data', 'fc_weight'; "
        "say --input 'data=f32[...]' --input 'fc_weight=f32[...]', or give the .params file of the weights"
    )


@pytest.mark.parametrize(
    ("func", "shapes", "result", "message"),
    [
        ("fused_clip", [[2]], [2],
         "node 'k0' (fused_clip): attribute 'a_min' is not determined, say --attr 'k0.a_min=...'"),
        ("fused_transpose", [[2, 2]], [2, 2],
         "node 'k0' (fused_transpose): attribute 'axes' is not determined, say --attr 'k0.axes=...'"),
        ("fused_mean", [[2, 2]], [2],
         "node 'k0' (fused_mean): attribute 'axis' is not determined, say --attr 'k0.axis=...'"),
        ("fused_add", [[2]], [2],
         None),
        ("fused_nn_nms_relu_1", [[2]], [2],
         "node 'k0' (fused_nn_nms_relu_1): its name holds operators that are not supported ('nn_nms_relu_1')"),
        ("fused_nn_relu_add_0123456789abcdef_", [[2]], [2],
         "node 'k0' (fused_nn_relu_add_0123456789abcdef_): its name was cut off, so the last operators are lost"),
        ("tvmgen_default_dnnl_main_0", [[2]], [2],
         "node 'k0' (tvmgen_default_dnnl_main_0): its name does not begin with fused_, so it is code that TVM did "
         "not generate"),
        ("fused_nn_relu", [[2], [2]], [2],
         "node 'k0' (fused_nn_relu): its 2 operands cannot be matched to its operators; "
         "give the graph that was not compiled"),
        ("fused_nn_relu", [[2]], [3],
         "node 'k0' (fused_nn_relu): its operators are read to give f32[2], but the file says f32[3]; "
         "say the attributes of its operators (`--attr`)"),
    ],
)  # fmt: skip
def test_what_a_name_does_not_tell(func, shapes, result, message):
    if message is None:
        message = (
            f"node 'k0' ({func}): the second operand of add is a constant inside the kernel, "
            "which is not in the file; compile the graph without constants in kernels"
        )
    with pytest.raises(UnsupportedError) as error:
        one(func, shapes, result)
    assert str(error.value) == f"graph json: {message}"


def test_all_that_is_missing_is_said_at_once():
    text = graph_json(
        {"x": [2]}, [("fused_clip", [0], [[2]]), ("fused_nn_fifo_buffer", [1], [[2]])], [2]
    )
    with pytest.raises(UnsupportedError) as error:
        load(text.encode())
    assert str(error.value) == (
        "graph json: node 'k0' (fused_clip): attribute 'a_min' is not determined, say --attr 'k0.a_min=...'; "
        "node 'k1' (fused_nn_fifo_buffer): its name holds operators that are not supported ('nn_fifo_buffer')"
    )


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("fused_nn_global_avg_pool2d_1", ["nn_global_avg_pool2d"]),
        ("fused_floor_divide_divide", ["floor_divide", "divide"]),
        ("fuse___add_scalar___relu", ["__add_scalar__", "relu"]),
        ("tvmgen_my_mod_fused_max_maximum_12", ["max", "maximum"]),
        ("fused_reshape_transpose_reshape_2", ["reshape", "transpose", "reshape"]),
    ],
)
def test_names_are_split(name, parts):
    assert split_name(name, OPERATORS.keys()) == parts


GOOD = json.loads(graph_json({"x": [2]}, [("fused_nn_relu", [0], [[2]])], [1]))


def changed(**changes: Any) -> str:
    value = json.loads(json.dumps(GOOD))
    for path, new in changes.items():
        target: Any = value
        *folders, leaf = path.split("__")
        for folder in folders:
            target = target[int(folder) if folder.isdigit() else folder]
        target[int(leaf) if leaf.isdigit() else leaf] = new
    return json.dumps(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "a graph JSON must have nodes, arg_nodes and heads, got list"),
        ("{}", "a graph JSON must have nodes, arg_nodes and heads, got []"),
        (changed(nodes__1__inputs=[[1, 0, 0]]),
         "node 1 'k0': inputs must point to one of the 1 nodes above, got [1, 0, 0]"),
        (changed(nodes__1__inputs=[[0, 1, 0]]), "node 1 'k0': node 0 has 1 outputs, which must have the output 1"),
        (changed(nodes__1__inputs=[]), "node 1 'k0': num_inputs must be 0, as many as it has, got 1"),
        (changed(nodes__1__inputs=["x"]),
         "node 1 'k0' names its inputs: this is a dump of TVM's debugger; give the graph JSON itself"),
        (changed(nodes__1__attrs={}), "node 1 'k0': attrs must have 'func_name', got []"),
        (changed(node_row_ptr=[0, 1]), "node_row_ptr must have 3 numbers that grow by the outputs of each node, got 2"),
        (changed(node_row_ptr=[0, 2, 3]),
         "node_row_ptr must have 3 numbers that grow by the outputs of each node, got 3 with 2 at 1"),
        (changed(heads=[[2, 0, 0]]), "heads must point to one of the 2 nodes above, got [2, 0, 0]"),
        (changed(arg_nodes=[1]), "arg_nodes must be the numbers of null nodes, got 1"),
        (changed(attrs__shape=["list_shape", [[2]]]),
         "attrs 'shape' must be a list_shape of 2 values, got list_shape of 1"),
        (changed(attrs__shape=["list_shape", [[2], [-2]]]), "attrs 'shape' must not have negative sizes"),
        (changed(attrs__dltype=["list_str", ["float32x4", "float32"]]),
         "'x' has dtype float32x4, which is not supported; convert the model to another type, such as float32"),
        ('{"nodes": [], "nodes": []}', "keys of an object must differ, got 'nodes' twice"),
        (json.dumps(GOOD)[:-1], None),
    ],
)  # fmt: skip
def test_bad_files(text, message):
    with pytest.raises(GraphcError) as error:
        load(
            ("{" + text if text.startswith("[[") else text).encode()
            if text != "[]"
            else text.encode()
        ) if (text.startswith("{")) else parse_tvm(text)
    if message is not None:
        assert str(error.value) == f"graph json: {message}"
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "line 1 column 500: the JSON text must be nested less than 500 levels deep"),
        ('{"a":\n  ["[[",' + '{"b":' * 100_000,
         "line 2 column 2494: the JSON text must be nested less than 500 levels deep"),
        ('{"nodes":\n ' + "9" * 10**6, "line 2 column 2: a number must fit 64 bits, got one of 1000000 digits"),
        ('{"nodes": [],}\n{', "line 2 column 1: it must be JSON, but Extra data"),
    ],
    ids=["lists", "objects", "digits", "more"],
)  # fmt: skip
def test_texts_that_are_no_json(text, message):
    with pytest.raises(UserError) as error:
        parse_tvm(text)
    assert str(error.value) == f"graph json {message}"


def test_names_that_do_not_exist():
    text = json.dumps(GOOD).encode()
    with pytest.raises(UserError, match="^graph json: there is no input 'z'; its inputs are 'x'$"):
        load(text, {"z": "f32[2]"})
    with pytest.raises(
        UserError, match=r"^graph json: 'x' must be f32\[2\], as in the file, got f32\[3\]$"
    ):
        load(text, {"x": "f32[3]"})
    with pytest.raises(
        UserError, match="^graph json: attribute 'z.axis' must be written node.key=value"
    ):
        load(text, attrs={"z.axis": "1"})


SAMPLE = graph_json(
    {"x": [2], "p0": [2]},
    [("fused_add_nn_relu", [0, 1], [[2]]), ("fused_split", [2], [[1], [1]])],
    [3],
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(SAMPLE) - 1), st.integers(0, 255)), min_size=1, max_size=4
    )
)
def test_flipped_bytes(flips):
    data = bytearray(SAMPLE.encode())
    for offset, value in flips:
        data[offset] = value
    with contextlib.suppress(GraphcError):
        load(bytes(data))


def test_truncations():
    for end in range(2, len(SAMPLE), 9):
        with pytest.raises(GraphcError):
            load(SAMPLE[:end].encode())


def test_dynamic_sizes_of_a_graph():
    """TVM writes -1; results follow from the operands."""
    graph = one("fused_nn_dense_add_nn_relu", [[-1, 5], [3, 5], [3]], [-1, 3])
    (x, _, _) = graph.inputs
    assert str(x.outputs[0].details).endswith("_0,5]")
    model = compile(graph, threads=1)
    for rows in (1, 4, 9):
        a, b, c = arrays([[rows, 5], [3, 5], [3]])
        np.testing.assert_allclose(model(a, b, c), np.maximum(a @ b.T + c, 0), rtol=1e-5, atol=1e-6)
