"""Graphs written as ONNX: checked by onnx, run by its evaluator, and read back."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, reject, settings
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator

from graphc.base.dtypes import BF16, F32, F64, S8, S32, U8, DType
from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend import load
from graphc.frontend.onnx import to_onnx, write_onnx
from graphc.graph_ir.ir.format import parse_format
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.graphs import random_input
from support.networks import attention
from support.op_cases import CASES, Types, graph_of, inputs_of
from support.random_graphs import graphs
from support.tolerance import assert_close

X: Types = [("f32", (2, 4, 6))]
IMAGE: Types = [("f32", (1, 4, 5, 6))]
C: Types = [("f32", (4,))]
MORE: list[tuple[str, Types, dict[str, Any]]] = [
    ("update_slice", [("f32", (5, 3)), ("f32", (2, 3)), ("s64", ())], {"axes": (0,)}),
    ("update_slice", [("f32", (5, 3)), ("f32", (5, 1)), ("s64", ()), ("s64", ())], {"axes": (0, 1)}),
    ("update_slice", [("f32", (5, 3)), ("f32", (5, 3))], {"axes": ()}),
    ("convolution", [*IMAGE, ("f32", (6, 2, 3, 3))], {"groups": 2, "before": (1, 0), "after": (1, 2)}),
    ("convolution", [*X, ("f32", (3, 4, 2))], {"strides": (2,), "dilations": (3,)}),
    ("convolution_transpose", [*IMAGE, ("f32", (4, 3, 2, 2))], {"strides": (2, 1), "output_padding": (1, 0)}),
    ("max_pool", IMAGE, {"kernel": (2, 3), "before": (1, 1), "after": (1, 1)}),
    ("max_pool", [("f32", (5, 6))], {"kernel": (2, 3), "strides": (2, 1)}),
    ("min_pool", IMAGE, {"kernel": (2, 2)}), ("lp_pool", IMAGE, {"kernel": (2, 2), "p": 3}),
    ("avg_pool", IMAGE, {"kernel": (2, 2), "before": (1, 1), "count_include_pad": True}),
    ("lrn", IMAGE, {"size": 3, "alpha": 0.5, "beta": 0.75, "k": 2.0}),
    ("resize", IMAGE, {"shape": (1, 4, 10, 9), "mode": "linear"}),
    ("resize", IMAGE, {"shape": (1, 4, 10, 3), "scales": (1.0, 1.0, 2.0, 0.5), "coordinates": "asymmetric"}),
    ("layer_norm", X, {"axis": 1}), ("rms_norm", X, {}),
    ("group_norm", IMAGE, {"groups": 2}), ("group_norm", [*IMAGE, *C, *C], {"groups": 4}),
    ("instance_norm", [*IMAGE, *C], {}), ("reduce_sum_square", X, {"axes": ()}), ("reduce_l2", X, {"axes": ()}),
    ("square", X, {}), ("rsqrt", [("f32", (0, 2))], {}), ("reduce_l1", X, {"axes": (1,)}), ("reduce_prod", X, {}),
    ("arg_max", X, {"axis": 1, "last": True, "keep_dims": True}), ("shr", [("u8", (2, 3))] * 2, {}),
    ("xor", [("s32", (2, 3))] * 2, {}), ("not", [("s32", (2, 3))], {}), ("mod", X * 2, {}),
    ("mod", X * 2, {"sign": "trunc"}),
    ("reduce_all", [("bool", (2, 3))], {"axes": (0,)}), ("gather", [*X, ("u8", (2,))], {"axis": 1}),
    ("prelu", [("f32", (4,)), ("f32", (2, 4))], {}), ("clamp", X, {"max": 0.5}), ("clamp", X, {}),
    ("matmul_core", [("u8", (5, 6)), ("s8", (7, 6))], {"transpose_b": True, "dtype": "s32"}),
    ("select", [("bool", (3,)), ("bool", (2, 3)), ("bool", ())], {}),
    ("slice", [("f32", ())], {"starts": (), "sizes": ()}), ("transpose", [("f32", ())], {"perm": ()}),
]  # fmt: skip
ABSENT = ("atan2", "cum_prod")
ROUNDED = (
    *(
        "expm1",
        "rsqrt",
        "mod",
        "reduce_log_sum_exp",
        "resize",
        "group_norm",
        "rms_norm",
        "layer_norm",
    ),
    *("cum_log_sum_exp", "hard_sigmoid", "elu", "selu", "leaky_relu", "lrn"),
)
"""Written as several nodes, or with an attribute that is not a float32: bits may differ."""


def reference_of(proto: ModelProto, inputs: list[Array]) -> list[Array]:
    """Return the results of onnx's evaluator."""
    names = [info.name for info in proto.graph.input]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = ReferenceEvaluator(proto).run(None, dict(zip(names, inputs, strict=True)))
    return [np.asarray(result) for result in results]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "types", "attrs"), [c for c in CASES + MORE if c[0] not in ABSENT]
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_op(name: str, types: Types, attrs: dict[str, Any]) -> None:
    graph = graph_of(name, types, attrs)
    proto = to_onnx(graph)
    onnx.checker.check_model(proto, full_check=True)
    inputs = inputs_of(name, types)
    if "gather" in name or "scatter" in name:  # ONNX's evaluator takes no index beyond the end
        inputs = [x % 2 if x.dtype.kind in "iu" else x for x in inputs]
    again = load(proto.SerializeToString())
    expected = graph.evaluate(inputs)
    for mine, wanted in zip(again.evaluate(inputs), expected, strict=True):
        assert (mine.dtype, mine.shape) == (wanted.dtype, wanted.shape)
        if name in ROUNDED:
            assert_close(mine, wanted)
        else:
            np.testing.assert_array_equal(mine, wanted)
    if name != "lrn":  # onnx's evaluator takes the batch for the channels
        for theirs, wanted in zip(reference_of(proto, inputs), expected, strict=True):
            assert_close(np.asarray(theirs, wanted.dtype), wanted, 8)
    settled = load(to_onnx(again))
    assert load(to_onnx(settled)).compare_contents(settled)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_weights_outside_of_a_resized_image(mode: str, antialias: bool) -> None:
    """ONNX Runtime takes `exclude_outside` only where more than one border element would be weighted."""
    onnxruntime = pytest.importorskip("onnxruntime")
    attrs = {"shape": (1, 4, 3, 9), "mode": mode, "exclude_outside": True, "antialias": antialias}
    graph = graph_of("resize", IMAGE, attrs)
    inputs = inputs_of("resize", IMAGE)
    session = onnxruntime.InferenceSession(to_onnx(graph).SerializeToString())
    (found,) = session.run(None, {session.get_inputs()[0].name: inputs[0]})
    assert_close(found, graph.evaluate(inputs)[0], 8)


