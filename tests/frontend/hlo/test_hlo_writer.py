"""Graphs as HLO text: the text, round trips, and every elementwise op and reduction against its reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphc.base.dtypes import BF16, BOOL, F16, F32, F64, S32, S64, U8, DType
from graphc.base.errors import UnsupportedError
from graphc.frontend.hlo import import_hlo, parse_hlo, write_hlo
from graphc.graph_ir.ir.graph import Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.registry import lookup, names
from graphc.graph_ir.ops.elementwise import Elementwise
from graphc.graph_ir.ops.reduce import ROWS

RNG = np.random.default_rng(5)
GIVEN: dict[str, dict[str, Any]] = {
    "div_constant": {"divisor": 3.0},
    "leaky_relu": {"alpha": 0.1}, "selu": {"alpha": 1.6, "gamma": 1.05}, "hard_sigmoid": {"alpha": 0.2, "beta": 0.5},
    "clamp": {"min": -1, "max": 1},
}  # fmt: skip
ELEMENTWISE = [name for name in names() if issubclass(lookup(name), Elementwise)]


def row_of(name: str) -> Any:
    return lookup(name).row  # type: ignore[attr-defined]


def values(dtype: DType, *dims: int) -> np.ndarray:
    if dtype == BOOL:
        return RNG.integers(0, 2, dims).astype(bool)
    return (
        (RNG.standard_normal(dims) * 3)
        .clip(0 if not dtype.is_signed else -9, 9)
        .astype(dtype.numpy)
    )


def round_trip(graph: Graph, *inputs: np.ndarray) -> str:
    """The text of a graph, which read again must compute the same."""
    text = write_hlo(graph)
    again = import_hlo(parse_hlo(text))
    for got, wanted in zip(again.evaluate(inputs), graph.evaluate(inputs), strict=True):
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
        tolerance = 2e-2 if wanted.dtype.itemsize == 2 else 1e-5
        np.testing.assert_allclose(got.astype(float), wanted.astype(float), tolerance, tolerance)
    return text


def test_text() -> None:
    graph = Graph("my model")
    x = graph.make_input(LogicalTensor(F32, (2, 3)), "x:0")
    bias = graph.make_constant(np.array([1, 2.5, -np.inf], np.float32), "bias")
    total = graph.make("reduce_sum", [graph.make("add", [x, bias]).outputs[0]], {"axes": (1,)})
    graph.make_output(total.outputs[0], "y")
    assert write_hlo(graph) == (
        "HloModule my_model\n\n"
        "%add_f32 (a: f32[], b: f32[]) -> f32[] {\n"
        "  %a = f32[] parameter(0)\n"
        "  %b = f32[] parameter(1)\n"
        "  ROOT %r = f32[] add(f32[] %a, f32[] %b)\n"
        "}\n\n"
        "ENTRY %main (x_0: f32[2,3]{1,0}) -> (f32[2]{0}) {\n"
        "  %x_0 = f32[2,3]{1,0} parameter(0)\n"
        "  %bias = f32[3]{0} constant({1, 2.5, -inf})\n"
        "  %broadcast = f32[2,3]{1,0} broadcast(f32[3]{0} %bias), dimensions={1}\n"
        "  %add = f32[2,3]{1,0} add(f32[2,3]{1,0} %x_0, f32[2,3]{1,0} %broadcast)\n"
        "  %identity = f32[] constant(0)\n"
        "  %reduce_sum = f32[2]{0} reduce(f32[2,3]{1,0} %add, f32[] %identity), dimensions={1}, to_apply=%add_f32\n"
        "  ROOT %result = (f32[2]{0}) tuple(f32[2]{0} %reduce_sum)\n"
        "}\n"
    )  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(name, dtype, id=f"{name}-{dtype}")
        for name in ELEMENTWISE
        for dtype in (F32, BF16, S32, U8, BOOL)
        if dtype.kind in row_of(name).accepts
    ],
)
def test_elementwise(name: str, dtype: DType) -> None:
    row = row_of(name)
    attrs: dict[str, Any] = GIVEN.get(name, {})
    assert all(not value.is_required or key in attrs for key, value in row.attrs.items())
    graph = Graph()
    inputs = [values(BOOL if i < row.conditions else dtype, 5, 4) for i in range(len(row.inputs))]
    tensors = [
        graph.make_input(LogicalTensor(BOOL if x.dtype == bool else dtype, x.shape)) for x in inputs
    ]
    graph.make_output(graph.make(name, tensors, attrs).outputs[0])
    with np.errstate(all="ignore"):
        round_trip(graph, *inputs)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(row.name, dtype, id=f"{row.name}-{dtype}")
        for row in ROWS
        for dtype in (F32, F16, S32, BOOL)
        if dtype.kind in row.accepts
    ],
)
def test_reductions(name: str, dtype: DType) -> None:
    graph = Graph()
    x = graph.make_input(LogicalTensor(dtype, (3, 4, 2)))
    for axes, keep in (((0, 2), True), ((1,), False), ((), False)):
        graph.make_output(graph.make(name, [x], {"axes": axes, "keep_dims": keep}).outputs[0])
    with np.errstate(all="ignore"):
        round_trip(graph, values(dtype, 3, 4, 2))


def test_movement_matmuls_and_indices() -> None:
    graph = Graph()
    x = graph.make_input(LogicalTensor(F32, (2, 3, 4)), "x")
    index = graph.make_input(LogicalTensor(S32, (2,)), "i")

    def out(op_name: str, *inputs: GraphTensor, **attrs: Any) -> GraphTensor:
        result = graph.make(op_name, inputs, attrs).outputs[0]
        graph.make_output(result)
        return result

    out("slice", x, starts=(1, 2, 0), steps=(-1, -2, 3), sizes=(2, 2, 2))
    out("slice", x, starts=(0, 0, 0), sizes=(0, 3, 4))
    out("pad", x, before=(1, -1, 0), after=(0, 2, 1), mode="constant", value=2)
    out("pad", x, before=(1, 2, 0), after=(0, 1, 2), mode="reflect")
    out("pad", x, before=(1, 2, 0), after=(0, 1, 2), mode="edge")
    out("concat", x, x, axis=1)
    y = out("transpose", x, perm=(0, 2, 1))
    out("matmul_core", x, y)
    out("matmul_core", x, x, transpose_b=True)
    out("matmul_core", x, x, transpose_a=True)
    out("gather", x, index, axis=1)
    spots = graph.make_constant(np.array([[[0, -1, 3, 1]] * 3] * 2))
    out("gather_elements", x, spots, axis=2)
    out("softmax", x, axis=1)
    out("cast", x, dtype="s8")
    out(
        "broadcast",
        graph.make("reshape", [x], {"shape": (2, 1, 3, 4)}).outputs[0],
        shape=(2, 5, 3, 4),
    )
    round_trip(graph, values(F32, 2, 3, 4), np.array([2, -3], np.int32))


@pytest.mark.parametrize("start", [-1, 0, 2, 9])
def test_update_slice(start: int) -> None:
    graph = Graph("g")
    shapes: list[tuple[DType, tuple[int, ...]]] = [(F32, (5, 3)), (F32, (2, 3)), (S64, ())]
    inputs = [graph.make_input(LogicalTensor(d, s), "x") for d, s in shapes]
    graph.make_output(graph.make("update_slice", inputs, {"axes": (0,)}).outputs[0])
    text = round_trip(graph, values(F32, 5, 3), values(F32, 2, 3), np.array(start))
    assert "dynamic-update-slice" in text


def test_what_cannot_be_written_is_listed() -> None:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, (2,)), "x")
    inner = Graph("inner")
    inner.make_output(inner.make_input(LogicalTensor(F32, (2,))))
    graph.make_output(graph.make("fused", [x], {"graph": inner}).outputs[0])
    with pytest.raises(UnsupportedError) as caught:
        write_hlo(graph)
    assert (
        str(caught.value)
        == "graph 'g': HLO cannot express: fused (1x); write another format, such as graphc's own (--to graph)"
    )


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Chains of ops over matrices, each reading any earlier value."""
    graph = Graph()
    tensors = [graph.make_input(LogicalTensor(F32, (4, 4)), f"x{i}") for i in range(2)]
    for _ in range(draw(st.integers(1, 8))):
        a, b = (draw(st.sampled_from(tensors)) for _ in range(2))
        name, attrs = draw(
            st.sampled_from(
                [("add", {}), ("mul", {}), ("max", {}), ("tanh", {}), ("matmul_core", {}),
                 ("transpose", {"perm": (1, 0)}), ("reduce_sum", {"axes": (0,)}), ("broadcast", {"shape": (4, 4)})]
            )
        )  # fmt: skip
        if name == "reduce_sum":
            a = graph.make(name, [a], attrs).outputs[0]
            name, attrs = "broadcast", {"shape": (4, 4)}
        if a.details.plain_dims == (4, 4) and name == "broadcast":
            continue
        count = 2 if name in ("add", "mul", "max", "matmul_core") else 1
        tensors.append(graph.make(name, [a, b][:count], attrs).outputs[0])
    graph.make_output(tensors[-1])
    return graph


