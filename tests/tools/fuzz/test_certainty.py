"""The certainty of a value: exact, within a bound, or unknown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from graphc.graph_ir.ir.graph import Array
from graphc.graph_ir.ir.registry import names
from graphc.tools.fuzz.certainty import (
    CHOOSING,
    DECIDING,
    MOVING,
    SUMMING,
    Certainty,
    Freedom,
    certainties,
)
from support.control import constant, counted, made
from support.graphs import graph_of

WHOLE = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
HALVES = WHOLE + np.float32(0.1)


def known(
    body: str, arrays: Sequence[Array], freedom: Freedom = Freedom.WINOGRAD
) -> list[Certainty]:
    return certainties(graph_of(body), arrays, freedom)


def test_sets_are_apart_and_name_ops() -> None:
    assert not (MOVING & DECIDING or MOVING & SUMMING or DECIDING & SUMMING)
    assert set(names()) >= MOVING | DECIDING | SUMMING | CHOOSING


@pytest.mark.parametrize(
    ("array", "expected"), [(WHOLE, Certainty.EXACT), (HALVES, Certainty.ROUGH)]
)
def test_sums_of_small_whole_numbers_are_exact(array: Array, expected: Certainty) -> None:
    body = """
        %x = Node[type=input] () -> f32[2,3]
        %y = Node[type=matmul_core] (inputs = (a=%x, b=%x), attrs = {transpose_b: true}) -> f32[2,2]
        return (output=%y)
    """
    assert known(body, [array]) == [expected]
    assert known(body, [array * np.float32(2**12)])[0] == Certainty.ROUGH


def test_deciding_by_rough_values_is_unknown_and_by_exact_ones_exact() -> None:
    body = """
        %x = Node[type=input] () -> f32[2,3]
        %e = Node[type=exp] (inputs = (x=%x)) -> f32[2,3]
        %a = Node[type=floor] (inputs = (x=%x)) -> f32[2,3]
        %b = Node[type=floor] (inputs = (x=%e)) -> f32[2,3]
        %c = Node[type=relu] (inputs = (x=%e)) -> f32[2,3]
        return (output=%a, output_1=%b, output_2=%c)
    """
    assert known(body, [HALVES]) == [Certainty.EXACT, Certainty.UNKNOWN, Certainty.ROUGH]


def test_tangents_of_rough_values_next_to_a_pole_are_unknown() -> None:
    body = """
        %x = Node[type=input] () -> f32[2,3]
        %once = Node[type=tan] (inputs = (x=%x)) -> f32[2,3]
        %twice = Node[type=tan] (inputs = (x=%once)) -> f32[2,3]
        return (output=%once, output_1=%twice)
    """
    assert known(body, [np.full((2, 3), 0.5, np.float32)]) == [Certainty.ROUGH, Certainty.ROUGH]
    steep = np.full((2, 3), np.arctan(1.5), np.float32)  # tan(1.5) is 14.1
    assert known(body, [steep]) == [Certainty.ROUGH, Certainty.UNKNOWN]


def test_the_largest_of_nan_and_numbers_is_unknown_to_other_engines() -> None:
    body = """
        %x = Node[type=input] () -> f32[2,3]
        %a = Node[type=reduce_max] (inputs = (x=%x), attrs = {axes: {1}}) -> f32[2]
        %b = Node[type=neg] (inputs = (x=%x)) -> f32[2,3]
        return (output=%a, output_1=%b)
    """
    exact = [Certainty.EXACT, Certainty.EXACT]
    assert known(body, [WHOLE], Freedom.NAN) == exact
    with_nan = WHOLE.copy()
    with_nan[1, 1] = np.nan
    assert known(body, [with_nan]) == exact
    assert known(body, [with_nan], Freedom.NAN) == [Certainty.UNKNOWN, Certainty.EXACT]


def test_a_mean_of_no_numbers_is_undefined() -> None:
    body = """
        %x = Node[type=input] () -> f32[2,0]
        %y = Node[type=reduce_mean] (inputs = (x=%x), attrs = {axes: {1}}) -> f32[2]
        return (output=%y)
    """
    none = np.zeros((2, 0), np.float32)
    assert known(body, [none]) == [Certainty.ROUGH]
    assert known(body, [none], Freedom.NAN) == [Certainty.UNKNOWN]


def test_convolutions_that_may_be_winograds_are_not_exact() -> None:
    body = """
        %x = Node[type=input] () -> f32[1,1,5,5]
        %w = Node[type=input] () -> f32[1,1,3,3]
        %y = Node[type=convolution] (inputs = (x=%x, w=%w)) -> f32[1,1,3,3]
        return (output=%y)
    """
    arrays = [np.ones((1, 1, 5, 5), np.float32), np.ones((1, 1, 3, 3), np.float32)]
    assert known(body, arrays) == [Certainty.ROUGH]
    assert known(body, arrays, Freedom.NONE) == [Certainty.EXACT]
    arrays[0][0, 0, 0, 0] = np.inf  # which no form spreads
    assert known(body, arrays) == [Certainty.ROUGH]


def test_loops_are_walked_round_by_round() -> None:
    graph = counted(
        [graph_of("%x = Node[type=input] () -> f32[3]\n return (output=%x)").inputs[0].outputs[0].details],
        lambda g, x: [made(g, "exp", x)],
    )  # fmt: skip
    x = np.zeros(3, np.float32)
    assert certainties(graph, [np.asarray(0), x], Freedom.WINOGRAD) == [Certainty.EXACT]
    assert certainties(graph, [np.asarray(2), x], Freedom.WINOGRAD) == [Certainty.ROUGH]
    assert constant(graph, 1).details.rank == 0


@pytest.mark.parametrize(
    ("factors", "expected"),
    [
        ([0, 3, 5], Certainty.EXACT),
        ([0, 5e3, 7e3], Certainty.ROUGH),
        ([0, 5e20, 7e20], Certainty.UNKNOWN),
    ],
)
def test_a_zero_does_not_undo_what_overflowed_before_it(
    factors: list[float], expected: Certainty
) -> None:
    body = """
        %x = Node[type=input] () -> f32[3]
        %y = Node[type=reduce_prod] (inputs = (x=%x)) -> f32[]
        return (output=%y)
    """
    assert known(body, [np.array(factors, np.float32)]) == [expected]


@pytest.mark.parametrize("divisor", [0.0, 0.25, 1e-323])
def test_remainders_are_exact_whatever_the_quotient(divisor: float) -> None:
    body = """
        %a = Node[type=input] () -> f64[1]
        %b = Node[type=input] () -> f64[1]
        %y = Node[type=mod] (inputs = (a=%a, b=%b)) -> f64[1]
        return (output=%y)
    """
    assert known(body, [np.ones(1), np.array([divisor])]) == [Certainty.EXACT]


@pytest.mark.parametrize(("padding", "expected"), [(0, Certainty.ROUGH), (1, Certainty.UNKNOWN)])
def test_infinite_weights_on_padding_are_unknown(padding: int, expected: Certainty) -> None:
    """Some kernels multiply them by the zeros, some leave the zeros out."""
    body = f"""
        %x = Node[type=input] () -> f32[1,1,3]
        %w = Node[type=input] () -> f32[1,1,2]
        %y = Node[type=convolution] (inputs = (x=%x, w=%w), attrs = {{after: {{{padding}}}}}) -> f32[1,1,{2 + padding}]
        return (output=%y)
    """
    x, w = np.ones((1, 1, 3), np.float32), np.array([[[1, np.inf]]], np.float32)
    assert known(body, [x, w]) == [expected]
    image = np.array([[[1, np.inf, 1]]], np.float32)
    assert known(body, [image, x[..., :2]]) == [Certainty.ROUGH]
