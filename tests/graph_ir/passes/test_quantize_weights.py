"""quantize_weights: weights of an f32 model in 4 bits, in groups of 32."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile as compile_model
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.quantize_weights import grouped, quantize_weights
from graphc.graph_ir.schedule.context import LowerContext
from graphc.targets.isa import Target

RANDOM = np.random.default_rng(0)
INT4 = CompileOptions(precision="int4")


def matmul(k: int, transposed: bool) -> Graph:
    graph = Graph("model")
    x = graph.make_input(LogicalTensor(F32, (3, k)), "x")
    w = RANDOM.standard_normal((48, k) if transposed else (k, 48)).astype(np.float32)
    y = graph.make("matmul_core", [x, graph.make_constant(w)], {"transpose_b": transposed}, "fc")
    graph.make_output(y.outputs[0], "y")
    return graph


def test_every_integer_is_used_and_errors_are_half_a_step() -> None:
    rows = RANDOM.standard_normal((5, 70)).astype(np.float32)
    rows[2] = 0
    numbers, scales = grouped(rows)
    assert numbers.shape == (5, 3, 32) and scales.shape == (5, 3, 1)
    assert numbers.min() == -8 and numbers.max() <= 7
    real = (numbers * scales).reshape(5, -1)[:, :70]
    worst = np.repeat(np.abs(scales), 32, 2).reshape(5, -1)[:, :70]
    # +8 of the side that has no 8 becomes 7: off by a whole step at most
    assert np.all(np.abs(real - rows) <= worst * 1.001)
    assert np.mean(np.abs(real - rows) <= worst * 0.501) > 0.95 and not real[2].any()


@pytest.mark.exhaustive
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("k", [64, 90])
def test_compiled(k: int, transposed: bool) -> None:
    graph, x = matmul(k, transposed), RANDOM.standard_normal((3, k)).astype(np.float32)
    lowered = graph.copy()
    assert quantize_weights(lowered, LowerContext(Target("generic"), INT4))
    (wanted,), (exact,) = lowered.evaluate([x]), graph.evaluate([x])
    assert 1e-3 < np.abs(wanted - exact).max() / np.abs(exact).max() < 0.3
    found = compile_model(graph, precision="int4", threads=1)(x)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    kernels = [call.kernel for call in compile_stages(graph, options=INT4).lowered.calls]
    assert any("_u4g32_gemm" in kernel for kernel in kernels)
