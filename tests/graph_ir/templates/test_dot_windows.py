"""Depthwise convolutions of bytes by dot products: exact on every ISA, for windows, steps and padding of all kinds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import F32, S8, S32, U8, DType
from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.nest.convolution_geometry import ConvolutionGeometry
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.schedule.context import LowerContext
from graphc.graph_ir.schedule.window_tile import depthwise_cycles, window_cycles
from graphc.runtime.executor import CompiledModel
from graphc.targets.isa import Target
from graphc.targets.microkernels import microkernel
from support.lowered import check_interpreted
from support.native_functions import runnable_target

Sizes = tuple[tuple[int, int, int], tuple[int, int], dict[str, tuple[int, int]]]

CASES: list[Sizes] = [
    ((20, 7, 9), (3, 3), {"before": (1, 1), "after": (1, 1)}),
    ((37, 14, 13), (3, 3), {"strides": (2, 2), "before": (1, 0), "after": (1, 2)}),
    ((17, 9, 8), (5, 5), {"before": (2, 3), "after": (2, 1)}),
    ((70, 12, 6), (7, 2), {"strides": (2, 1), "before": (3, 0), "after": (3, 1)}),
    ((33, 4, 4), (3, 3), {"dilations": (2, 2), "before": (2, 2), "after": (2, 2)}),
    ((16, 2, 3), (4, 1), {"before": (2, 0), "after": (3, 0)}),
]
ISAS = {
    "vnni": Target("avx512", features="+avx512vnni"), "avx512": Target("avx512"), "avx2": Target("avx2"),
    "generic": Target("generic"),
}  # fmt: skip


def layer(sizes: Sizes, dtype: DType, is_constant: bool = True) -> tuple[Graph, list[np.ndarray]]:
    """A depthwise convolution with a bias and a ReLU that ends at bytes; arrays with every value of their types."""
    (channels, *image), kernel, attrs = sizes
    rng, graph = np.random.default_rng(7), Graph("layer")
    limits = np.iinfo(dtype.numpy)
    x = rng.integers(limits.min, limits.max, (2, channels, *image), dtype.numpy, endpoint=True)
    w = rng.integers(-128, 127, (channels, 1, *kernel), np.int8, endpoint=True)
    operands = [graph.make_input(LogicalTensor(dtype, x.shape), "x")]
    operands.append(
        graph.make_constant(w, "w") if is_constant else graph.make_input(LogicalTensor(S8, w.shape), "w")
    )  # fmt: skip

    def make(op: str, *inputs: Any, **attrs: Any) -> Any:
        return graph.make(op, inputs, attrs).outputs[0]

    sums = make("convolution", *operands, groups=channels, dtype=S32, **attrs)
    bias = graph.make_constant(np.arange(channels, dtype=np.int32).reshape(channels, 1, 1))
    real = make("cast", make("relu", make("add", sums, bias)), dtype=F32)
    scale = graph.make_constant(np.float32(1 / 512))
    graph.make_output(make("round_saturate", make("mul", real, scale), low=0, high=255, dtype=U8))
    return graph, [x] if is_constant else [x, w]


def context(target: Target) -> LowerContext:
    return LowerContext(target, CompileOptions(threads=1))


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ISAS)
def test_interpreted(isa: str) -> None:
    for sizes in CASES[:3]:
        check_interpreted(layer(sizes, U8)[0], context(ISAS[isa]))


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ["avx512", "avx2", "generic"])
@pytest.mark.parametrize("dtype", [U8, S8], ids=str)
def test_native(isa: str, dtype: DType) -> None:
    for sizes in CASES:
        graph, arrays = layer(sizes, dtype)
        model = CompiledModel(compile_stages(graph, runnable_target(isa)).artifact)
        np.testing.assert_array_equal(model(*arrays), graph.evaluate(arrays)[0])


def test_weights_that_are_computed_and_threads() -> None:
    """Padding of grouped weights may hold anything; tasks of several rows."""
    target = runnable_target("avx2")
    for sizes in (CASES[0], ((16, 64, 48), (5, 3), {"before": (1, 1), "after": (1, 1)})):
        graph, arrays = layer(sizes, U8, is_constant=False)
        options = CompileOptions(threads=2)
        model = CompiledModel(compile_stages(graph, target, options).artifact, threads=2)
        np.testing.assert_array_equal(model(*arrays), graph.evaluate(arrays)[0])


@pytest.mark.parametrize("isa", ["vnni", "avx2"])
def test_rows_of_the_window_are_the_terms(isa: str) -> None:
    graph, _ = layer(CASES[0], U8)
    pipeline.run(graph, context(ISAS[isa]))
    kernels = [part for op in graph.ops for part in (op, *getattr(op, "parts", ()))]
    found = [
        (op, tensor.details.format)
        for op in kernels
        for tensor in op.inputs
        if tensor.details.dtype == S8
    ]
    group = microkernel(U8, S8, ISAS[isa]).k_group
    assert found and all(fmt.blocks[-1] == group for _, fmt in found)


def test_predicted_cycles() -> None:
    """Dot products take less than multiplications one at a time, and more in pairs than in quads."""
    g = ConvolutionGeometry(1, 64, 1, 1, (28, 28), (28, 28), (3, 3), before=(1, 1))
    target = ISAS["vnni"]
    rows = {x.instruction: x for x in Target("avx512").table.microkernels if (x.a, x.b) == (U8, S8)}
    plain = window_cycles(g, target, U8)
    quads, pairs = (depthwise_cycles(g, rows[name], target) for name in ("dot4", "dot2"))
    assert quads < pairs < 1.5 * plain
    flat = replace(g, kernel=(1, 3), before=(0, 1))
    assert depthwise_cycles(flat, rows["dot4"], target) == 1.5 * window_cycles(flat, target, U8)
