"""Noise of sums: correct results stay below it in any usual order, and use a good part of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from graphc.base.dtypes import F16, F32, F64, S64, DType
from graphc.base.packed_words import packed_words
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.tools.error_bound import expected_outputs
from graphc.tools.sum_rounding import ANYTHING, DEVIATIONS, sum_noise, unit_roundoff
from support.cached_attention import arrays_of, model
from support.lowered import build

RNG = np.random.default_rng(9)
Feed = Callable[[tuple[int, ...]], np.ndarray]
FEEDS: dict[str, Feed] = {
    "normal": lambda shape: RNG.standard_normal(shape, np.float32),
    "positive": lambda shape: RNG.random(shape, np.float32),
    "offset": lambda shape: RNG.standard_normal(shape, np.float32) + np.float32(100),
    "sorted": lambda shape: np.sort(RNG.standard_normal(shape, np.float32)),
    "alternating": lambda shape: (
        RNG.random(shape, np.float32)
        * np.where(np.arange(shape[-1]) % 2, np.float32(1), np.float32(-1))
    ),
}


def sequential(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Multiply two matrices, accumulated term by term in f32, as kernels do."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for i in range(a.shape[1]):
        total += a[:, i : i + 1] * b[i]
    return total


@pytest.mark.parametrize("feed", FEEDS.values(), ids=FEEDS)
@pytest.mark.parametrize("k", [2, 40, 600])
def test_matmuls_are_within_the_bound_and_an_error_of_1e_5_is_not(k: int, feed: Feed) -> None:
    graph = build({"a": (30, k), "b": (k, 30)}, lambda make, x: make("matmul_core", x["a"], x["b"]))
    a, b = feed((30, k)), feed((30, k)).T.copy()
    (expected,) = expected_outputs(graph, [a, b])
    right = sequential(a, b)
    assert expected.error(right).ok
    assert not expected.error(right * np.float32(1.00001)).ok


def test_a_good_part_of_the_bound_is_used() -> None:
    graph = build(
        {"a": (64, 512), "b": (512, 64)}, lambda make, x: make("matmul_core", x["a"], x["b"])
    )
    rng = np.random.default_rng(9)  # its own: how much is used depends on the values
    a, b = (rng.standard_normal(shape, np.float32) for shape in ((64, 512), (512, 64)))
    (expected,) = expected_outputs(graph, [a, b])
    assert 0.15 < expected.error(sequential(a, b)).share < 0.8


@pytest.mark.parametrize("lanes", [1, 8, 16])
@pytest.mark.parametrize("feed", FEEDS.values(), ids=FEEDS)
@pytest.mark.parametrize("name", ["reduce_sum", "reduce_mean", "reduce_sum_square"])
def test_reductions_in_lanes_are_within_the_bound(name: str, feed: Feed, lanes: int) -> None:
    graph = build({"x": (50, 1024)}, lambda make, x: make(name, x["x"], axes=(1,)))
    x = feed((50, 1024))
    (expected,) = expected_outputs(graph, [x])
    terms = np.square(x) if name == "reduce_sum_square" else x
    running = np.zeros((50, lanes), np.float32)
    for i in range(0, 1024, lanes):
        running += terms[:, i : i + lanes]
    total = np.zeros(50, np.float32)
    for lane in range(lanes):
        total += running[:, lane]
    result = total / np.float32(1024) if name == "reduce_mean" else total
    assert expected.error(result).ok, expected.error(result)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_many_factors_in_any_order_are_within_the_bound(lanes: int, dtype: DType) -> None:
    """Each factor rounds the result once, that of the reference in f64 too."""
    graph = Graph("p")
    x = graph.make_input(LogicalTensor(dtype, (2000, 196)), "x")
    graph.make_output(graph.make("reduce_prod", [x], {"axes": (1,)}).outputs[0])
    values = RNG.uniform(0.5, 2, (2000, 196)).astype(dtype.numpy)
    (expected,) = expected_outputs(graph, [values])
    parts = np.ones((2000, lanes), dtype.numpy)
    for begin in range(0, 196, lanes):
        parts[:, : min(lanes, 196 - begin)] *= values[:, begin : begin + lanes]
    found = parts[:, 0]
    for lane in range(1, lanes):
        found = found * parts[:, lane]
    assert expected.error(found).ok
    assert not expected.error(found * dtype.numpy.type(1 + 1000 * unit_roundoff(dtype))).ok


def test_an_op_without_sums_has_no_noise() -> None:
    graph = build({"x": (4,)}, lambda make, x: make("exp", x["x"]))
    op, x = graph.ops[1], np.ones(4, np.float32)
    (noise,) = sum_noise(op, [x], op.reference([x]))
    assert not noise.any()


@pytest.mark.parametrize("feed", FEEDS.values(), ids=FEEDS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["cum_sum", "cum_prod"])
def test_running_sums_round_as_the_sums_before_them(name: str, reverse: bool, feed: Feed) -> None:
    attrs = {"axis": 1, "reverse": reverse}
    graph = build({"x": (30, 9)}, lambda make, x: make(name, x["x"], **attrs))
    x = feed((30, 9))
    (noise,) = sum_noise(graph.ops[1], [x], graph.ops[1].reference([x]))
    running = np.cumsum if name == "cum_sum" else np.cumprod
    ordered = np.flip(x, 1) if reverse else x
    found, exact = running(ordered, 1), running(ordered.astype(np.float64), 1)
    share = np.abs(found - exact) / (np.flip(noise, 1) if reverse else noise)
    assert 0.03 < share.max() < 1


@pytest.mark.parametrize("reduction", ["add", "mul"])
def test_scattered_updates_round_one_after_the_other(reduction: str) -> None:
    graph = Graph("scattered")
    details = (LogicalTensor(S64, (60,)), LogicalTensor(F32, (3,)), LogicalTensor(F32, (60,)))
    made = [graph.make_input(one, name) for one, name in zip(details, "ixu", strict=True)]
    op = graph.make("scatter", made, {"reduction": reduction})
    updates = RNG.uniform(-2, 2, 60).astype(np.float32)
    arrays = [np.arange(60) % 3, np.ones(3, np.float32), updates]
    (noise,) = sum_noise(op, arrays, op.reference(arrays))
    fold = np.add if reduction == "add" else np.multiply
    exact = fold.reduce(updates.astype(np.float64).reshape(20, 3), 0, initial=1.0)
    share = np.abs(op.reference(arrays)[0] - exact) / noise
    assert 0.005 < share.max() < 1


def test_few_terms_round_at_worst_each() -> None:
    graph = build({"a": (1, 2), "b": (2, 1)}, lambda make, x: make("matmul_core", x["a"], x["b"]))
    op = graph.ops[2]
    inputs = [np.ones((1, 2), np.float32), np.ones((2, 1), np.float32)]
    (noise,) = sum_noise(op, inputs, op.reference(inputs))
    unit = unit_roundoff(graph.ops[0].outputs[0].details.dtype)
    assert unit == 2.0**-24
    assert 2 * unit < noise.item() < DEVIATIONS * 4 * unit


@pytest.mark.parametrize("name", ["reduce_l2", "lp_pool"])
@pytest.mark.parametrize("size", [1e-30, 1e-22, 1e-3, 1e3])
def test_roots_of_squares_that_underflow_are_within_the_bound(name: str, size: float) -> None:
    """Every library computes them in f32; if nothing underflows, an error of 1e-5 is seen."""
    attrs = {"axes": (1,)} if name == "reduce_l2" else {"kernel": (20,)}
    graph = build({"x": (9, 20)}, lambda make, x: make(name, x["x"], **attrs))
    x = RNG.standard_normal((9, 20), np.float32) * np.float32(size)
    (expected,) = expected_outputs(graph, [x])
    right = np.sqrt(np.sum(np.square(x), axis=1, dtype=np.float32)).reshape(expected.value.shape)
    assert expected.error(right).ok, expected.error(right)
    if size > 1e-20:
        assert not expected.error(right * np.float32(1.00001)).ok


def test_the_logarithm_of_a_sum_of_open_sign_may_be_anything() -> None:
    """Terms cancel except for rounding: another order of them gives the logarithm of a negative number. The bounds of
    the other rows stay what they are, whether the reference has a number there or not."""
    graph = build({"x": (2, 40)}, lambda make, x: make("reduce_log_sum", x["x"], axes=(1,)), F64)
    seen = set()
    for _ in range(20):
        x = RNG.standard_normal((2, 40))
        x[0, -1] -= x[0].sum()
        x[1] = np.abs(x[1])
        (expected,) = expected_outputs(graph, [x])
        seen.add(bool(np.isfinite(expected.value[0])))
        assert expected.bound[0] >= ANYTHING
        assert expected.bound[1] < 1e-13
    assert seen == {False, True}


def test_results_that_underflow_move_what_follows() -> None:
    """Kernels keep squares of f16 in f32, where the reference rounds them to 0."""
    graph = build({"x": (4,)}, lambda make, x: make("sqrt", make("square", x["x"])), F16)
    x = np.full(4, 1e-4, np.float16)
    (expected,) = expected_outputs(graph, [x])
    assert not expected.value.any()
    assert expected.error(x).ok
    assert not expected.error(x * np.float16(20)).ok


def test_rows_in_fixed_point_lose_what_is_small_beside_the_largest_of_a_group() -> None:
    """A step is 2^-22 of the largest; an error of 1e-4 is seen."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((4, 128)).astype(np.float32)
    x[1, 5] = 100
    operands = {
        "words": packed_words(rng.integers(0, 16, (50, 128)), 4),
        "scale": rng.random((50, 4)).astype(np.float32),
        "zero": np.full((1, 1), 8, np.float32),
    }
    graph = Graph("packed")
    inputs = [graph.make_input(LogicalTensor(F32, x.shape), "x")]
    inputs += [graph.make_constant(value, name) for name, value in operands.items()]
    y = graph.make("matmul_nbits", inputs, {"bits": 4, "group": 32}).outputs[0]
    graph.make_output(y)
    apart = x.reshape(4, 4, 32)
    step = np.exp2(np.floor(np.log2(np.abs(apart).max(2, keepdims=True))) - 22)
    (expected,) = expected_outputs(graph, [x])
    right = graph.evaluate([(np.rint(apart / step) * step).reshape(x.shape).astype(np.float32)])[0]
    assert expected.error(right).ok
    assert not expected.error(right * np.float32(1.0001)).ok


@pytest.mark.parametrize("scale", [0.125, 1.0])
@pytest.mark.parametrize(("tokens", "total"), [(1, 5), (16, 80), (3, 700)])
def test_attention_to_a_cache_is_within_the_bound_and_an_error_of_1e_4_is_not(
    tokens: int, total: int, scale: float
) -> None:
    """Scores round before they are exponents: by more than a unit in the last place of the results."""
    graph = model(2, (4, 2), (64, 16), F32, scale=scale)
    q, keys, values, lengths = arrays_of(graph, tokens, total)
    (expected,) = expected_outputs(graph, [q, keys, values, lengths])
    right = np.empty_like(expected.value)
    for b, t, h in np.ndindex(2, tokens, 4):
        end = lengths[b] - tokens + t + 1
        scores = sequential(keys[b, h // 2, :end], q[b, t, h][:, None])[:, 0] * np.float32(scale)
        powers = np.exp(scores - scores.max())[None]
        sums = sequential(powers, np.c_[values[b, h // 2, :end], np.ones(end, np.float32)])[0]
        right[b, t, h] = sums[:-1] / sums[-1]
    assert right.dtype == np.float32
    assert expected.error(right).ok
    assert not expected.error(right * np.float32(1.0001)).ok
