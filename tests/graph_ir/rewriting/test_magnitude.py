"""Bounds of absolute values: what is known, and what is not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graphc.base.dtypes import BOOL, F32, S8, S32, U8, DType
from graphc.graph_ir.ir.graph import Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.rewriting.magnitude import largest


class Case:
    """A graph of small tensors."""

    def __init__(self) -> None:
        self.graph = Graph("case")

    def input(self, dtype: DType) -> GraphTensor:
        return self.graph.make_input(LogicalTensor(dtype, (2, 3)))

    def constant(self, *values: float) -> GraphTensor:
        return self.graph.make_constant(np.array(values, np.float32))

    def make(self, name: str, *inputs: GraphTensor, **attrs: object) -> GraphTensor:
        return self.graph.make(name, inputs, attrs).outputs[0]


@pytest.mark.parametrize(
    ("dtype", "most"),
    [(U8, 255), (S8, 128), (S32, 2.0**31), (F32, math.inf), (BOOL, math.inf)],
    ids=str,
)
def test_inputs(dtype: DType, most: float) -> None:
    assert largest(Case().input(dtype)) == most


def test_what_makes_bytes_of_sums() -> None:
    case = Case()
    sums = case.make("cast", case.input(S32), dtype=F32)
    scaled = case.make("mul", sums, case.constant(0.5, -0.25, 0.0))
    moved = case.make("relu", case.make("sub", scaled, case.constant(2.0**30)))
    quotient = case.make("div_constant", moved, divisor=3.0)
    assert largest(quotient) == pytest.approx(2.0**31 / 3, rel=1e-4)
    assert largest(quotient) >= 2.0**31 / 3
    whole = case.make("round_saturate", quotient, low=-7, high=3, dtype=F32)
    assert 7 <= largest(whole) < 7.001


def test_sums_of_bytes() -> None:
    case = Case()
    x = case.graph.make_input(LogicalTensor(S8, (1, 2, 3)))
    w = case.graph.make_constant(np.array([[[1, -2]], [[-3, 0.5]]], np.float32))
    sums = case.make("depthwise_convolution", x, w, groups=2, dtype=F32)
    assert 3.5 * 128 <= largest(sums) < 3.5 * 128.01
    both = case.make("scaled_sum", sums, sums, a=-2.0, b=0.5)
    assert 2.5 * 3.5 * 128 <= largest(both) < 2.5 * 3.5 * 128.01
    given = case.graph.make_input(LogicalTensor(F32, (2, 1, 2)))
    assert largest(case.make("depthwise_convolution", x, given, groups=2, dtype=F32)) == math.inf


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 1e38])
def test_what_may_overflow_or_be_no_number_has_none(value: float) -> None:
    case = Case()
    x = case.make("mul", case.make("cast", case.input(S32), dtype=F32), case.constant(1, value, 2))
    assert largest(x) == math.inf


def test_other_ops_and_long_chains_have_none() -> None:
    case = Case()
    x = case.make("cast", case.input(U8), dtype=F32)
    assert largest(case.make("exp", x)) == math.inf
    for _ in range(20):
        x = case.make("relu", x)
    assert largest(x) == math.inf