@given(graphs())
def test_written_read_and_written_again_is_the_same(graph: Graph) -> None:
    first = import_hlo(parse_hlo(write_hlo(graph)))
    second = import_hlo(parse_hlo(write_hlo(first)))
    assert second.compare_contents(first)
    inputs = [values(F32, 4, 4), values(F32, 4, 4)]
    for got, wanted in zip(first.evaluate(inputs), graph.evaluate(inputs), strict=True):
        np.testing.assert_array_equal(got, wanted)


def scattered(attrs: dict[str, Any], dtype: DType, count: int = 1) -> Graph:
    graph = Graph("scatter")
    indices = graph.make_input(LogicalTensor(S64, (5,)), "indices")
    data = [graph.make_input(LogicalTensor(dtype, (4, 3)), f"x{i}") for i in range(count)]
    dims = (5, attrs.get("run", 1))
    updates = [graph.make_input(LogicalTensor(dtype, dims), f"u{i}") for i in range(count)]
    op = graph.make("scatter", [indices, *data, *updates], attrs)
    for i, y in enumerate(op.outputs):
        graph.make_output(y, f"y{i}")
    return graph


@pytest.mark.parametrize("run", [1, 2])
@pytest.mark.parametrize(
    ("reduction", "dtype"),
    [("none", F32), ("add", F32), ("mul", BF16), ("max", S32), ("xor", U8), ("or", BOOL)],
)
def test_scatter(reduction: str, dtype: DType, run: int) -> None:
    indices = np.array([3, 11, -1, 0, 3])
    round_trip(
        scattered({"reduction": reduction, "run": run}, dtype),
        indices, values(dtype, 4, 3), values(dtype, 5, run),
    )  # fmt: skip