@pytest.mark.parametrize("dtype", [S8, U8])
def test_the_min_of_integers_whose_negatives_are_none(dtype: DType) -> None:
    graph = graph_of("min_pool", [(dtype.name, (1, 1, 9))], {"kernel": (2,), "before": (1,)})
    limits = np.iinfo(dtype.numpy)
    x = np.array([limits.min, 3, limits.max, limits.max, 0, 1, limits.min, limits.min, 5])
    again = load(to_onnx(graph).SerializeToString())
    arrays = [x.astype(limits.dtype).reshape(1, 1, 9)]
    np.testing.assert_array_equal(again.evaluate(arrays)[0], graph.evaluate(arrays)[0])


@pytest.mark.parametrize("dims", [(2, 0), (1, 0), (0, 3)])
def test_scales_without_elements(dims: tuple[int, ...]) -> None:
    graph = Graph("empty")
    x = graph.make_input(LogicalTensor(F32, dims), "x")
    scale = graph.make_constant(np.ones((1, dims[1]), np.float32))
    zero = graph.make_constant(np.zeros((1, dims[1]), np.int8))
    graph.make_output(graph.make("quantize", [x, scale, zero], {"dtype": "s8"}).outputs[0], "y")
    again = load(to_onnx(graph).SerializeToString())
    (y,) = again.evaluate([np.zeros(dims, np.float32)])
    assert (y.dtype, y.shape) == (np.int8, dims)


