"""Rows of f32 in fixed point: within the stated bound, exact on integers, and what f32 gives of all others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.base.options import CompileOptions
from graphc.base.packed_words import packed_words, unpacked_words
from graphc.codegen.host import host_supports, target_for
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.schedule import parse_schedule
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.schedule.context import LowerContext
from graphc.graph_ir.schedule.nbits_instructions import dots_of
from graphc.graph_ir.templates.fixed_point_rows import MAX_LOST, SMALL
from graphc.targets.isa import Target
from support import packed_matmul
from support.lowered import check_interpreted

N, K, GROUP = 33, 128, 32
VNNI = Target("avx512", features="+avx512vnni")
USES = {isa: dots_of(4, target_for(isa)) for isa in ("native", "avx2") if host_supports("avx2")}
"""Instructions that multiply digits by weights of 4 bits on this machine."""

CASES = [(isa, bits) for isa in USES for bits in (4, 8) if (USES[isa], bits) != ("dot2", 8)]
"""Weights of 8 bits are widened where pairs are multiplied, and meet no digits."""


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


def packed(m: int, bits: int, one_zero: bool) -> tuple[Graph, Array]:
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


def in_digits(graph: Graph, isa: str, **options: Any) -> Any:
    requested = {"y": f"use={USES[isa]}"}
    return compile_model(graph, target=isa, cache=False, schedules=requested, **options)


def bound(x: Array, w: Array) -> Array:
    """Return an error bound: sums of K terms in f32, half as much again, and small numbers beside large ones."""
    groups, magnitudes = (K // GROUP, GROUP), np.abs(x.astype(np.float64))
    rounding = 2.0**-24 * (K + 32) * (magnitudes @ np.abs(w).T)
    apart = magnitudes.reshape(-1, *groups)
    small = apart < SMALL * apart.max(2, keepdims=True)
    beside = MAX_LOST * np.where(small, apart, 0).sum(2)
    lost = np.where(small.sum(2) <= GROUP // 2, 2.0**-19 * apart.sum(2), beside)
    return np.asarray(rounding + lost @ np.abs(w).reshape(-1, *groups).max(2).T)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("isa", "bits"), CASES)
@pytest.mark.parametrize("one_zero", [True, False])
def test_within_the_bound_of_the_docs(bits: int, one_zero: bool, isa: str) -> None:
    """An outlier among numbers near 1 meets a weight that is 0 at 9: only those near 1 count then."""
    graph, w = packed(3, bits, one_zero)
    model = in_digits(graph, isa)
    for number in (0, 3, 30, 1e2, 1e3, 1e4, 1e10, 1e30, 1e35, 1e-30, 1e-42):
        for at in (9, 10):
            x = outlier(number, at)
            error = np.abs(model(x) - x.astype(np.float64) @ w.T)
            assert (error <= bound(x, w)).all(), (number, at)


@pytest.mark.parametrize("isa", USES)
@pytest.mark.parametrize("one_zero", [True, False])
def test_infinities_and_nan_reach_what_they_reach_in_f32(one_zero: bool, isa: str) -> None:
    graph, w = packed(3, 4, one_zero)
    model = in_digits(graph, isa)
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


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", USES)
def test_whole_numbers_multiples_and_extremes_are_exact(isa: str) -> None:
    """Numbers of 24 bits relative to the largest of a group, whose sums are exact too; groups of zeros."""
    graph, w = packed(2, 4, True)
    model = in_digits(graph, isa, threads=2)
    for size in (2.0**-60, 1.0, 2.0**60):
        x = np.zeros((2, K), np.float32)
        x[0, [0, 32, 65]] = np.array([1, 2**21 + 1, -(2**22) + 1]) * size
        np.testing.assert_allclose(model(x), x @ w.T, rtol=2e-7, atol=0)
    np.testing.assert_array_equal(model(np.zeros((2, K), np.float32)), np.zeros((2, N)))


@pytest.mark.exhaustive
@pytest.mark.parametrize(("use", "rows", "bits", "one_zero", "group"), [
    ("dot4", 1, 4, True, 16), ("dot4", 3, 8, False, 16), ("dot4", 4, 4, False, 32), ("dot4", 3, 8, True, 64),
    ("dot4", 3, 8, True, 512), ("dot2", 1, 4, True, 64), ("dot2", 2, 4, False, 24),
])  # fmt: skip
def test_interpreted(use: str, rows: int, bits: int, one_zero: bool, group: int) -> None:
    """Sums of small integers are exact, on any machine; a group of 512 is too long to join digits as integers."""
    random, graph, n, k = (
        np.random.default_rng(0),
        Graph("packed"),
        20,
        2 * group if group < 512 else group,
    )
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
    target = VNNI if use == "dot4" else Target("avx2")
    requested = {"y": parse_schedule(f"use={use}")}
    lowered = check_interpreted(graph, LowerContext(target, requested=requested))
    assert f"use={use}" in lowered.calls[0].note


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", USES)
def test_the_switch_turns_it_off_and_changes_rounding_only(isa: str) -> None:
    graph, w = packed(3, 4, True)
    x = outlier(2.0, 5)
    results = []
    for disabled in ([], ["fixed-point"]):
        model = compile_model(graph, target=isa, cache=False, disabled=disabled, threads=2)
        results.append(model(x))
        assert (np.abs(results[-1] - x.astype(np.float64) @ w.T) <= 8 * bound(x, w)).all()
    single = compile_model(graph, target=isa, cache=False)
    np.testing.assert_array_equal(single(x), results[0])


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("target", "rows", "bits", "use"),
    [(VNNI, 1, 4, "dot4"), (VNNI, 40, 4, "dot4"), (VNNI, 1, 8, "fma"), (VNNI, 3, 8, "dot4"),
     (Target("avx2"), 3, 4, "dot2"), (Target("avx2"), 40, 4, "fma"), (Target("generic"), 1, 4, "fma")],
)  # fmt: skip
@pytest.mark.parametrize("threads", [1, 2])
def test_what_multiplies(target: Target, rows: int, bits: int, use: str, threads: int) -> None:
    graph, _ = packed_matmul.packed_matmul(rows, 1024, 512, bits, 32, False)
    for off, word in (((), use), (("fixed-point",), "fma")):
        work = graph.copy()
        pipeline.run(work, LowerContext(target, CompileOptions(threads, frozenset(off))))
        (schedule,) = [op.schedule for op in work.ops if op.schedule]
        assert schedule.word("use") == word


def test_few_columns_do_not_pay_for_digits() -> None:
    graph, _ = packed_matmul.packed_matmul(3, 64, 1024, 4, 32, False)
    pipeline.run(graph, LowerContext(VNNI))
    (schedule,) = [op.schedule for op in graph.ops if op.schedule]
    assert schedule.word("use") == "fma"
