"""Scales of sums of bytes: where both are applied at once, and that all 65,536 pairs of bytes give the same result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import F32, S8, U8, DType
from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.scale_sums_once import scale_sums_once
from graphc.graph_ir.schedule.context import LowerContext
from graphc.runtime.executor import CompiledModel
from graphc.targets.isa import Target

SCALES = (0.0235, 0.0191, 0.0311)
HARD = (0.0366135, 0.0296391, 0.0781955)
"""The quotients, rounded to f32, give other results for some pairs; a neighbor of one of them does not."""
NONE = (0.0698765, 0.0237631, 0.0695293)
"""All neighbors do."""
TIES = (0.125, 0.0625, 0.25)


def added(
    scales: tuple[float, float, float] = SCALES,
    zeros: tuple[int, int] = (0, 131),
    types: tuple[DType, DType] = (U8, U8),
    shape: tuple[int, ...] = (256, 256),
    zero: int = 9,
) -> Graph:
    """Two dequantized bytes, added, and their sum quantized."""
    graph = Graph("added")

    def make(op: str, *inputs: Any, **attrs: Any) -> Any:
        return graph.make(op, inputs, attrs).outputs[0]

    terms = []
    for name, dtype, scale, offset in zip("pq", types, scales[:2], zeros, strict=True):
        x = make("cast", graph.make_input(LogicalTensor(dtype, shape), name), dtype=F32)
        if offset:
            x = make("sub", x, graph.make_constant(np.float32(offset)))
        terms.append(make("mul", x, graph.make_constant(np.float32(scale))))
    quotient = make("div", make("add", *terms), graph.make_constant(np.float32(scales[2])))
    y = make("round_saturate", quotient, zero=zero, low=0, high=255, dtype=U8)
    graph.make_output(y, "y")
    return graph


def pairs(types: tuple[DType, DType]) -> list[np.ndarray]:
    """Every pair of values."""
    first, second = (np.arange(256, dtype=np.uint8).view(x.numpy) for x in types)
    return [np.repeat(first, 256).reshape(256, 256), np.tile(second, 256).reshape(256, 256)]


@pytest.mark.parametrize(
    ("graph", "target", "once"),
    [
        (added(), "avx2", True),
        (added(HARD), "avx512", True),
        (added(types=(S8, U8), zeros=(-7, 3)), "avx2", True),
        (added(), "generic", False),
        (added((0.0235, 1e-9, 0.0311)), "avx2", False),
        (added((np.nan, 0.0191, 0.0311)), "avx2", False),
        (added((0.0235, 0.0191, -0.0311)), "avx2", False),
        (added((7.0, 0.0191, 0.0311)), "avx2", False),
    ],
    ids=["plain", "moved", "signed", "no fma", "tiny", "nan", "negative", "large"],
)
def test_where(graph: Graph, target: str, once: bool) -> None:
    ctx = LowerContext(Target(target))
    assert scale_sums_once(graph, ctx) is once
    assert any(op.op_name == "scaled_sum" for op in graph.ops) is once
    assert not scale_sums_once(graph, ctx)


def test_factors_that_give_other_results_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quotients of some scales do not do, nor for some their neighbors."""
    ctx = LowerContext(Target("avx2"))
    assert not scale_sums_once(added(NONE), ctx)
    monkeypatch.setattr("graphc.graph_ir.passes.scale_sums_once.FARTHEST", 0)
    assert not scale_sums_once(added(HARD), ctx)
    assert scale_sums_once(added(SCALES), ctx)


@pytest.mark.parametrize(
    ("scales", "types", "target"),
    [(SCALES, (S8, U8), "avx2"), (HARD, (U8, U8), "native"), (TIES, (U8, U8), "avx2")],
    ids=["signed", "moved", "ties"],
)
def test_the_switch_changes_no_bit(
    scales: tuple[float, float, float], types: tuple[DType, DType], target: str
) -> None:
    graph, arrays, found = added(scales, types=types), pairs(types), []
    for disabled in (frozenset[str](), frozenset({"joint-scales"})):
        made = compile_stages(graph, target, CompileOptions(disabled=disabled))
        found.append(np.asarray(CompiledModel(made.artifact)(*arrays)))
    np.testing.assert_array_equal(*found)
    np.testing.assert_array_equal(found[0], graph.evaluate(arrays)[0])
