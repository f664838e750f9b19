"""Integer matmuls as dot products of bytes: every pair of types, zero points of every shape, exact results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphc.base.dtypes import S8, S32, U8, from_numpy
from graphc.graph_ir.ir.graph import Array, Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.matmul import MatmulCore
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.passes.narrow_integer_matmuls import narrow_integer_matmuls
from graphc.graph_ir.schedule.context import LowerContext
from graphc.targets.isa import Target
from graphc.targets.microkernels import microkernels
from graphc.tensor_ir.nodes import Brgemm
from graphc.tensor_ir.passes.expand_brgemm import expand_brgemm
from graphc.tensor_ir.visitor import walk
from support.compiled import run_native
from support.lowered import context, interpret, lower

VNNI = LowerContext(Target("avx512", features="+avx512vnni"), context().options)
CONTEXTS = {"vnni": VNNI, "avx512": context("avx512"), "avx2": context("avx2")}


def extremes(dtype: np.dtype, shape: tuple[int, ...], seed: int) -> Array:
    """All values of the type, the largest most often, so that nothing that saturates goes unnoticed."""
    limits, rng = np.iinfo(dtype), np.random.default_rng(seed)
    values = rng.integers(limits.min, limits.max, shape, endpoint=True)
    return np.where(rng.random(shape) < 0.5, limits.max, values).astype(dtype)


def centered(graph: Graph, x: GraphTensor, zero: object) -> GraphTensor:
    """x as s32, minus a zero point."""
    wide = graph.make("cast", [x], {"dtype": "s32"}).outputs[0]
    if zero is None:
        return wide
    point = graph.make_constant(np.asarray(zero, np.int32))
    return graph.make("sub", [wide, point]).outputs[0]


def matmul_graph(
    a: Array, b: Array, za: object, zb: object, constant: bool, **attrs: bool
) -> Graph:
    graph = Graph("matmul")
    x = graph.make_input(LogicalTensor(from_numpy(a.dtype), a.shape), "a")
    if constant:
        y = graph.make_constant(b, "b")
    else:
        y = graph.make_input(LogicalTensor(from_numpy(b.dtype), b.shape), "b")
    operands = (centered(graph, x, za), centered(graph, y, zb))
    graph.make_output(graph.make("matmul_core", operands, attrs).outputs[0])
    return graph


def check(graph: Graph, arrays: list[Array], ctx: LowerContext) -> None:
    """Dot products, whose results are the reference's."""
    (wanted,) = graph.evaluate(arrays)
    lowered = lower(graph, ctx)
    groups = {node.k_group for node in walk(lowered.module) if isinstance(node, Brgemm)}
    assert groups and groups <= {x.k_group for x in microkernels(U8, S8, ctx.target)}
    expanded = replace(lowered, module=expand_brgemm(lowered.module, ctx.target))
    for program in (lowered, expanded):
        result = np.full_like(wanted, 77)
        interpret(program, arrays, [result])
        np.testing.assert_array_equal(result, wanted)


