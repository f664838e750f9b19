"""scaled_sum: roundings of its reference, which native code follows to the last bit."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from graphc.base.dtypes import F32, S32
from graphc.base.errors import UserError
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.round_saturate import scaled_sum
from graphc.runtime.executor import CompiledModel


def rounded(value: Fraction) -> np.float32:
    """The f32 nearest to a number that f64 holds."""
    assert Fraction(float(value)) == value
    return np.float32(float(value))


def numbers() -> tuple[np.ndarray, np.ndarray, float, float]:
    rng = np.random.default_rng(0)
    x, y = rng.integers(-255, 256, (2, 97)).astype(np.float32)
    return x, y, float(np.float32(0.7312345)), float(np.float32(1.00712345))


def test_two_roundings() -> None:
    x, y, a, b = numbers()
    for one, other, found in zip(x.tolist(), y.tolist(), scaled_sum(x, y, a, b), strict=True):
        scaled = rounded(Fraction(other) * Fraction(b))
        assert found == rounded(Fraction(one) * Fraction(a) + Fraction(float(scaled)))


@pytest.mark.parametrize("target", ["native", "avx2"])
def test_native(target: str) -> None:
    x, y, a, b = numbers()
    graph = Graph("sum")
    inputs = [graph.make_input(LogicalTensor(F32, x.shape), name) for name in "xy"]
    graph.make_output(graph.make("scaled_sum", inputs, {"a": a, "b": b}).outputs[0], "z")
    model = CompiledModel(compile_stages(graph, target).artifact)
    np.testing.assert_array_equal(model(x, y), scaled_sum(x, y, a, b))


def test_operands_have_one_shape_and_are_floats() -> None:
    graph = Graph("sum")
    x, y, z = (
        graph.make_input(LogicalTensor(d, s)) for d, s in ((F32, (3,)), (F32, (1,)), (S32, (3,)))
    )
    for other in (y, z):
        with pytest.raises(UserError, match="f32 of one shape"):
            graph.make("scaled_sum", [x, other], {"a": 1.0, "b": 2.0})
