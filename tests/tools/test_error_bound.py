"""Bounds of correct results: wide enough for any order of summation, narrow enough to show a real error."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32, S32
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.tools.error_bound import CAREFUL, DISTURBED, expected_outputs
from support.control import counted, made
from support.lowered import build

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("k", [1, 7, 64, 1000, 20000])
def test_sums_in_any_order_are_within_the_bound(k: int) -> None:
    graph = build({"a": (4, k), "b": (k, 3)}, lambda make, x: make("matmul_core", x["a"], x["b"]))
    a, b = (RNG.standard_normal(s, np.float32) for s in ((4, k), (k, 3)))
    (expected,) = expected_outputs(graph, [a, b])
    sequential = np.zeros((4, 3), np.float32)
    for i in range(k):
        sequential += a[:, i : i + 1] * b[i]
    for result in (a @ b, sequential, (a[:, ::-1] @ b[::-1])):
        assert expected.error(result).ok, expected.error(result)
    missing = sequential - a[:, :1] * b[0]  # one term of k lost
    assert not expected.error(missing).ok


def test_cancellation_is_not_an_error_but_a_lost_bit_elsewhere_is() -> None:
    def body(make, x):
        big = make("mul", x["x"], x["x"])
        return make("sub", make("add", big, x["y"]), big)

    graph = build({"x": (50,), "y": (50,)}, body)
    x = (RNG.standard_normal(50) * 100).astype(np.float32)
    y = RNG.standard_normal(50).astype(np.float32)
    (expected,) = expected_outputs(graph, [x, y])
    fused = ((x.astype(float) * x + y) - x.astype(float) * x).astype(np.float32)  # exact
    assert expected.error(fused).ok
    exact = build({"x": (50,)}, lambda make, t: make("exp", t["x"]))
    (values,) = expected_outputs(exact, [y])
    assert values.error(np.exp(y)).ok
    assert not values.error(np.exp(y) * np.float32(1.00001)).ok


def test_integers_are_exact_and_shapes_must_agree() -> None:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(S32, (3,)), "x")
    graph.make_output(graph.make("add", (x, x)).outputs[0])
    (expected,) = expected_outputs(graph, [np.array([1, 2, 3], np.int32)])
    assert expected.error(np.array([2, 4, 6], np.int32)).ok
    error = expected.error(np.array([2, 4, 7], np.int32))
    assert (error.ok, error.absolute, error.position) == (False, 1.0, 2)
    assert not expected.error(np.zeros(2, np.int32)).ok


def test_nan_must_stand_where_the_reference_has_it() -> None:
    graph = build({"x": (3,)}, lambda make, t: make("sqrt", t["x"]))
    (expected,) = expected_outputs(graph, [np.array([-1.0, 4.0, np.inf], np.float32)])
    assert expected.error(np.array([np.nan, 2.0, np.inf], np.float32)).ok
    assert not expected.error(np.array([0.0, 2.0, np.inf], np.float32)).ok
    assert not expected.error(np.array([np.nan, np.nan, np.inf], np.float32)).ok


def test_what_runs_inside_a_loop_may_round_in_each_round() -> None:
    square = LogicalTensor(F32, (40, 40))
    graph = counted([square], lambda g, x, w: [made(g, "matmul_core", x, w)], fixed=[square])
    x, w = (RNG.standard_normal((40, 40)).astype(np.float32) for _ in range(2))
    once, thrice = (expected_outputs(graph, [np.array(n, np.int64), x, w])[0] for n in (1, 3))
    shares = [float(np.median(e.bound / np.abs(e.value))) for e in (once, thrice)]
    assert shares[1] > 1.2 * shares[0]
    result = x @ w @ w @ w
    assert thrice.error(result).ok
    assert not thrice.error(result * np.float32(1.0001)).ok


def test_a_logarithm_of_terms_that_cancel_is_as_rough_as_their_sum() -> None:
    graph = build({"x": (40, 512)}, lambda make, x: make("reduce_log_sum", x["x"], axes=(-1,)))
    x = np.random.default_rng(5).standard_normal((40, 512)).astype(np.float32)
    x[:, 0] += np.float32(0.5) - x.sum(1)  # rows of about 0.5
    (expected,) = expected_outputs(graph, [x])
    total = np.add.accumulate(x, axis=1, dtype=np.float32)[:, -1]
    assert expected.error(np.log(total)).ok
    assert not expected.error(np.log(total * np.float32(1.001))).ok


def test_near_zero_numbers_are_no_denser() -> None:
    graph = build({"x": (3,)}, lambda make, x: make("exp", x["x"]))
    (expected,) = expected_outputs(graph, [np.full(3, -103, np.float32)])
    assert 0 < expected.value[0] < 1e-44
    assert expected.error(np.nextafter(expected.value, np.float32(1))).ok


def test_activations_are_right_to_units_of_the_result_in_their_tails() -> None:
    graph = build({"x": (1,)}, lambda make, x: make("gelu", x["x"]))
    (expected,) = expected_outputs(graph, [np.full(1, -5, np.float32)])
    assert expected.error(expected.value * np.float32(1 + 4e-7)).ok
    assert not expected.error(expected.value * np.float32(1 + 4e-6)).ok


def test_what_a_norm_rounds_inside_counts() -> None:
    """Rows of two elements far from zero: the result is 1 and -1 whatever they are, but the mean is rounded."""
    graph = build({"x": (1, 2)}, lambda make, x: make("layer_norm", x["x"]))
    x = np.array([[-35.689102, -38.17748]], np.float32)
    (expected,) = expected_outputs(graph, [x])
    mean = np.float32(x.mean(dtype=np.float32)) + np.spacing(np.float32(36)) / 2
    off = (x - mean).astype(np.float32)
    result = off / np.sqrt(np.square(off).mean(dtype=np.float32) + np.float32(1e-5))
    assert expected.error(result.astype(np.float32)).ok
    assert not expected.error((result * np.float32(1.001)).astype(np.float32)).ok


def test_more_evaluations_see_two_errors_that_cancel_by_chance() -> None:
    def body(make, x):
        return make("sub", make("mul", x["x"], x["y"]), make("mul", x["x"], x["z"]))

    def bound(rows: int, walks: int) -> float:
        graph = build({"x": (rows,), "y": (rows,), "z": (rows,)}, body)
        arrays = [np.full(rows, value, np.float32) for value in (0, 1.1, 1.2)]
        arrays[0][-1] = 1000
        return float(expected_outputs(graph, arrays, walks)[0].bound[-1])

    few, many = ([bound(rows, walks) for rows in range(1, 20)] for walks in (DISTURBED, CAREFUL))
    assert min(few) < 0.3 * max(few)
    assert min(many) > 0.9 * max(many)
