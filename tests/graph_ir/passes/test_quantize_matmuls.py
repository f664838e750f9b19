"""quantize_matmuls: f32 models as integer matmuls of rows that are quantized at run time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import F32, S32
from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.multiply_quantized import multiply_quantized
from graphc.graph_ir.passes.quantize_matmuls import quantize_matmuls
from graphc.graph_ir.rewriting.decisions import log_of, start_log
from graphc.graph_ir.schedule.context import LowerContext
from graphc.targets.isa import Target

RANDOM = np.random.default_rng(0)
VNNI = LowerContext(Target("avx512", features="+avx512vnni"), CompileOptions(precision="int8"))


def model(op_name: str, x: tuple[int, ...], w: Array | None, **attrs: Any) -> Graph:
    graph = Graph("model")
    given = graph.make_input(LogicalTensor(F32, x), "x")
    weights = (
        graph.make_input(LogicalTensor(F32, (64, 96))) if w is None else graph.make_constant(w)
    )
    graph.make_output(graph.make(op_name, [given, weights], attrs, "p").outputs[0], "y")
    return graph


def normal(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("op_name", "x", "w", "attrs"),
    [
        ("matmul_core", (48, 64), (64, 96), {}),
        ("matmul_core", (2, 24, 64), (96, 64), {"transpose_b": True}),
        ("convolution", (1, 64, 20, 20), (64, 64, 1, 1), {}),
        ("convolution", (1, 64, 20, 20), (64, 64, 3, 3), {"strides": (2, 2), "before": (1, 1)}),
    ],
)
def test_matmuls_become_integers(op_name: str, x: Any, w: Any, attrs: dict[str, Any]) -> None:
    graph, given = model(op_name, x, normal(*w), **attrs), normal(*x)
    (exact,) = graph.evaluate([given])
    assert quantize_matmuls(graph, VNNI)
    (wanted,) = graph.evaluate([given])
    multiply_quantized(graph, VNNI)
    matmuls = [op for op in graph.ops if op.op_name == op_name]
    assert [op.outputs[0].details.dtype for op in matmuls] == [S32]
    largest = np.abs(exact).max()
    np.testing.assert_allclose(wanted, exact, rtol=0, atol=0.02 * largest)
    np.testing.assert_allclose(graph.evaluate([given])[0], wanted, rtol=0, atol=1e-5 * largest)
    np.testing.assert_allclose(compile_model(graph)(given), wanted, rtol=0, atol=1e-5 * largest)


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (model("matmul_core", (48, 64), None), "both operands are computed"),
        (model("matmul_core", (48, 64), np.full((64, 96), np.inf, np.float32)), "a weight is not finite"),
        (model("matmul_core", (64, 48), normal(64, 96), transpose_a=True), "its rows have no scale of their own"),
        (model("matmul_core", (2, 3), normal(3, 4)), "too small to gain"),
        (model("convolution", (1, 512, 3, 3), normal(512, 1, 3, 3), groups=512),
         "integers are predicted to be no faster"),
        (model("convolution", (1, 64, 28, 28), normal(64, 4, 3, 3), groups=16),
         "groups of few channels are slower in integers"),
    ],
)  # fmt: skip
def test_what_stays(graph: Graph, why: str) -> None:
    start_log(graph)
    assert not quantize_matmuls(graph, VNNI)
    assert [d.text for d in log_of(graph).decisions] == [f"stays f32: {why}"]


def test_a_row_of_zeros() -> None:
    graph, x = model("matmul_core", (48, 64), normal(64, 96)), normal(48, 64)
    x[3] = 0
    found = compile_model(graph, precision="int8")(x)
    assert np.all(np.isfinite(found)) and not found[3].any()