SHAPES = [(1, 1, 1), (3, 17, 5), (45, 49, 7), (17, 64, 12)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", CONTEXTS)
@pytest.mark.parametrize("types", [(U8, S8), (S8, S8), (U8, U8), (S8, U8)], ids=str)
@pytest.mark.parametrize("constant", [True, False])
def test_every_pair_of_types(kind: str, types: tuple, constant: bool) -> None:
    for m, n, k in SHAPES:
        a, b = extremes(types[0].numpy, (m, k), 1), extremes(types[1].numpy, (k, n), 2)
        graph = matmul_graph(a, b, None, None, constant)
        check(graph, [a] if constant else [a, b], CONTEXTS[kind])


@pytest.mark.exhaustive
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("za", [None, 7, "rows"])
@pytest.mark.parametrize("zb", [None, -3, "columns"])
def test_zero_points(constant: bool, za: object, zb: object) -> None:
    a, b = extremes(np.dtype("u1"), (13, 10), 1), extremes(np.dtype("u1"), (10, 19), 2)
    za = np.arange(13)[:, None] if za == "rows" else za
    zb = np.arange(19) * 3 if zb == "columns" else zb
    check(matmul_graph(a, b, za, zb, constant), [a] if constant else [a, b], VNNI)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("side", ["transpose_a", "transpose_b"])
def test_transposed_operands(constant: bool, side: str) -> None:
    a = extremes(np.dtype("i1"), (9, 13) if side == "transpose_a" else (13, 9), 1)
    b = extremes(np.dtype("i1"), (21, 9) if side == "transpose_b" else (9, 21), 2)
    points = (np.arange(13)[None] if side == "transpose_a" else np.arange(13)[:, None],
              np.arange(21)[:, None] if side == "transpose_b" else np.arange(21)[None])  # fmt: skip
    graph = matmul_graph(a, b, *points, constant, **{side: True})
    check(graph, [a] if constant else [a, b], VNNI)


def test_batches_share_a_constant() -> None:
    a, b = extremes(np.dtype("u1"), (2, 3, 5, 11), 1), extremes(np.dtype("i1"), (3, 11, 18), 2)
    check(matmul_graph(a, b, 4, np.arange(18), True), [a], VNNI)


def test_columns_that_differ_much_have_offsets_of_their_own() -> None:
    """Minus their zero points, bytes of a constant span more than 8 bits in all, and less in each column."""
    b = np.stack([np.arange(0, 60, 10), np.arange(100, 160, 10)], axis=1).astype(np.uint8)
    a = extremes(np.dtype("u1"), (9, 6), 1)
    check(matmul_graph(a, b, 3, [250, -250], True), [a], VNNI)


def test_the_correction_of_constants_is_the_epilogue() -> None:
    """One kernel: unsigned by signed bytes, and a constant for each column."""
    a, b = extremes(np.dtype("i1"), (32, 12), 1), extremes(np.dtype("i1"), (12, 64), 2)
    lowered = lower(matmul_graph(a, b, 5, None, True), VNNI)
    assert [call.kernel.split("_")[0] for call in lowered.calls][-1] == "u8"
    assert len(lowered.calls) == 2, "flipping the upper bits, the matmul"
    lowered = lower(matmul_graph(a.view(np.uint8), b, 5, None, True), VNNI)
    assert len(lowered.calls) == 1


@pytest.mark.parametrize(
    ("zero", "value"), [(np.arange(6), None), (None, np.array([[0, 300]] * 6))], ids=["k", "wide"]
)
def test_what_stays_in_s32(zero: object, value: Array | None) -> None:
    """Zero points that vary along the sum, constants of a wide range, and other types."""
    a = extremes(np.dtype("u1"), (4, 6), 1)
    graph = Graph("wide")
    x = graph.make_input(LogicalTensor(U8, a.shape), "a")
    w = graph.make_constant(np.ones((6, 2), np.int32) if value is None else value.astype(np.int32))
    graph.make_output(graph.make("matmul_core", [centered(graph, x, zero), w]).outputs[0])
    (wanted,) = graph.evaluate([a])
    work = graph.copy()
    pipeline.run(work, VNNI)
    assert not any(
        getattr(op, "dtype", None) == S32 for op in work.ops if isinstance(op, MatmulCore)
    )
    np.testing.assert_array_equal(work.evaluate([a])[0], wanted)


@pytest.mark.exhaustive
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("types", ["u1i1", "i1i1", "u1u1"])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 64, 97), (37, 90, 131), (64, 31, 1500)])
def test_native_code_is_exact(constant: bool, types: str, m: int, n: int, k: int) -> None:
    a, b = extremes(np.dtype(types[:2]), (m, k), 1), extremes(np.dtype(types[2:]), (k, n), 2)
    graph = matmul_graph(a, b, 7, 5, constant)
    arrays = [a] if constant else [a, b]
    np.testing.assert_array_equal(run_native(graph, arrays)[0], graph.evaluate(arrays)[0])


