"""Pools whose padding is stored, and those whose template reads the image unpadded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphc.base.dtypes import F32, S8, S32, U8, DType
from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.format import channels_last
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.pad_windows import pad_windows
from graphc.graph_ir.schedule.context import LowerContext
from graphc.runtime.executor import CompiledModel
from graphc.targets.isa import Target
from support.graphs import run_pass
from support.lowered import integers

KINDS = ["max_pool", "min_pool", "sum_pool", "prod_pool"]
WITH_AVERAGES = [*KINDS, "avg_pool"]


def pool(op_name: str, dtype: DType, shape: tuple[int, ...], **attrs: object) -> Graph:
    graph = Graph("one")
    x = graph.make_input(LogicalTensor(dtype, shape))
    graph.make_output(graph.make(op_name, [x], attrs).outputs[0])
    return graph


def names(graph: Graph) -> list[str]:
    return sorted(op.op_name for op in graph.ops if op.kind not in ("source", "sink"))


@pytest.mark.parametrize("op_name", KINDS)
@pytest.mark.parametrize("dtype", [F32, S32])
def test_plain_pools(op_name: str, dtype: DType) -> None:
    graph = pool(op_name, dtype, (2, 7), kernel=(3,), strides=(2,))
    assert not run_pass(pad_windows, graph)
    graph = pool(op_name, dtype, (2, 7), kernel=(3,), strides=(2,), before=(1,), after=(1,))
    assert run_pass(pad_windows, graph)
    assert names(graph) == sorted([op_name, "pad"])
    assert not run_pass(pad_windows, graph)


def test_nothing_to_round_up_is_no_padding() -> None:
    graph = pool("max_pool", F32, (2, 7), kernel=(3,), strides=(2,), ceil_mode=True)
    run_pass(pad_windows, graph)
    assert names(graph) == ["max_pool"]


def in_layout(dtype: DType, op_name: str = "max_pool") -> Graph:
    graph = pool(op_name, dtype, (1, 5, 6, 7), kernel=(3, 3), before=(1, 1), after=(1, 1))
    for op in graph.ops:
        for y in op.outputs:
            y.details = y.details.with_format(channels_last(4))
    return graph


def test_channels_last_the_template_needs_none() -> None:
    ctx = LowerContext(Target("avx2"))
    graph = in_layout(F32)
    assert not pad_windows(graph, ctx)
    off = replace(ctx, options=CompileOptions(disabled=frozenset({"channel-windows"})))
    assert pad_windows(graph, off)
    assert names(graph) == ["max_pool", "pad"]
    assert all(y.details.format == channels_last(4) for op in graph.ops for y in op.outputs)
    assert not pad_windows(in_layout(U8), ctx) and not pad_windows(in_layout(S8, "min_pool"), ctx)
    assert pad_windows(in_layout(S32, "sum_pool"), ctx), "sums are for floats"


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("dtype", [U8, S8], ids=str)
def test_extremes_of_bytes_in_channels_last(dtype: DType, target: str) -> None:
    """Behind a convolution, in vectors of bytes and with channels left over."""
    graph = Graph("net")
    x = graph.make_input(LogicalTensor(U8, (2, 8, 9, 7)), "x")
    w = graph.make_constant(integers((70, 8, 1, 1), 3).astype(np.int8), "w")
    y = graph.make("convolution", [x, w], {"dtype": "s32"}).outputs[0]
    y = graph.make("cast", [y], {"dtype": dtype}).outputs[0]
    for op_name in ("max_pool", "min_pool"):
        attrs = {"kernel": (3, 2), "strides": (2, 1), "before": (1, 0), "after": (1, 1)}
        graph.make_output(graph.make(op_name, [y], attrs).outputs[0])
    array = integers((2, 8, 9, 7), 126).astype(np.uint8)
    made = compile_stages(graph, target, CompileOptions(1))
    assert not any("_pad_" in call.kernel for call in made.lowered.calls)
    results = CompiledModel(made.artifact, 1).run(None, {"x": array})
    for result, wanted in zip(results, graph.evaluate([array]), strict=True):
        np.testing.assert_array_equal(np.asarray(result), wanted)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "attrs",
    [
        {"kernel": (3, 3), "strides": (2, 2), "before": (1, 1), "after": (1, 1)},
        {"kernel": (2, 3), "strides": (1, 2), "ceil_mode": True},
        {"kernel": (3, 2), "dilations": (2, 1), "before": (0, 1), "after": (2, 0)},
    ],
    ids=str,
)
def test_native_behind_a_convolution(attrs: dict[str, object]) -> None:
    graph = Graph("net")
    x = graph.make_input(LogicalTensor(F32, (1, 16, 9, 10)), "x")
    w = graph.make_constant((integers((17, 16, 3, 3)) > 3).astype(np.float32), "w")
    y = graph.make("convolution", [x, w], {"before": (1, 1), "after": (1, 1)}, "conv").outputs[0]
    pools = [graph.make(op_name, [y], attrs, op_name).outputs[0] for op_name in WITH_AVERAGES]
    for pooled in pools:
        graph.make_output(graph.make("relu", [pooled]).outputs[0])
    array = (integers((1, 16, 9, 10), 3) / 4).astype(np.float32)
    expected = graph.evaluate([array])
    for disabled in ((), ("channel-windows",)):
        options = CompileOptions(2, frozenset(disabled), winograd="f2")  # exact here
        made = compile_stages(graph, "native", options)
        padded = [call.kernel for call in made.lowered.calls if "_pad_" in call.kernel]
        # One for each value that is stored around the image: averages add what sums do.
        assert len(padded) == (len(KINDS) if disabled else 0)
        for result, wanted in zip(CompiledModel(made.artifact, 2)(array), expected, strict=True):
            np.testing.assert_allclose(np.asarray(result), wanted, rtol=1e-6)
