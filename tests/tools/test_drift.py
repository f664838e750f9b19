"""The bounds of values that are rounded on the way: either neighbor on a boundary, nothing else away from it."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F16, F32, S8
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.tools.drift import disturb
from graphc.tools.error_bound import Expected, expected_outputs


def rounded(op_name: str, x: np.ndarray, back: bool) -> Expected:
    """Return a rounding of exp(log(x)), and maybe of its numbers in steps of 0.5."""
    graph = Graph("g")
    value = graph.make_input(LogicalTensor(F32, x.shape), "x")
    for name in ("log", "exp"):
        value = graph.make(name, (value,)).outputs[0]
    half = graph.make_constant(np.array(0.5, np.float32), "half")
    if op_name == "quantize":
        value = graph.make("quantize", (value, half), {"dtype": S8}).outputs[0]
        value = graph.make("dequantize", (value, half)).outputs[0] if back else value
    else:
        value = graph.make(op_name, (value,)).outputs[0]
        value = graph.make("mul", (value, half)).outputs[0] if back else value
    graph.make_output(value)
    return expected_outputs(graph, [x])[0]


@pytest.mark.parametrize("op_name", ["quantize", "round", "floor", "ceil", "trunc"])
@pytest.mark.parametrize("back", [False, True])
def test_both_neighbors_of_a_boundary_are_right(op_name: str, back: bool) -> None:
    edge = {"quantize": 1.25, "round": 2.5}.get(op_name, 3.0)
    x = np.array([edge, edge + 0.2, edge * (1 + 1e-7), edge - 0.2], np.float32)
    expected = rounded(op_name, x, back)
    step = 0.5 if back else 1
    below, above = expected.value.copy(), expected.value.copy()
    sure = expected.value[[3, 1]]  # away from the boundary, on either side
    below[[0, 2]], above[[0, 2]] = sure
    assert expected.error(below).ok and expected.error(above).ok
    for number in (1, 3):
        wrong = expected.value.copy()
        wrong[number] += expected.value.dtype.type(step)
        assert not expected.error(wrong).ok
    wrong = expected.value.copy()
    wrong[0] += expected.value.dtype.type(2 * step)
    assert not expected.error(wrong).ok


@pytest.mark.parametrize(("op_name", "quarter"), [("sin", 0.5), ("cos", 0.0)])
def test_waves_reach_their_extremes_between_the_ends_of_a_bound(
    op_name: str, quarter: float
) -> None:
    """A rough argument that is huge may have any sine; one next to a maximum reaches that, and no more than it may."""
    graph = Graph("g")
    value = graph.make_input(LogicalTensor(F32, (1,)), "x")
    for name in ("exp", op_name):
        value = graph.make(name, (value,)).outputs[0]
    graph.make_output(value)
    top = np.log(np.pi * (quarter + 2 * 300), dtype=np.float32)
    huge, high, plain = (
        expected_outputs(graph, [np.array([x], np.float32)])[0] for x in (25.0, top, 0.5)
    )
    for end in (-1, 1):
        assert huge.error(np.array([end], np.float32)).ok
    assert high.error(np.array([1], np.float32)).ok and high.bound[0] < 0.1
    assert plain.bound[0] < 1e-4


def test_casts_of_exact_numbers_to_16_bits_are_exact() -> None:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, (3,)), "x")
    graph.make_output(graph.make("cast", (x,), {"dtype": F16}).outputs[0])
    given = np.array([1.0004, 2, 3], np.float32)
    (expected,) = expected_outputs(graph, [given])
    assert expected.error(given.astype(np.float16)).ok
    assert not expected.error(np.nextafter(given.astype(np.float16), np.float16(9))).ok


@pytest.mark.parametrize("noise", [1e-7, 1e-5, 1e-3, 0.1])
def test_noise_moves_16_bit_floats_by_as_much_on_average(noise: float) -> None:
    x = np.full(4000, 1.5, np.float16)
    moved = disturb(x, np.full(x.shape, noise), np.random.default_rng(0)).astype(np.float64)
    size = np.abs(moved - 1.5)
    assert np.isclose(np.mean(size), noise, rtol=0.3, atol=2e-6)
    assert noise < 1e-6 or abs(np.mean(moved) - 1.5) < 0.1 * noise + 1e-6


def test_what_is_next_to_zero_keeps_its_sign() -> None:
    """The root of a disturbed square of 0 was NaN, and a bound without drift remained of all that followed."""
    rng = np.random.default_rng(0)
    for value, sign in ((0.0, 1), (1e-45, 1), (-1e-45, -1)):
        array = np.full(100, value, np.float32)
        moved = disturb(array, np.full(100, 6e-45), rng)
        assert (sign * moved > 0).all()
    far = disturb(np.full(100, 1e-30, np.float32), np.full(100, 1e-29), rng)
    assert (far < 0).any() and (far > 0).any()
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, (2, 3, 10)), "x")
    size = graph.make("sqrt", (graph.make("square", (x,)).outputs[0],)).outputs[0]
    one = graph.make_constant(np.ones(3, np.float32), "one")
    graph.make_output(graph.make("instance_norm", (size, one, one)).outputs[0])
    values = np.arange(60, dtype=np.float32).reshape(2, 3, 10) % 7
    (expected,) = expected_outputs(graph, [values])
    assert (expected.bound > 4e-7 + np.abs(expected.value) * 4 * 2.0**-23).all()
