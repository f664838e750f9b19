"""Matmuls of f64, f16 and bf16: packed, converted and read in place, on every ISA, exactly for integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphc.base.dtypes import BF16, F16, F32, F64, S8, DType
from graphc.base.options import CompileOptions
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.schedule import parse_schedule
from graphc.graph_ir.nest.packing import copied_rows, pack_groups, pack_panels
from graphc.graph_ir.nest.problem import View
from graphc.graph_ir.ops.matmul import MatmulCore
from graphc.graph_ir.schedule.context import LowerContext
from graphc.targets.isa import Microkernel, Target, Use
from graphc.targets.microkernels import f32_kernel
from graphc.tensor_ir import builder as t
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import Block, Brgemm, Buffer, Function, Let, Module, Var
from graphc.tensor_ir.passes.expand_brgemm import expand_brgemm
from graphc.tensor_ir.verifier import verify
from graphc.tensor_ir.visitor import walk
from support.compiled import run_native
from support.lowered import build, check_interpreted, context, integers, interpret, lower

TYPES = (F64, F16, BF16)
DOTS = LowerContext(Target("avx512", features="+avx512bf16"), context().options)
"""A target with dot products of bf16, which only the interpreter runs here."""
CONTEXTS = {
    "dots": DOTS,
    "avx512": context("avx512"),
    "avx2": context("avx2"),
    "generic": context("generic"),
}


def matmul_graph(dtype: DType, m: int, n: int, k: int, **attrs: bool) -> Graph:
    a = (k, m) if attrs.get("transpose_a") else (m, k)
    b = (n, k) if attrs.get("transpose_b") else (k, n)
    return build(
        {"a": a, "b": b}, lambda make, x: make("matmul_core", x["a"], x["b"], **attrs), dtype
    )


def layer(dtype: DType, m: int, n: int, k: int) -> Graph:
    """relu(x @ weight + bias): the weight packed at compile time."""
    graph = Graph("layer")
    x = graph.make_input(LogicalTensor(dtype, (m, k)), "x")
    weight, bias = (
        graph.make_constant(integers(shape, seed).astype(dtype.numpy), name)
        for shape, seed, name in (((k, n), 3, "w"), ((n,), 4, "b"))
    )
    y = graph.make("matmul_core", (x, weight)).outputs[0]
    y = graph.make("add", (y, bias)).outputs[0]
    graph.make_output(graph.make("relu", (y,)).outputs[0])
    return graph


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", CONTEXTS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (3, 17, 5), (13, 25, 2), (45, 49, 7)])
def test_sizes_around_the_tile(kind: str, dtype: DType, m: int, n: int, k: int) -> None:
    """Few rows read B in place, many copy it into panels; an odd k leaves a group half empty."""
    check_interpreted(matmul_graph(dtype, m, n, k), CONTEXTS[kind])


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["dots", "avx2"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("side", ["transpose_a", "transpose_b"])
def test_transposed_operands(kind: str, dtype: DType, side: str) -> None:
    for m in (7, 61):
        check_interpreted(matmul_graph(dtype, m, 19, 9, **{side: True}), CONTEXTS[kind])


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", CONTEXTS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("k", [7, 8])
def test_packed_weights_and_epilogue(kind: str, dtype: DType, k: int) -> None:
    lowered = check_interpreted(layer(dtype, 21, 50, k), CONTEXTS[kind])
    assert len(lowered.calls) == 1, "the whole layer is one kernel"


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_sums_wait_between_blocks_of_k(dtype: DType) -> None:
    """In C if it has their type, else in a local block; every group of panels and block of rows."""
    for graph in (matmul_graph(dtype, 41, 50, 11), layer(dtype, 41, 50, 10)):
        op = next(op for op in graph.ops if isinstance(op, MatmulCore))
        requested = {op.name: parse_schedule("kc=3 mc=16 ng=2")}
        lowered = check_interpreted(graph, replace(DOTS, requested=requested))
        notes = "".join(call.note for call in lowered.calls)
        assert "split m 16" in notes and "chunk n0 2" in notes and "split k " in notes


def test_groups_are_used_where_the_target_has_them() -> None:
    """Only there, and not for transposed A, whose neighboring k are apart."""

    def groups(graph: Graph, ctx: LowerContext) -> set[int]:
        module = check_interpreted(graph, ctx).module
        return {node.k_group for node in walk(module) if isinstance(node, Brgemm)}

    assert groups(layer(BF16, 21, 50, 8), DOTS) == {2}
    assert groups(layer(BF16, 21, 50, 8), CONTEXTS["avx512"]) == {1}
    assert groups(layer(F16, 21, 50, 8), DOTS) == {1}
    assert groups(matmul_graph(BF16, 61, 50, 7), DOTS) == {2}
    assert groups(layer(BF16, 21, 50, 7), DOTS) == {2}, "the padding of constants is zero"
    assert groups(matmul_graph(BF16, 61, 50, 8, transpose_a=True), DOTS) == {1}


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(("m", "n", "k"), [(37, 90, 130), (1, 64, 97), (64, 31, 1500)])
def test_native_code_is_within_the_error_of_the_sum(
    dtype: DType, m: int, n: int, k: int, rng: np.random.Generator
) -> None:
    """Against float64: sums of k terms in the accumulator's type, rounded once to the result."""
    a, b = (rng.standard_normal(s).astype(dtype.numpy) for s in ((m, k), (k, n)))
    (result,) = run_native(matmul_graph(dtype, m, n, k), [a, b])
    wide_a, wide_b = a.astype(np.longdouble), b.astype(np.longdouble)
    unit = {F64: 2.0**-53, F16: 2.0**-24, BF16: 2.0**-24}[dtype]
    last = {F64: 2.0**-53, F16: 2.0**-11, BF16: 2.0**-8}[dtype]
    exact, sizes = wide_a @ wide_b, np.abs(wide_a) @ np.abs(wide_b)
    bound = k * unit * sizes + last * (np.abs(exact) + k * unit * sizes)
    assert np.all(np.abs(result.astype(np.longdouble) - exact) <= bound)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_long_rows_are_converted_in_blocks_that_fit_the_stack(dtype: DType) -> None:
    k = 1 << 17
    ones = [np.ones((9, k), dtype.numpy), np.ones((k, 3), dtype.numpy)]
    ones[0][:, k // 512 :] = 0
    (result,) = run_native(matmul_graph(dtype, 9, 3, k), ones)
    assert (result.astype(np.float64) == k // 512).all()


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_the_thread_count_changes_no_bit(dtype: DType, rng: np.random.Generator) -> None:
    arrays = [rng.standard_normal(s).astype(dtype.numpy) for s in ((61, 40), (40, 50))]
    results = []
    for threads in (1, 2, 3):
        results.append(np.zeros((61, 50), dtype.numpy))
        ctx = replace(DOTS, options=CompileOptions(threads))
        lowered = lower(matmul_graph(dtype, 61, 50, 40), ctx)
        # Sums of whole Brgemms are NumPy's, whose order is its own.
        expanded = replace(lowered, module=expand_brgemm(lowered.module, ctx.target))
        interpret(expanded, arrays, [results[-1]])
    assert all(np.array_equal(results[0], other) for other in results[1:])


def run_copy(body: list, source: Buffer, target: Buffer, values: np.ndarray) -> np.ndarray:
    function = Function("copy", (source, replace(target, storage="param")), Block(tuple(body)))
    result = np.full(target.elements, 77).astype(target.dtype.numpy)
    module = Module((function,))
    interpreter.run(
        verify(module) if target.storage == "param" else module, "copy", [values, result]
    )
    return result


@pytest.mark.parametrize(("dtype", "group"), [(F16, 2), (S8, 4)], ids=str)
@pytest.mark.parametrize("lies", ["rows", "columns", "apart"])
@pytest.mark.parametrize(("k", "n"), [(4, 6), (5, 4), (3, 1), (1, 6), (8, 20), (9, 23)])
def test_groups_hold_what_the_matrix_holds(
    dtype: DType, group: int, lies: str, k: int, n: int
) -> None:
    """Rows are zipped four columns at a time, columns moved eight groups at a time; panels of 12 columns."""
    matrix = np.arange(1, 1 + k * n).reshape(k, n).astype(dtype.numpy)
    memory = {"rows": matrix, "columns": matrix.T, "apart": np.repeat(matrix, 2, axis=1)}[lies]
    row, col = {"rows": (n, 1), "columns": (1, k), "apart": (2 * n, 2)}[lies]
    source = Buffer("x", dtype, (memory.size,))
    depth, panels = -(-k // group), -(-n // 12)
    local = Buffer("y", dtype, (panels * depth * 12 * group,))
    use: Use = "dot2" if group == 2 else "dot4"
    kernel = Microkernel(dtype, dtype, use, ())
    body = pack_groups(View(source, {"k": row, "n": col}), local, k, n, 12, kernel, 4)
    got = run_copy(body, source, local, np.ascontiguousarray(memory).reshape(-1))
    expected = np.zeros((depth * group, panels * 12), dtype.numpy)
    expected[:k, :n] = matrix
    unpacked = got.reshape(panels, depth, 12, group).transpose(1, 3, 0, 2)
    np.testing.assert_array_equal(unpacked.reshape(expected.shape), expected)


@pytest.mark.parametrize(("k", "n"), [(4, 6), (5, 4), (3, 1), (1, 6)])
def test_panels_hold_what_the_matrix_holds(k: int, n: int) -> None:
    values = np.arange(1, 1 + k * n).astype(F16.numpy)
    source = Buffer("x", F16, (k * n,))
    panels = Buffer("y", F32, (k * 6,))
    expected = np.zeros((k, 6), F16.numpy)
    expected[:, :n] = values.reshape(k, n)
    view = View(source, {"k": n, "n": 1})
    for columns in (n, t.as_expr(n) + Var("nothing")):  # a number, and one known at run time
        copy = [Let(Var("nothing"), t.ZERO), *pack_panels(view, panels, k, columns, 6, 4)]
        got = run_copy(copy, source, panels, values)
        np.testing.assert_array_equal(got.reshape(k, 6), expected)


@pytest.mark.parametrize(("k", "n"), [(4, 8), (3, 8), (9, 17), (8, 7), (1, 9)])
def test_dense_columns_are_transposed_in_registers(k: int, n: int) -> None:
    """Columns lie `k + 1` apart; four lanes."""
    values = np.arange(1, 1 + (k + 1) * n).astype(np.float32)
    padded, panels = -(-n // 8) * 8, -(-n // 8)
    expected = np.zeros((k, padded), np.float32)
    expected[:, :n] = values.reshape(n, k + 1)[:, :k].T
    given, local = Buffer("x", F32, (values.size,)), Buffer("y", F32, (panels * k * 8,))
    view = View(given, {"k": 1, "n": k + 1})
    for columns in (n, t.as_expr(n) + Var("nothing")):
        copy = [Let(Var("nothing"), t.ZERO), *pack_panels(view, local, k, columns, 8, 4)]
        got = run_copy(copy, given, local, values)
        found = got.reshape(panels, k, 8).transpose(1, 0, 2).reshape(k, padded)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("col", [1, 3])
def test_converted_rows(col: int) -> None:
    """Three rows of five, as they lie in memory."""
    values = np.arange(15).astype(BF16.numpy)
    source = Buffer("x", BF16, (15,))
    view = View(source, {"m": 5 if col == 1 else 1, "k": col})
    local, copy = copied_rows(view, (3, 3), 5, f32_kernel(Target("avx2")), Target("avx2"))
    got = run_copy([copy], source, local.buffer, values)
    row, column = local.step("m"), local.step("k")
    at = np.array([[i * row + j * column for j in range(5)] for i in range(3)])
    expected = values.reshape(3, 5) if col == 1 else values.reshape(5, 3).T
    np.testing.assert_array_equal(got[at], expected.astype(np.float32))
