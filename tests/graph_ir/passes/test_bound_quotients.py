"""Quotients that are near enough to be converted without a bound, and that this changes no bit."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32, S32, U8
from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.bound_quotients import bound_quotients
from graphc.graph_ir.schedule.context import LowerContext
from graphc.runtime.executor import CompiledModel
from graphc.targets.isa import Target

SUMS = np.array([-(2**31), -(2**30), -255, -3, 0, 1, 130, 254, 258, 2**24 + 1, 2**31 - 1], np.int32)


def rounded(scale: float, **attrs: int) -> Graph:
    """Sums that are scaled, divided by 0.7 and rounded to u8."""
    graph = Graph("rounded")
    x = graph.make_input(LogicalTensor(S32, SUMS.shape), "x")
    y = graph.make("cast", [x], {"dtype": F32}).outputs
    y = graph.make("mul", [*y, graph.make_constant(np.float32(scale))]).outputs
    y = graph.make("div_constant", y, {"divisor": 0.7}).outputs
    given: dict[str, object] = {"low": 0, "high": 255, "dtype": U8, **attrs}
    graph.make_output(graph.make("round_saturate", y, given).outputs[0], "y")
    return graph


@pytest.mark.parametrize(
    ("scale", "near"), [(0.34, True), (-0.34, True), (0.36, False), (np.nan, False)]
)
def test_where(scale: float, near: bool) -> None:
    graph = rounded(scale)
    assert bound_quotients(graph, LowerContext(Target("avx2"))) is near
    assert graph.outputs[0].inputs[0].producer_owner.attr("near") is near
    assert not bound_quotients(graph, LowerContext(Target("avx2")))


@pytest.mark.parametrize(
    "attrs", [{}, {"zero": 3, "nan": 3}, {"low": 5, "high": 99, "nan": 7}], ids=str
)
@pytest.mark.parametrize("target", ["native", "avx2"])
def test_the_switch_changes_no_bit(attrs: dict[str, int], target: str) -> None:
    graph, found = rounded(0.34, **attrs), []
    for disabled in (frozenset[str](), frozenset({"bounds"})):
        made = compile_stages(graph, target, CompileOptions(disabled=disabled))
        found.append(np.asarray(CompiledModel(made.artifact)(SUMS)))
    np.testing.assert_array_equal(*found)
    np.testing.assert_array_equal(found[0], graph.evaluate([SUMS])[0])
