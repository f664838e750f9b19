"""Kernels of user code that run alone: called on arrays, checked at many sizes, and called in one compilation only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphc
from graphc import UserError
from graphc.base.dtypes import F32
from graphc.codegen.host import target_for
from graphc.extension.ops import LogicalTensor
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.schedule.user_code import KERNELS
from graphc.lab.read import read_problem
from graphc.lab.trial import Bench, measure
from graphc.lab.user_kernels import MAX_CHECKS, MAX_LINES, Kernel, kernel
from graphc.tensor_ir import builder as t


@pytest.fixture(autouse=True)
def kept_kernels() -> Iterator[None]:
    before = dict(KERNELS)
    yield
    KERNELS.clear()
    KERNELS.update(before)


def is_matrix(op: Any, target: Any) -> bool:
    return bool(op.x.details.rank == 2 and op.x.details.dtype == F32)


def relu_rows(extra: int = 0, factor: float = 1.0, **options: Any) -> Kernel:
    @kernel("relu", when=is_matrix, everywhere=False, **options)
    def rows(b: Any, op: Any, x: Any, y: Any) -> None:
        with (
            b.loop("i", 0, x.shape[0], "parallel") as i,
            b.loop("j", 0, x.shape[1] + extra, "vector") as j,
        ):
            b.store(y, (i, j), t.maximum(x[i, j], 0.0) * factor)

    return rows


def model_of(name: str = "layer") -> Graph:
    graph = Graph("m")
    x = graph.make_input(LogicalTensor(F32, (5, 21)), "x")
    graph.make_output(graph.make("relu", [x], name=name).outputs[0], "y")
    return graph


def test_a_kernel_runs_alone() -> None:
    rows = relu_rows()
    x = np.arange(-30, 30).reshape(3, 20).astype(np.float32)
    assert np.array_equal(rows(x), np.maximum(x, 0))
    assert np.array_equal(rows(x[:, :7].copy(), threads=2, target="avx2"), np.maximum(x[:, :7], 0))
    assert not KERNELS
    with pytest.raises(
        UserError, match="kernel 'rows' of relu: it must accept the op; see its `when`"
    ):
        rows(x.astype(np.float64))


def test_attributes_and_several_operands() -> None:
    @kernel("matmul_core", when=lambda op, target: not op.attr("transpose_b"), everywhere=False)
    def naive(b: Any, op: Any, a: Any, right: Any, *rest: Any) -> None:
        *_, c = rest
        with b.loop("i", 0, a.shape[0]) as i, b.loop("j", 0, right.shape[1], "vector") as j:
            b.store(c, (i, j), 0.0)
            with b.loop("k", 0, a.shape[1]) as k:
                b.store(c, (i, j), c[i, j] + a[i, k] * right[k, j])

    a, right = np.ones((4, 3), np.float32), np.full((3, 19), 2, np.float32)
    assert np.array_equal(naive(a, right), a @ right)
    found = naive.check("f32[M,K]", "f32[K,N]")
    assert found.ok and len(found.rows) == MAX_CHECKS
    assert naive.check("f32[M,K]", "f32[K,9]", transpose_b=False).ok
    with pytest.raises(UserError, match="it must accept one of the ops"):
        naive.check("f32[M,K]", "f32[9,K]", transpose_b=True)


def test_a_check_tells_right_from_wrong() -> None:
    assert relu_rows().check("f32[N,M]").ok
    beyond = relu_rows(extra=1).check("f32[N,M]")
    assert not beyond.ok
    assert "is out of bounds" in str(beyond)
    assert len(str(beyond).splitlines()) == MAX_LINES + 2
    assert "N=1 M=1" in beyond._repr_html_()
    wrong = relu_rows(factor=2.0).check("f32[3,M]")
    assert "M=2: differs by 1.0e+00 of the largest value" in str(wrong)


def test_a_check_must_find_something_to_do() -> None:
    with pytest.raises(UserError, match="kernel 'rows' of relu: it must accept one of the ops"):
        relu_rows().check("f64[N]")
    with pytest.raises(UserError, match="input spec 'f32' must end with the shape in brackets"):
        relu_rows().check("f32")


@pytest.mark.parametrize("key", ["relu", "layer"])
def test_a_lowering_is_for_one_compilation(key: str) -> None:
    called = graphc.compile(model_of(), threads=1, lowerings={key: relu_rows(name="mine")})
    assert [call["note"] for call in called.stats["calls"]] == ["layer [kernel mine]"]
    plain = graphc.compile(model_of(), threads=1)
    assert "mine" not in str(plain.stats["calls"])
    x = np.arange(-50, 55).reshape(5, 21).astype(np.float32)
    assert np.array_equal(called(x), plain(x))


def test_other_lowerings_are_other_entries_of_the_cache() -> None:
    x = np.ones((5, 21), np.float32)
    results = [
        graphc.compile(model_of(), threads=1, lowerings={"relu": relu_rows(factor=factor)})(x)
        for factor in (2.0, 3.0, 2.0)
    ]
    assert [float(y[0, 0]) for y in results] == [2, 3, 2]


def test_a_lowering_must_fit_the_model() -> None:
    with pytest.raises(
        UserError,
        match="lowerings: 'relu' must be a kernel that `graphc.kernel` made, got function",
    ):
        graphc.compile(model_of(), lowerings={"relu": is_matrix})  # type: ignore[dict-item]
    for name in ("exp", "other", "x"):  # another op, none, and an input
        with pytest.raises(UserError, match=f"lowerings: '{name}' must be relu or the name of one"):
            graphc.compile(model_of(), lowerings={name: relu_rows()})


def test_a_kernel_is_never_called_for_another_op() -> None:
    graph = Graph("m")
    x = graph.make_input(LogicalTensor(F32, (5, 21)), "x")
    graph.make_output(
        graph.make("neg", [graph.make("relu", [x], name="a").outputs[0]], name="b").outputs[0], "y"
    )
    with pytest.raises(UserError, match="lowerings: 'b' must be relu or the name of one"):
        graphc.compile(graph, lowerings={"b": relu_rows()})
    with pytest.raises(UserError, match="lowerings: 'matmul' must be relu or the name of one"):
        measure(
            read_problem("matmul m4n8k8"), Bench(target_for("native"), 1, seconds=0.01), relu_rows()
        )
