"""Graphs written as PNNX and read back: equal where PNNX has the form, and always of the same meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import BOOL, F16, F32, S64, U16, by_name, from_numpy
from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend import load
from graphc.frontend.pnnx import write_pnnx
from graphc.frontend.pnnx.op_table import WRITERS
from graphc.graph_ir.ir import registry
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.check_op import random_array
from support.tolerance import assert_close


def linear_graph(batch: int = 4) -> Graph:
    """nn.Linear(32, 128) and a sigmoid."""
    rng = np.random.default_rng(0)
    graph = Graph("linear")
    x = graph.make_input(LogicalTensor(F32, (batch, 32)), "pnnx_input_0")
    bound = 32**-0.5
    weight = graph.make_constant(rng.uniform(-bound, bound, (128, 32)).astype(np.float32))
    bias = graph.make_constant(rng.uniform(-bound, bound, 128).astype(np.float32))
    matmul = graph.make("matmul_core", (x, weight), {"transpose_b": True}, "linear").outputs[0]
    y = graph.make("add", (matmul, bias)).outputs[0]
    graph.make_output(graph.make("sigmoid", (y,), name="F.sigmoid_0").outputs[0], "pnnx_output_0")
    return graph


def reread(graph: Graph, folder: Path) -> Graph:
    path = folder / "g.pnnx.param"
    write_pnnx(graph, path)
    return load(path)


def random_inputs(graph: Graph) -> list[Array]:
    details = [op.outputs[0].details for op in graph.inputs]
    return [random_array(d.dtype, d.plain_dims, seed) for seed, d in enumerate(details)]


def check_meaning(graph: Graph, folder: Path) -> Graph:
    """The graph read back computes the same, and writing that gives the very same graph again."""
    once = reread(graph, folder)
    inputs = random_inputs(graph)
    with np.errstate(all="ignore"):
        for mine, theirs in zip(graph.evaluate(inputs), once.evaluate(inputs), strict=True):
            assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
            assert_close(theirs, mine)
    return once


LINEAR = """\
7767517
4 3
pnnx.Input               pnnx_input_0             0 1 0 #0=(4,32)f32
nn.Linear                linear                   1 1 0 1 bias=True in_features=32 out_features=128 \
@bias=(128)f32 @weight=(128,32)f32 #0=(4,32)f32 #1=(4,128)f32
F.sigmoid                F.sigmoid_0              1 1 1 2 #1=(4,128)f32 #2=(4,128)f32
pnnx.Output              pnnx_output_0            1 0 2 #2=(4,128)f32
"""


def test_the_classic_linear_layer(tmp_path: Path) -> None:
    graph = linear_graph()
    path = tmp_path / "linear.pnnx.param"
    write_pnnx(graph, path)
    assert path.read_text() == LINEAR
    assert sorted(p.name for p in tmp_path.iterdir()) == ["linear.pnnx.bin", "linear.pnnx.param"]
    back = load(path)
    assert back.compare_contents(graph)
    (x,) = random_inputs(graph)
    weight, bias = (op.attrs["value"] for op in back.ops if op.op_name == "constant")
    exact = 1 / (1 + np.exp(-(x.astype(float) @ weight.T.astype(float) + bias)))
    assert_close(back.evaluate([x])[0], exact.astype(np.float32))


def test_the_same_graph_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_pnnx(linear_graph(), tmp_path / f"{name}.param")
    assert (tmp_path / "a.bin").read_bytes() == (tmp_path / "b.bin").read_bytes()
    assert (tmp_path / "a.param").read_bytes() == (tmp_path / "b.param").read_bytes()


ONE: dict[str, dict[str, Any]] = {
    "reshape": {"shape": (4, 6)},
    "transpose": {"perm": (2, 0, 1)},
    "broadcast": {"shape": (5, 2, 3, 4)},
    "slice": {"starts": (0, 2, 1), "steps": (1, -1, 2), "sizes": (2, 3, 2)},
    "pad": {"before": (0, 1, 2), "after": (0, 0, 1), "mode": "constant", "value": 1.5},
    "cast": {"dtype": "f16"},
    "clamp": {"min": -1.0, "max": None},
    "hard_sigmoid": {"alpha": 1 / 6, "beta": 0.5},
    "leaky_relu": {"alpha": 0.25},
    "gelu": {"approximate": "tanh"},
    "group_norm": {"groups": 3},
    "reduce_prod": {"axes": (0, 2), "keep_dims": True},
    "softmax": {"axis": 1},
    "arg_max": {"axis": 1, "keep_dims": True},
    "concat": {"axis": 0},
    "max_pool": {"kernel": (2,), "strides": (2,), "before": (1,), "after": (1,), "dilations": (2,)},
    "max_pool_indices": {"kernel": (2, 3), "strides": (1, 2), "ceil_mode": True},
    "min_pool": {"kernel": (2, 2), "before": (1, 0), "after": (0, 0)},
    "avg_pool": {"kernel": (3,), "before": (1,), "after": (1,), "count_include_pad": True},
    "sum_pool": {"kernel": (2, 2), "before": (0, 1), "after": (0, 1)},
    "lp_pool": {"kernel": (2,), "p": 4.0},
    "lrn": {"size": 3, "alpha": 0.5},
    "resize": {"shape": (2, 3, 7), "mode": "linear", "coordinates": "align_corners"},
    "top_k": {"k": 2, "axis": 1, "largest": False},
    "cum_sum": {"axis": 1},
    "cum_prod": {"axis": 0, "reverse": True},
}
NOT_ALONE = (
    *("input", "constant", "output", "batch_norm", "gather", "select", "prelu"),
    *("convolution", "convolution_transpose", "im2col", "gather_elements", "scatter_elements"),
)


def op_graph(op_name: str) -> Graph:
    """One op on two, or one, tensors [2, 3, 4] of a dtype it takes."""
    for dtype in ("f32", "s32", "bool"):
        for count in (1, 2):
            graph = Graph("g")
            dims = (2, 4, 4) if op_name == "matmul_core" else (2, 3, 4)
            inputs = [
                graph.make_input(LogicalTensor(by_name(dtype), dims), f"x{i}") for i in range(count)
            ]
            try:
                op = graph.make(op_name, inputs, ONE.get(op_name, {}), "op")
            except UserError:
                continue
            graph.make_output(op.outputs[0], "y")
            return graph
    raise AssertionError(op_name)


@pytest.mark.exhaustive
@pytest.mark.parametrize("op_name", sorted(set(WRITERS) - set(NOT_ALONE)))
def test_every_op_that_can_be_written(op_name: str, tmp_path: Path) -> None:
    once = check_meaning(op_graph(op_name), tmp_path)
    assert reread(once, tmp_path).compare_contents(once)


def test_every_exporter_is_for_an_op() -> None:
    assert set(WRITERS) <= set(registry.names())


def graph_with(op_name: str, arrays: list[Any], attrs: dict[str, Any] | None = None) -> Graph:
    graph = Graph("g")
    tensors = [graph.make_input(LogicalTensor(from_numpy(a.dtype), a.shape)) for a in arrays]
    graph.make_output(graph.make(op_name, tensors, attrs).outputs[0])
    return graph


F = np.float32
SEVERAL: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("batch_norm", [np.zeros((2, 3, 4), F), *[np.zeros(3, F)] * 4], {"epsilon": 20.0, "axis": 1}),
    ("gather", [np.zeros((5, 3), F), np.zeros((2, 2), np.int64)], {"axis": 0}),
    ("gather", [np.zeros((5, 3), F), np.zeros((2, 2), np.int64)], {"axis": 1}),
    ("gather", [np.zeros((5, 3), F), np.zeros(4, np.int32)], {"axis": 1}),
    ("select", [np.zeros((2, 1), bool), np.zeros((2, 3), F), np.zeros(3, F)], {}),
    ("prelu", [np.zeros((2, 3, 4), F), np.zeros((3, 1), F)], {}),
    ("prelu", [np.zeros((2, 3), F), np.zeros(3, F)], {}),
    ("layer_norm", [np.zeros((2, 3), F), np.zeros(3, F), np.zeros(3, F)], {"axis": 1}),
    ("matmul_core", [np.zeros((2, 3), F), np.zeros((4, 3), F)], {"transpose_b": True}),
    ("matmul_core", [np.zeros((2, 3, 2), F), np.zeros((2, 4, 3), F)],
     {"transpose_a": True, "transpose_b": True}),
    ("div", [np.zeros(5, np.int64), np.ones((3, 1), np.int64)], {"rounding": "trunc"}),
    ("mod", [np.zeros(5, F), np.zeros((3, 1), F)], {"sign": "trunc"}),
    ("slice", [np.zeros((2, 0), F)], {"starts": (1, 0), "steps": (1, 1), "sizes": (1, 0)}),
    ("reshape", [np.zeros((2, 0), F)], {"shape": (0, 7)}),
    ("reshape", [np.zeros((1, 1), F)], {"shape": ()}),
    ("and", [np.zeros((2, 2), bool), np.zeros(2, bool)], {}),
    ("convolution", [np.zeros((2, 4, 9), F), np.zeros((6, 2, 3), F)],
     {"groups": 2, "strides": (2,), "before": (1,), "after": (1,)}),
    ("convolution", [np.zeros((1, 2, 5, 6), F), np.zeros((3, 2, 3, 2), F)],
     {"before": (1, 0), "after": (0, 2), "dilations": (1, 2)}),
    ("convolution_transpose", [np.zeros((1, 2, 4, 5), F), np.zeros((2, 3, 3, 2), F)],
     {"strides": (2, 1), "before": (1, 0), "after": (1, 0), "output_padding": (1, 0)}),
    ("convolution_transpose", [np.zeros((1, 2, 4), F), np.zeros((2, 3, 3), F)],
     {"strides": (2,), "before": (1,), "after": (0,)}),
    ("im2col", [np.zeros((2, 3, 5, 6), F)],
     {"kernel": (3, 2), "before": (1, 0), "after": (1, 0), "strides": (2, 1)}),
    ("gather_elements", [np.zeros((3, 4), F), np.zeros((3, 2), np.int32)], {"axis": 1}),
    ("scatter_elements", [np.zeros((3, 4), F), np.zeros((3, 2), np.int64), np.zeros((3, 2), F)],
     {"axis": 1, "reduction": "add"}),
    ("scatter_elements", [np.zeros((3, 4), F), np.zeros((3, 2), np.int64), np.zeros((3, 2), F)],
     {"axis": 1}),
    ("scatter_elements", [np.zeros((3, 4), F), np.zeros((3, 2), np.int64), np.zeros((3, 2), F)],
     {"axis": 0, "reduction": "mul"}),
    ("scatter_elements", [np.zeros((3, 4), F), np.zeros((3, 2), np.int64), np.zeros((3, 2), F)],
     {"axis": 0, "reduction": "max"}),
    ("resize", [np.zeros((1, 2, 4, 5), F)],
     {"shape": (1, 2, 8, 7), "scales": (1, 1, 2.0, 1.5), "mode": "nearest",
      "coordinates": "asymmetric", "nearest_mode": "floor"}),
    ("resize", [np.zeros((1, 2, 4, 5), F)],
     {"shape": (1, 2, 9, 3), "mode": "nearest", "nearest_mode": "round_prefer_ceil"}),
    ("resize", [np.zeros((1, 2, 8, 9), F)],
     {"shape": (1, 2, 4, 3), "mode": "cubic", "cubic_coeff": -0.5, "antialias": True,
      "exclude_outside": True}),
    ("pad", [np.zeros((2, 5), F)], {"before": (0, 2), "after": (0, 3), "mode": "wrap"}),
    ("avg_pool", [np.zeros((1, 2, 5, 6), F)],
     {"kernel": (2, 3), "before": (0, 1), "after": (1, 1), "count_include_pad": True}),
]  # fmt: skip


@pytest.mark.parametrize(("op_name", "arrays", "attrs"), SEVERAL)
def test_ops_of_several_forms(
    op_name: str, arrays: list[Any], attrs: dict[str, Any], tmp_path: Path
) -> None:
    once = check_meaning(graph_with(op_name, arrays, attrs), tmp_path)
    assert reread(once, tmp_path).compare_contents(once)


@pytest.mark.parametrize(
    "dtype", ["f32", "f64", "f16", "bf16", "s64", "s32", "s16", "s8", "u8", "bool"]
)
def test_constants_of_every_dtype_and_rank(dtype: str, tmp_path: Path) -> None:
    graph = Graph("g")
    for shape in ((), (0, 3), (2, 3), (1,)):
        graph.make_output(graph.make_constant(random_array(dtype, shape)))
    back = reread(graph, tmp_path)
    assert back.compare_contents(graph)


def test_scalars_become_literals_only_where_they_keep_their_value(tmp_path: Path) -> None:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, (2,)), "x")
    for value in (0.1, 1e-30, np.inf, -0.0):
        constant = graph.make_constant(np.array(value, np.float32))
        x = graph.make("mul", (x, constant)).outputs[0]
    y = graph.make("cast", (x,), {"dtype": "f64"}).outputs[0]
    y = graph.make("add", (y, graph.make_constant(np.array(0.1)))).outputs[0]
    graph.make_output(y)
    path = tmp_path / "g.param"
    write_pnnx(graph, path)
    found = [w for w in path.read_text().split() if w.startswith("expr=")]
    assert found == [
        *("expr=mul(@0,0.1)", "expr=mul(@0,1.000000e-30)", "expr=mul(@0,@1)"),
        *("expr=mul(@0,-0.0)", "expr=add(@0,@1)"),
    ]
    assert load(path).compare_contents(graph)


def test_names_that_a_line_cannot_hold(tmp_path: Path) -> None:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F16, (2,)), "my input")
    y = graph.make("relu", (x,), name="my_input").outputs[0]
    graph.make_output(y, "a=b")
    back = reread(graph, tmp_path)
    assert [op.name for op in back.inputs] == ["my_input"]
    assert back.outputs[0].attrs["temp.result"] == "a_b"
    assert back.compare_contents(graph)


def test_all_that_cannot_be_written_is_listed_and_nothing_is_left_behind(tmp_path: Path) -> None:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, (2, 3)), "x")
    h = graph.make("hard_sigmoid", (x,), {"alpha": 0.2}).outputs[0]
    graph.make_output(graph.make("reduce_sum_square", (h,), {"axes": (1,)}).outputs[0])
    graph.make_output(graph.make("reduce_log_sum", (h,), {"axes": (1,)}).outputs[0])
    graph.make_output(graph.make_input(LogicalTensor(U16, (2,)), "u"))
    with pytest.raises(UnsupportedError) as error:
        write_pnnx(graph, tmp_path / "g.param")
    assert str(error.value) == (
        "graph 'g': PNNX cannot express: hard_sigmoid with alpha=0.2 (1x), input of u16 (1x), "
        "reduce_log_sum (1x), reduce_sum_square (1x); write another format, such as graphc's own (--to graph)"
    )
    assert not list(tmp_path.iterdir())


def test_where_files_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        write_pnnx(linear_graph(), tmp_path / "linear.pnnx")
    assert str(error.value) == (
        f"'{tmp_path}/linear.pnnx': the name of a PNNX model must end in .param, like linear.pnnx.param"
    )
    with pytest.raises(UserError) as error:
        write_pnnx(linear_graph(), tmp_path / "no" / "linear.param")
    assert (
        str(error.value)
        == f"cannot write '{tmp_path}/no/linear.param' (No such file or directory); "
        "make its folder first, or give another path"
    )


def test_bools_and_integers_stand_as_literals(tmp_path: Path) -> None:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(S64, (3,)), "x")
    two = graph.make_constant(np.array(2))
    y = graph.make("mul", (x, two)).outputs[0]
    b = graph.make("eq", (y, graph.make_constant(np.array(4)))).outputs[0]
    yes = graph.make_constant(np.array(True))
    graph.make_output(graph.make("xor", (b, yes)).outputs[0])
    back = reread(graph, tmp_path)
    assert back.compare_contents(graph)
    assert back.outputs[0].inputs[0].details.dtype == BOOL


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("op_name", ["convolution", "convolution_transpose"])
def test_a_convolution_that_owns_its_weights_is_a_module(
    op_name: str, has_bias: bool, tmp_path: Path
) -> None:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, (1, 4, 5, 6)), "x")
    inner = 2 if op_name == "convolution" else 3
    w = graph.make_constant(random_array("f32", (6 if inner == 2 else 4, inner, 3, 3)))
    y = graph.make(op_name, (x, w), {"groups": 2, "strides": (2, 1)}, "c").outputs[0]
    if has_bias:
        bias = graph.make_constant(random_array("f32", (6,)))
        column = graph.make("reshape", (bias,), {"shape": (6, 1, 1)}).outputs[0]
        y = graph.make("add", (y, column)).outputs[0]
    graph.make_output(graph.make("relu", (y,)).outputs[0])
    once = check_meaning(graph, tmp_path)
    types = [line.split()[0] for line in (tmp_path / "g.pnnx.param").read_text().splitlines()[2:]]
    kind = "Conv2d" if inner == 2 else "ConvTranspose2d"
    assert types == ["pnnx.Input", f"nn.{kind}", "F.relu", "pnnx.Output"]
    assert reread(once, tmp_path).compare_contents(once)


def test_positions_of_a_pool_share_its_operator(tmp_path: Path) -> None:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, (1, 2, 6, 6)), "x")
    attrs = {"kernel": (2, 2), "strides": (2, 2)}
    for op_name in ("max_pool_indices", "max_pool"):
        graph.make_output(graph.make(op_name, (x,), attrs).outputs[0])
    check_meaning(graph, tmp_path)
    lines = (tmp_path / "g.pnnx.param").read_text().splitlines()
    assert [line.split()[0] for line in lines[2:]].count("F.max_pool2d") == 1


WINDOWS_WITHOUT_A_FORM = [
    ("max_pool", (1, 1, 2, 5), {"kernel": (2,), "strides": (1,)},
     "max_pool of f32[1,1,2,5] over 1 axes"),
    ("max_pool_indices", (1, 2, 5), {"kernel": (3,), "before": (2,), "after": (2,)},
     "max_pool_indices with borders [2] and [2]"),
    ("avg_pool", (1, 2, 5), {"kernel": (2,), "before": (1,), "after": (0,)},
     "avg_pool with borders [1] and [0]"),
    ("avg_pool", (1, 2, 5), {"kernel": (2,), "dilations": (2,)}, "avg_pool with dilations [2]"),
    ("sum_pool", (1, 2, 5), {"kernel": (2,)}, "sum_pool over one axis"),
    ("lp_pool", (1, 2, 5), {"kernel": (2,), "p": 3.0}, "lp_pool with p=3, ceil_mode=False"),
    ("lrn", (1, 4, 5), {"size": 2}, "lrn of 2 elements on axis 1"),
    ("resize", (1, 2, 5), {"shape": (1, 2, 10)},
     "resize of f32[1,2,5] to [1, 2, 10], nearest, half_pixel"),
    ("cum_sum", (3,), {"exclusive": True}, "cum_sum with exclusive=True"),
    ("im2col", (1, 2, 5), {"kernel": (2,)}, "im2col of f32[1,2,5] by [2], [0] and [0]"),
]  # fmt: skip


@pytest.mark.parametrize(("op_name", "dims", "attrs", "what"), WINDOWS_WITHOUT_A_FORM)
def test_windows_that_pnnx_has_no_form_for(
    op_name: str, dims: tuple[int, ...], attrs: dict[str, Any], what: str, tmp_path: Path
) -> None:
    graph = graph_with(op_name, [np.zeros(dims, F)], attrs)
    with pytest.raises(UnsupportedError) as error:
        write_pnnx(graph, tmp_path / "g.param")
    assert (
        str(error.value)
        == f"graph 'g': PNNX cannot express: {what} (1x); write another format, such as graphc's own (--to graph)"
    )