@given(graphs())
@settings(max_examples=60)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_random_graphs(graph: Graph) -> None:
    rng = np.random.default_rng(0)
    inputs = [random_input(rng, op.outputs[0].details) for op in graph.inputs]
    try:
        proto = to_onnx(graph)
    except UnsupportedError as error:
        assert "of u8" in str(error) or "of bf16" in str(error) or "of s32" in str(error)
        reject()
    onnx.checker.check_model(proto, full_check=True)
    again = load(proto)
    for mine, wanted in zip(again.evaluate(inputs), graph.evaluate(inputs), strict=True):
        np.testing.assert_array_equal(mine.astype(float), wanted.astype(float))
    assert load(to_onnx(again)).compare_contents(again)


def test_floors_of_quotients_of_bytes() -> None:
    """All pairs whose quotient is a byte: a difference that wraps would be divided."""
    every = np.arange(-127, 128, dtype=np.int8)
    a, b = (x.ravel() for x in np.meshgrid(every, every[every != 0]))
    graph = Graph("floors")
    x, y = (graph.make_input(LogicalTensor(S8, a.shape), name) for name in "xy")
    graph.make_output(graph.make("div", (x, y)).outputs[0], "q")
    (found,) = ReferenceEvaluator(to_onnx(graph)).run(None, {"x": a, "y": b})
    exact = np.floor_divide(a.astype(np.int64), b).astype(np.int8)
    np.testing.assert_array_equal(found, exact)


def test_names_opsets_and_weights() -> None:
    graph = Graph("network")
    x = graph.make_input(LogicalTensor(F32, (2, 3)), "x")
    weight = graph.make_constant(np.ones((3, 4), np.float32), "w")
    matmul = graph.make("matmul_core", [x, weight], {}, "fc").outputs[0]
    y = graph.make("relu", [matmul], {}, "act").outputs[0]
    for tensor, name in ((y, "y"), (y, "again"), (x, "same"), (matmul, "act")):
        graph.make_output(tensor, name)
    proto = to_onnx(graph)
    assert [info.name for info in proto.graph.output] == ["y", "again", "same", "act"]
    nodes = [(n.op_type, n.name, list(n.input), list(n.output)) for n in proto.graph.node]
    assert nodes == [
        ("MatMul", "fc", ["x", "w"], ["act"]),
        ("Relu", "act", ["act"], ["y"]),
        ("Identity", "again", ["y"], ["again"]),
        ("Identity", "same", ["x"], ["same"]),
    ]
    assert (proto.opset_import[0].version, proto.ir_version) == (22, 10)
    assert not proto.graph.value_info
    back = load(proto)
    assert [op.name for op in back.ops] == [op.name for op in graph.ops]
    assert back.compare_contents(graph)
    shapes = to_onnx(attention()).graph.value_info
    sizes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in shapes}
    assert sizes["scores"] == [2, 6, 6] and "wq" not in sizes and "y" not in sizes
    graph = graph_of("silu", X, {})
    assert to_onnx(graph).opset_import[0].version == 24