def test_scatter_of_two_arrays_by_a_body() -> None:
    body = Graph("swap")
    a, b, c, d = (body.make_input(LogicalTensor(F32, ()), name) for name in "abcd")
    half = body.make_constant(np.float32(0.5))
    first = body.make("add", [a, body.make("mul", [d, half]).outputs[0]]).outputs[0]
    body.make_output(first)
    body.make_output(body.make("max", [b, c]).outputs[0])
    arrays = [values(F32, *dims) for dims in ((4, 3), (4, 3), (5, 1), (5, 1))]
    text = round_trip(scattered({"body": body}, F32, 2), np.array([3, 11, -1, 0, 3]), *arrays)
    assert "%body.0 (a: f32[], b: f32[], c: f32[], d: f32[]) -> (f32[], f32[]) {" in text


def test_a_scatter_of_nothing() -> None:
    graph = Graph("none")
    indices = graph.make_input(LogicalTensor(S64, (0,)), "indices")
    x = graph.make_input(LogicalTensor(F32, (3,)), "x")
    u = graph.make_input(LogicalTensor(F32, (0,)), "u")
    graph.make_output(graph.make("scatter", [indices, x, u]).outputs[0], "y")
    round_trip(graph, np.zeros(0, np.int64), values(F32, 3), values(F32, 0))


