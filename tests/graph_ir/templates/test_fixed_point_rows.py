"""Rows of f32 in fixed point: within the stated bound, exact on whole numbers, and what f32 gives of all others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.base.options import CompileOptions
from graphc.base.target import Target
from graphc.codegen.host import target_for
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.schedule import parse_schedule
from graphc.graph_ir.ops.matmul_nbits import packed_words, unpacked_words
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.schedule.context import LowerContext
from graphc.graph_ir.templates.fixed_point_rows import MOST_LOST, SMALL
from support.lowered import check_interpreted

N, K, GROUP = 33, 128, 32
VNNI = Target("avx512", features="+avx512vnni")
IS_FAST = target_for("native").has("avx512vnni") or target_for("native").has("avxvnni")
native_only = pytest.mark.skipif(not IS_FAST, reason="no dot products of bytes")


def weights(bits: int, one_zero: bool) -> list[Array]:
    """Words, scales, zero points; every ninth weight is 0."""
    random = np.random.default_rng(bits)
    zero = np.full((1, 1) if one_zero else (N, K // GROUP), 1 << bits - 1)
    if not one_zero:
        zero = random.integers(0, 1 << bits, zero.shape)
    spread = np.repeat(np.broadcast_to(zero, (N, K // GROUP)), GROUP, 1)
    numbers = random.integers(0, 1 << bits, (N, K))
    numbers[:, ::9] = spread[:, ::9]
    scale = random.random((N, K // GROUP)).astype(np.float32)
    return [packed_words(numbers, bits), scale, zero.astype(np.float32)]


def product(m: int, bits: int, one_zero: bool) -> tuple[Graph, Array]:
    """The graph, and the weights as they are meant, f64 [n, k]."""
    graph = Graph("packed")
    words, scale, zero = weights(bits, one_zero)
    x = graph.make_input(LogicalTensor(F32, (m, K)), "x")
    operands = [x, *map(graph.make_constant, (words, scale, zero))]
    y = graph.make("matmul_nbits", operands, {"bits": bits, "group": GROUP}, "y").outputs[0]
    graph.make_output(y)
    wide = [np.repeat(np.broadcast_to(v, scale.shape), GROUP, 1) for v in (zero, scale)]
    return graph, (unpacked_words(words, bits) - wide[0].astype(np.float64)) * wide[1]


def outlier(number: float, at: int) -> Array:
    """Three rows near 1; the second has one other number."""
    x = np.random.default_rng(1).standard_normal((3, K)).astype(np.float32)
    x[1, at] = number
    return x


def in_digits(graph: Graph, **options: Any) -> Any:
    return compile_model(graph, cache=False, schedules={"y": "use=dot4"}, **options)


def bound(x: Array, w: Array) -> Array:
    """What sums of K terms in f32 may lose, half as much again, and what small numbers may beside large ones."""
    groups, magnitudes = (K // GROUP, GROUP), np.abs(x.astype(np.float64))
    rounding = 2.0**-24 * (K + 32) * (magnitudes @ np.abs(w).T)
    apart = magnitudes.reshape(-1, *groups)
    small = np.where(apart < SMALL * apart.max(2, keepdims=True), apart, 0).sum(2)
    return np.asarray(rounding + MOST_LOST * (small @ np.abs(w).reshape(-1, *groups).max(2).T))


@native_only
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("one_zero", [True, False])
def test_within_the_bound_of_the_docs(bits: int, one_zero: bool) -> None:
    """An outlier among numbers near 1 meets a weight that is 0 at 9: only those near 1 count then."""
    graph, w = product(3, bits, one_zero)
    model = in_digits(graph)
    for number in (0, 3, 30, 1e2, 1e3, 1e4, 1e10, 1e30, 1e35, 1e-30, 1e-42):
        for at in (9, 10):
            x = outlier(number, at)
            error = np.abs(model(x) - x.astype(np.float64) @ w.T)
            assert (error <= bound(x, w)).all(), (number, at)


@native_only
@pytest.mark.parametrize("one_zero", [True, False])
def test_infinities_and_nan_reach_what_they_reach_in_f32(one_zero: bool) -> None:
    graph, w = product(3, 4, one_zero)
    model = in_digits(graph)
    for number, other in (
        (np.inf, 1),
        (-np.inf, np.inf),
        (np.nan, 1),
        (3.4e38, 1),
        (np.inf, np.inf),
    ):
        for at in (9, 10):
            x = outlier(number, at)
            x[1, 70] = other
            with np.errstate(all="ignore"):
                wanted = (x.astype(np.float64)[:, None, :] * w).sum(2).astype(np.float32)
            found = model(x)
            finite = np.isfinite(wanted)
            np.testing.assert_array_equal(found[~finite], wanted[~finite])
            with np.errstate(all="ignore"):
                assert (np.abs(found - wanted) <= bound(x, w))[finite].all()


@native_only
def test_whole_numbers_multiples_and_extremes_are_exact() -> None:
    """Of 24 bits relative to the largest of a group, where the sums are exact too; groups of zeros."""
    graph, w = product(2, 4, True)
    model = in_digits(graph, threads=2)
    for size in (2.0**-60, 1.0, 2.0**60):
        x = np.zeros((2, K), np.float32)
        x[0, [0, 32, 65]] = np.array([1, 2**21 + 1, -(2**22) + 1]) * size
        np.testing.assert_allclose(model(x), x @ w.T, rtol=2e-7, atol=0)
    np.testing.assert_array_equal(model(np.zeros((2, K), np.float32)), np.zeros((2, N)))


@pytest.mark.parametrize(("rows", "bits", "one_zero", "group"), [
    (1, 4, True, 16), (1, 8, False, 16), (4, 4, False, 32), (2, 8, True, 64), (1, 8, True, 512),
])  # fmt: skip
def test_interpreted(rows: int, bits: int, one_zero: bool, group: int) -> None:
    """Sums of small whole numbers are exact, on any machine; the last group is too long to join digits as integers."""
    random, graph, n, k = np.random.default_rng(0), Graph("packed"), 20, max(group, 64)
    zero = random.integers(0, 1 << bits, (1, 1) if one_zero else (n, k // group))
    numbers = random.integers(0, 1 << bits, (n, k))
    operands = [
        graph.make_input(LogicalTensor(F32, (rows, k)), "x"),
        graph.make_constant(packed_words(numbers, bits), "w"),
        graph.make_constant(np.full((n, k // group), 0.5, np.float32), "scale"),
        graph.make_constant(zero.astype(np.float32), "zero"),
    ]
    graph.make_output(
        graph.make("matmul_nbits", operands, {"bits": bits, "group": group}, "y").outputs[0]
    )
    lowered = check_interpreted(graph, LowerContext(VNNI, asked={"y": parse_schedule("use=dot4")}))
    assert "use=dot4" in lowered.calls[0].note


@native_only
def test_the_switch_turns_it_off_and_changes_rounding_only() -> None:
    graph, w = product(3, 4, True)
    x = outlier(2.0, 5)
    results = []
    for disabled in ([], ["fixed-point"]):
        model = compile_model(graph, cache=False, disabled=disabled, threads=2)
        results.append(model(x))
        assert (np.abs(results[-1] - x.astype(np.float64) @ w.T) <= 8 * bound(x, w)).all()
    single = compile_model(graph, cache=False)
    np.testing.assert_array_equal(single(x), results[0])
    for off, word in (((), "dot4"), (("fixed-point",), "fma")):
        work = graph.copy()
        pipeline.run(work, LowerContext(VNNI, CompileOptions(disabled=frozenset(off))))
        (schedule,) = [op.schedule for op in work.ops if op.schedule]
        assert schedule.word("use") == word