def test_all_that_onnx_cannot_express_is_listed() -> None:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, (4, 16)), "x")
    i = graph.make_input(LogicalTensor(S8, (4,)), "i")
    y = graph.make("atan2", [x, graph.make("atan2", [x, x]).outputs[0]]).outputs[0]
    panels = graph.make("reorder", [y], {"format": parse_format("AB8b", "AB")}).outputs[0]
    total = graph.make("reduce_sum", [i], {}).outputs[0]
    for tensor in (graph.make("relu", [panels]).outputs[0], total):
        graph.make_output(tensor)
    with pytest.raises(UnsupportedError) as error:
        to_onnx(graph)
    assert str(error.value) == (
        "graph 'g': ONNX cannot express: atan2 (2x), reduce_sum of s8 (1x), "
        "reorder in a blocked layout (1x); write another format, such as graphc's own (--to graph)"
    )


@pytest.mark.parametrize("dtype", [F64, BF16, S32, U8], ids=str)
def test_weights_of_any_type_inside_and_beside_the_file(
    dtype: DType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(dtype, (3,)), "x")
    for value in (np.arange(3), np.arange(6).reshape(2, 3)):
        weight = graph.make_constant(value.astype(dtype.numpy), "w")
        graph.make_output(graph.make("max", [x, weight]).outputs[0], "y")
    graph.sort()
    write_onnx(graph, tmp_path / "m.onnx")
    monkeypatch.setattr("graphc.frontend.onnx.writer.MAX_BYTES_INSIDE", 4)
    write_onnx(graph, tmp_path / "large.onnx")
    assert (tmp_path / "large.onnx.data").stat().st_size == 9 * dtype.size
    inside, beside = load(tmp_path / "m.onnx"), load(tmp_path / "large.onnx")
    assert inside.compare_contents(graph) and beside.compare_contents(graph)


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        write_onnx(graph_of("relu", X, {}), tmp_path / "no" / "m.onnx")
    assert str(error.value) == (
        f"cannot write '{tmp_path}/no/m.onnx' (No such file or directory); "
        "make its folder first, or give another path"
    )


@pytest.mark.parametrize("widths", [(-1, 1), (-2, 3), (1, -2), (2, -3), (2, 1)])
def test_a_wrapped_border_beside_a_cropped_one(widths: tuple[int, int]) -> None:
    """ONNX Runtime crops before it wraps; `pad` wraps what is cropped, too."""
    ort = pytest.importorskip("onnxruntime")
    graph, x = Graph("g"), np.arange(4, dtype=np.float32)
    before, after = (widths[0],), (widths[1],)
    y = graph.make(
        "pad",
        [graph.make_input(LogicalTensor(F32, (4,)), "x")],
        {"before": before, "after": after, "mode": "wrap"},
        "y",
    ).outputs[0]
    graph.make_output(y, "y")
    node = onnx.helper.make_node("Pad", ["x", "p"], ["y"], mode="wrap")
    info = [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4])]
    result = [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
    weights = [onnx.numpy_helper.from_array(np.array(widths), "p")]
    proto = onnx.helper.make_model(
        onnx.helper.make_graph([node], "g", info, result, weights),
        ir_version=10,
        opset_imports=[onnx.helper.make_opsetid("", 21)],
    )
    for written, wanted in (
        (to_onnx(graph), graph.evaluate([x])[0]),
        (proto, load(proto).evaluate([x])[0]),
    ):
        (found,) = ort.InferenceSession(written.SerializeToString()).run(None, {"x": x})
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("widths", [(1, -1), (2, -3), (-1, 3), (-3, 1), (2, -1)])
@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_borders_of_elements_that_are_cropped(mode: str, widths: tuple[int, int]) -> None:
    """ONNX Runtime crops first, and refuses a reflection of what is gone."""
    ort = pytest.importorskip("onnxruntime")
    attrs = {"before": (widths[0],), "after": (widths[1],), "mode": mode}
    graph, x = graph_of("pad", [("f32", (4,))], attrs), np.arange(4, dtype=np.float32)
    session = ort.InferenceSession(to_onnx(graph).SerializeToString())
    (found,) = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_array_equal(found, graph.evaluate([x])[0])