WINDOWS: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    ("convolution", (4, 3, 3, 2), {"strides": (2, 1), "before": (1, 0), "after": (2, 1), "dilations": (1, 2)}),
    ("convolution", (6, 1, 2, 2), {"groups": 3}),
    ("max_pool", (), {"kernel": (3, 2), "strides": (2, 2), "before": (1, 0), "after": (1, 1)}),
    ("sum_pool", (), {"kernel": (2, 3), "dilations": (2, 1), "strides": (2, 3), "ceil_mode": True}),
    ("prod_pool", (), {"kernel": (3,)}),
    ("min_pool", (), {"kernel": (2, 2)}),
    ("avg_pool", (), {"kernel": (2, 2), "before": (1, 1), "after": (0, 1)}),
    ("cum_sum", (), {"axis": 2}),
    ("cum_sum", (), {"axis": 3, "reverse": True, "exclusive": True}),
    ("cum_prod", (), {"axis": 1, "exclusive": True}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kernel", "attrs", "dtype"),
    [
        (*window, dtype)
        for window in WINDOWS
        for dtype in (F32, BF16, S32)
        if dtype.is_float or window[0] != "avg_pool"
    ],
)
def test_windows(name: str, kernel: tuple[int, ...], attrs: dict[str, Any], dtype: DType) -> None:
    arrays = [RNG.integers(-2, 3, dims).astype(dtype.numpy) for dims in ((2, 3, 6, 7), kernel) if dims]  # fmt: skip
    graph = Graph("windows")
    inputs = [
        graph.make_input(LogicalTensor(dtype, a.shape), f"x{i}") for i, a in enumerate(arrays)
    ]
    graph.make_output(graph.make(name, inputs, attrs).outputs[0], "y")
    text = round_trip(graph, *arrays)
    if name in ("convolution", "max_pool", "sum_pool", "prod_pool", "min_pool") and dtype == F32:
        again = import_hlo(parse_hlo(text))
        assert [op.op_name for op in again.ops if op.op_name == name] == [name]


@pytest.mark.parametrize("dtype", [F64, F32, F16])
def test_remainders_are_exact(dtype: DType) -> None:
    a = RNG.uniform(-100, 100, 200).astype(dtype.numpy)
    b = RNG.uniform(-2, 2, 200).astype(dtype.numpy)
    a[:4], b[:4] = [-1, 1, 3, 0], [np.inf, -np.inf, 0, -2]
    graph = Graph("remainders")
    inputs = [graph.make_input(LogicalTensor(dtype, x.shape), n) for n, x in (("a", a), ("b", b))]
    graph.make_output(graph.make("mod", inputs, {"sign": "floor"}).outputs[0], "y")
    again = import_hlo(parse_hlo(write_hlo(graph)))
    with np.errstate(invalid="ignore"):
        (found,), (wanted,) = again.evaluate([a, b]), graph.evaluate([a, b])
    np.testing.assert_array_equal(found, wanted)


NESTED = """HloModule nested
small { s = (s32[], f32[4]) parameter(0) ROOT r = pred[] compare(s#0, s32[] constant(6)), direction=LT }
double { x = f32[4] parameter(0) ROOT r = f32[4] add(x, x) }
halve { x = f32[4] parameter(0) h = f32[4] constant({0.5, 0.5, 0.5, 0.5}) ROOT r = f32[4] multiply(x, h) }
round {
  s = (s32[], f32[4]) parameter(0)
  one = s32[] constant(1)
  y = f32[4] conditional(s32[] and(s#0, one), s#1, s#1), branch_computations={double, halve}
  e = f32[4] exponential(f32[4] negate(f32[4] abs(y)))
  ROOT t = (s32[], f32[4]) tuple(s32[] add(s#0, one), f32[4] add(y, e))
}
ENTRY main {
  n = s32[] parameter(0)
  x = f32[4] parameter(1)
  ROOT w = (s32[], f32[4]) while((s32[], f32[4]) tuple(n, x)), condition=small, body=round
}
"""


@pytest.mark.parametrize("start", [0, 3, 6, 100])
def test_loops_and_choices(start: int) -> None:
    graph = import_hlo(parse_hlo(NESTED))
    text = round_trip(graph, np.array(start, np.int32), values(F32, 4))
    assert text.count(" while(") == text.count(" conditional(") == 1


def test_what_cannot_be_written_is_found_in_subgraphs_too() -> None:
    branch = Graph("branch")
    x = branch.make_input(LogicalTensor(F32, (2, 4)), "x")
    branch.make_output(branch.make("im2col", [x], {"kernel": (2,)}).outputs[0])
    graph = Graph("outer")
    index = graph.make_input(LogicalTensor(S64, ()), "index")
    y = graph.make_input(LogicalTensor(F32, (2, 4)), "y")
    choice = graph.make("case", [index, y], {"branches": (branch,)})
    graph.make_output(choice.outputs[0])
    with pytest.raises(UnsupportedError, match=r"HLO cannot express: im2col \(1x\); write another"):
        write_hlo(graph)
