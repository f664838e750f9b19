"""Matmuls of one row or column: those that become sums, and their results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32, F64, S64, DType
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.matvec_to_reduction import matvec_to_reduction
from support.lowered import context, integers

Shape = tuple[Any, ...]
N = size(Symbol("N", 1, 40))


def matmul(
    x: Shape,
    w: Shape,
    dtype: DType = F32,
    constant: bool = False,
    gathered: bool = False,
    **attrs: bool,
) -> Graph:
    """`gathered`: x is those of its matrices that the input `which` says."""
    graph = Graph("matmul")
    left = graph.make_input(LogicalTensor(dtype, x), "x")
    if gathered:
        which = graph.make_input(LogicalTensor(S64, x[:1]), "which")
        left = graph.make("gather", [left, which], {"axis": 0}).outputs[0]
    if constant:
        right = graph.make_constant(integers(w, 1), "w")
    else:
        right = graph.make_input(LogicalTensor(dtype, w), "w")
    attrs = {"transpose_b": True, **attrs}
    graph.make_output(graph.make("matmul_core", [left, right], attrs).outputs[0], "y")
    return graph


def test_other_matmuls_are_unchanged() -> None:
    ctx = context()
    assert matvec_to_reduction(matmul((1, 8), (5, 8)), ctx)
    assert not matvec_to_reduction(matmul((2, 8), (5, 8)), ctx), "two rows"
    assert not matvec_to_reduction(matmul((1, 8), (5, 8), constant=True), ctx), "in panels already"
    assert not matvec_to_reduction(matmul((1, 8), (5, 8), F64), ctx)
    assert not matvec_to_reduction(matmul((1, 8), (8, 5), transpose_b=False), ctx)
    assert not matvec_to_reduction(matmul((8, 1), (5, 8), transpose_a=True), ctx)
    assert not matvec_to_reduction(matmul((1, 0), (5, 0)), ctx), "nothing to sum"
    assert matvec_to_reduction(matmul((4, 1, 8), (5, 8)), ctx)
    assert not matvec_to_reduction(matmul((5, 1, 8), (5, 8)), ctx), "shared by many"
    assert not matvec_to_reduction(matmul((5, 8), (1, 8)), ctx), "a column"
    assert matvec_to_reduction(matmul((5, 8), (1, 8), gathered=True), ctx)
    plain = {"gathered": True, "transpose_b": False}
    assert matvec_to_reduction(matmul((5, 8), (8, 1), **plain), ctx)
    assert not matvec_to_reduction(matmul((5, 8), (8, 1), constant=True, **plain), ctx)
    assert not matvec_to_reduction(matmul((8, 5), (8, 1), transpose_a=True, **plain), ctx)
    assert not matvec_to_reduction(matmul((5, 8), (5, 8, 1), **plain), ctx), "shared"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("x", "w"),
    [
        ((N, 1, 8), (5, 8)),
        ((N, 8), (1, 8)),
        ((5, 8), (N, 1, 8)),
        ((N, 5, 8), (N, 1, 8)),
        ((N, 1, 8), (8, 5)),
        ((N, 1, 8), (N, 8, 5)),
        ((1, N), (5, N)),
    ],
    ids=str,
)
def test_dynamic_sizes_may_leave_it_open_whether_a_matrix_is_read_often(x: Shape, w: Shape) -> None:
    """Then it is a matmul; it was an error."""
    transpose = w[-1] == x[-1]
    model = compile_model(matmul(x, w, transpose_b=transpose))
    for number in (1, 3, 17):
        left, right = (integers(tuple(number if d is N else d for d in s), 2) for s in (x, w))
        wanted = left @ (right.swapaxes(-1, -2) if transpose else right)
        np.testing.assert_array_equal(model(left, right), wanted)


@pytest.mark.parametrize(
    ("x", "w"),
    [
        ((1, 1), (1, 1)),
        ((1, 3), (100, 3)),
        ((1, 257), (33, 257)),
        ((2, 3, 1, 40), (2, 3, 17, 40)),
        ((3, 1, 16), (1, 31, 16)),
        ((1, 64), (2, 5, 64)),
    ],
    ids=str,
)
@pytest.mark.parametrize("threads", [1, 2])
def test_native_code_sums(x: tuple[int, ...], w: tuple[int, ...], threads: int) -> None:
    graph, left, right = matmul(x, w), integers(x, 2), integers(w, 3)
    y = compile_model(graph, threads=threads)(left, right)
    np.testing.assert_array_equal(y, left @ right.swapaxes(-1, -2))


@pytest.mark.parametrize(
    ("x", "w", "transpose"),
    [
        ((33, 257), (1, 257), True),
        ((3, 17, 40), (3, 1, 40), True),
        ((5, 6, 70), (5, 70, 1), False),
        ((N, 17, 40), (N, 40, 1), False),
        ((3, N, 9), (9, 1), False),
    ],
    ids=str,
)
def test_gathered_matrices_times_a_column(x: Shape, w: Shape, transpose: bool) -> None:
    """Experts of a mixture, which are not copied."""
    model = compile_model(matmul(x, w, gathered=True, transpose_b=transpose))
    for number in (1, 6, 23) if N in (*x, *w) else (1,):
        left, right = (integers(tuple(number if d is N else d for d in s), 2) for s in (x, w))
        which = np.arange(len(left))[::-1] // 2
        wanted = left[which] @ (right.swapaxes(-1, -2) if transpose else right)
        named = {"x": left, "which": which, "w": right}
        np.testing.assert_array_equal(model(**named), wanted)
