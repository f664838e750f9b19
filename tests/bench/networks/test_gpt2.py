from __future__ import annotations

import importlib
from collections import Counter

import pytest

from graphc.bench.networks.net import Net
from graphc.frontend import load
from graphc.graph_ir.lowering.lower_graph import lower_graph
from graphc.graph_ir.passes import pipeline
from support.lowered import context

gpt2 = importlib.import_module("graphc.bench.networks.gpt2")

KERNELS = {
    "f32_gather_add": 1,
    "f32_reduce_mean_sub_square_add_rsqrt_mul": 5,
    "f32_gemm_add": 6,
    "f32_gemm_add_gelu": 2,
    "f32_gemm": 1,
    "f32_slice_transpose": 6,
    "f32_attention": 2,
}
"""Kernels of two blocks: biases, gelus and residuals are computed in the epilogues of the matmuls."""


def matrices_of_three_axes(net: Net, x: str, outputs: int) -> str:
    """Multiply all sequences without reshapes, as older exporters, HLO and PNNX do."""
    weight = net.random(net.shape(x)[-1], outputs, scale=0.1)
    return net.pair("Add", net.matmul(x, weight, outputs), net.random(outputs))


@pytest.mark.parametrize("rows", [gpt2._rows, matrices_of_three_axes], ids=["flat", "three axes"])
def test_consumers_of_a_matmul_have_no_separate_kernel(
    rows: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpt2, "_rows", rows)
    net = gpt2.gpt2(tokens=16, hidden=32, heads=2, blocks=2, vocabulary=50)
    graph = load(net.case().model)
    pipeline.run(graph, context())
    calls = lower_graph(graph, context()).calls
    names = [call.kernel.split("__")[0].rstrip("0123456789x_") for call in calls]
    assert Counter(names) == KERNELS