def image(
    x: Array, w: Array, zx: object, zw: object, constant: bool = True, **attrs: object
) -> Graph:
    graph = Graph("image")
    pixels = graph.make_input(LogicalTensor(from_numpy(x.dtype), x.shape), "x")
    if constant:
        weights = graph.make_constant(w, "w")
    else:
        weights = graph.make_input(LogicalTensor(from_numpy(w.dtype), w.shape), "w")
    operands = (centered(graph, pixels, zx), centered(graph, weights, zw))
    graph.make_output(graph.make("convolution", operands, attrs).outputs[0])
    return graph


BORDER = {"before": (1, 1), "after": (1, 0)}


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", CONTEXTS)
@pytest.mark.parametrize("types", ["u1i1", "i1i1", "u1u1", "i1u1"])
@pytest.mark.parametrize("zx", [None, 7])
@pytest.mark.parametrize("zw", [None, 3, "outputs"])
def test_convolutions(kind: str, types: str, zx: object, zw: object) -> None:
    """Padding is the zero point of the image."""
    x = extremes(np.dtype(types[:2]), (2, 5, 3, 4), 1)
    w = extremes(np.dtype(types[2:]), (18, 5, 3, 3), 2)
    zw = np.arange(18).reshape(18, 1, 1, 1) if zw == "outputs" else zw
    check(image(x, w, zx, zw, **BORDER), [x], CONTEXTS[kind])


@pytest.mark.parametrize("groups", [2, 8])
def test_groups_and_windows(groups: int) -> None:
    x = extremes(np.dtype("u1"), (1, 8, 7, 6), 1)
    w = extremes(np.dtype("i1"), (24, 8 // groups, 3, 2), 2)
    attrs = {"groups": groups, "strides": (2, 1), "dilations": (1, 2), **BORDER}
    check(image(x, w, 130, None, **attrs), [x], VNNI)


def test_weights_computed_at_run_time() -> None:
    x, w = extremes(np.dtype("i1"), (1, 8, 5, 4), 1), extremes(np.dtype("i1"), (17, 8, 3, 3), 2)
    check(image(x, w, -5, None, False, **BORDER), [x, w], VNNI)


@pytest.mark.parametrize(
    ("zx", "zw", "groups"), [(300, None, 1), (3, np.arange(8).reshape(8, 1, 1, 1) * 50, 8)]
)
def test_convolutions_that_stay_in_s32(zx: int, zw: object, groups: int) -> None:
    """A zero point that padding cannot hold; weights of several groups with zero points. Nothing is left behind."""
    x = extremes(np.dtype("u1"), (1, 8, 5, 4), 1)
    w = extremes(np.dtype("u1"), (8, 8 // groups, 3, 3), 2)
    graph = image(x, w, zx, zw, False, groups=groups, **BORDER)
    count = len(graph.ops)
    assert not narrow_integer_matmuls(graph, VNNI)
    assert len(graph.ops) == count


def test_a_zero_point_and_a_bias_are_one_addition() -> None:
    a, b = extremes(np.dtype("u1"), (13, 10), 1), extremes(np.dtype("i1"), (10, 19), 2)
    graph = matmul_graph(a, b, 7, None, True)
    (end,) = graph.outputs
    bias = graph.make_constant(np.arange(19, dtype=np.int32) << 20)
    end.set_input(0, graph.make("add", [end.inputs[0], bias]).outputs[0])
    graph.sort()
    (wanted,) = graph.evaluate([a])
    lowered = lower(graph, VNNI)
    (call,) = lowered.calls
    assert "_sub" not in call.kernel and "_add" in call.kernel
    result = np.empty_like(wanted)
    interpret(lowered, [a], [result])
    np.testing.assert_array_equal(result, wanted)
