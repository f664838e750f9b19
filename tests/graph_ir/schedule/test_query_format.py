"""The layouts on offer for each op: plain ones, panels as wide as register tiles, and rules for ops of one's own."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from graphc.base.dtypes import F32, by_name
from graphc.graph_ir.ir.format import parse_format
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.schedule import parse_schedule
from graphc.graph_ir.ops.convolution import DirectConvolution
from graphc.graph_ir.ops.matmul import MatmulCore
from graphc.graph_ir.schedule.channel_windows import taps_first
from graphc.graph_ir.schedule.context import LowerContext
from graphc.graph_ir.schedule.convolution_gemm import ConvolutionGemm
from graphc.graph_ir.schedule.convolution_sizes import geometry_of
from graphc.graph_ir.schedule.direct_convolution import (
    convolution_kernels,
    convolution_schedule,
    offered,
)
from graphc.graph_ir.schedule.matmul import panel_format
from graphc.graph_ir.schedule.panels import Panel
from graphc.graph_ir.schedule.problem import problem_of
from graphc.graph_ir.schedule.query_format import RULES, query_format
from graphc.targets.isa import Target
from graphc.targets.microkernels import f32_tiles
from support.check_op import make_op, random_array
from support.lowered import context

Dims = tuple[int, ...]


def matmul_op(dtype: str, a: Dims, b: Dims, **attrs: bool) -> MatmulCore:
    graph = Graph("matmul")
    inputs = [graph.make_input(LogicalTensor(by_name(dtype), shape)) for shape in (a, b)]
    op = graph.make("matmul_core", inputs, attrs)
    assert isinstance(op, MatmulCore)
    return op


def convolution(x: Dims, w: Dims, **attrs: object) -> DirectConvolution:
    op = make_op("direct_convolution", [np.ones(s, np.float32) for s in (x, w)], attrs)
    assert isinstance(op, DirectConvolution)
    return op


def test_ops_without_a_rule_and_untuned_matmuls_are_plain() -> None:
    for op in (make_op("relu", [random_array("f32", (2, 3))]), matmul_op("s32", (4, 3), (3, 5))):
        (choice,) = query_format(op, context())
        assert all(f.is_plain for f in (*choice.inputs, *choice.outputs)) and choice.cost == 0


def test_a_reorder_makes_the_layout_it_is_told() -> None:
    fmt = parse_format("MK16k")
    op = make_op("reorder", [random_array("f32", (5, 20))], {"format": fmt})
    (choice,) = query_format(op, context())
    assert choice.outputs == (fmt,) and choice.inputs[0].is_plain


def test_a_class_has_the_rule_of_its_nearest_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RULES, "_entries", dict(RULES._entries))

    class Own(MatmulCore):
        kind: ClassVar[str] = "tunable"

    a, b = (LogicalTensor(by_name("f32"), (8, 8)) for _ in "ab")
    graph = Graph("own")
    op = Own("own", "own", [graph.make_input(a), graph.make_input(b)], {})
    assert query_format(op, context()) == query_format(matmul_op("f32", (8, 8), (8, 8)), context())
    only = query_format(matmul_op("f64", (8, 8), (8, 8)), context())
    RULES.register(Own)(lambda op, ctx: only)
    assert query_format(op, context()) == only


def test_matmuls_read_panels_of_b() -> None:
    op = matmul_op("f32", (2, 4, 8), (2, 30, 8), transpose_b=True)
    *choices, blocked = query_format(op, context())
    assert blocked.on_request and str(blocked.inputs[1]) == "BKN16n16k"
    target = context().target
    panels = {f"BNK{tile.columns(target)}n" for tile in f32_tiles(target)}
    first, *others = (str(c.inputs[1]) for c in choices)
    assert first == "BNK" and set(others) == panels and len(others) == len(panels)
    assert all(c.inputs[0].is_plain and c.outputs[0].is_plain for c in choices)
    assert str(panel_format(op, Panel(24))) == "BNK24n"
    assert str(panel_format(matmul_op("f32", (4, 8), (8, 30)), Panel(16))) == "NK16n"


def layouts(op: DirectConvolution) -> list[str]:
    texts = []
    for choice in query_format(op, context("avx512")):
        if choice.on_request:
            continue
        texts.append(" ".join(str(f) for f in (*choice.inputs, *choice.outputs)))
    return texts


def test_direct_convolutions_read_panels_of_weights() -> None:
    last = layouts(convolution((1, 32, 9, 9), (64, 32, 3, 3)))
    assert sorted(last) == [f"NHWC OHWI{n}o NHWC" for n in (16, 32, 48)]
    few = layouts(convolution((1, 3, 9, 9), (64, 3, 3, 3)))
    assert {"NCHW OIHW NCHW", "NHWC OHWI32o NHWC"} <= set(few)
    assert "NWC OWI32o NWC" in layouts(convolution((1, 32, 9), (64, 32, 3)))


def test_cost_is_what_the_model_predicts_beyond_the_best() -> None:
    choices = query_format(convolution((1, 32, 9, 9), (64, 32, 3, 3)), context("avx512"))
    assert choices[0].cost == 0 and all(c.cost > 0 for c in choices[1:])


def test_a_blocking_requested_decides_the_panels() -> None:
    op, ctx = convolution((1, 32, 9, 9), (64, 32, 3, 3)), context("avx512")

    for choice in offered(
        ConvolutionGemm.of_kernels(geometry_of(op), convolution_kernels(op, ctx), ctx)
    ):
        requested = replace(ctx, tuned={problem_of(op): convolution_schedule(choice)})
        only, blocked = query_format(op, requested)
        assert blocked.on_request
        assert only.inputs[1].blocks[-1] == choice.blocking.tile.columns(ctx.target)


def test_a_tile_requested_need_not_be_in_the_table() -> None:
    op, ctx = convolution((1, 32, 9, 9), (2, 20, 16, 3, 3), groups=2), context("avx512")
    requested = parse_schedule("direct band=rows mr=13 nv=2 mc=9 kc=64 ng=1")
    (choice,) = query_format(op, replace(ctx, tuned={problem_of(op): requested}))
    assert choice.inputs[1] == parse_format("GOHWI32o")


def test_problem_names_the_geometry() -> None:
    op = convolution((1, 32, 9, 9), (64, 32, 3, 3), strides=(2, 2), before=(1, 1))
    assert problem_of(op) == "conv n1c32h9w9o64k3s2p1x1x0x0 f32"


def test_winograd_convolutions_read_channels_last_and_panels() -> None:
    x, u = random_array("f32", (1, 4, 8, 8)), random_array("f32", (36, 4, 40))
    op = make_op("winograd_convolution", [x, u], {"results": 4})
    choices = query_format(op, LowerContext(Target("avx512")))
    assert [str(f) for f in (choices[0].inputs[0], choices[0].outputs[0])] == ["NHWC", "NHWC"]
    assert {choice.inputs[1].blocks[-1] for choice in choices} == {16, 32, 48}
    assert choices[0].cost == 0 and all(choice.cost >= 0 for choice in choices)


def test_depthwise_convolutions_have_channels_last_or_first_everywhere() -> None:
    arrays = [random_array("f32", (1, 4, 8, 8)), random_array("f32", (4, 1, 3, 3))]
    op = make_op("depthwise_convolution", arrays, {"groups": 4})
    choice, first = query_format(op, LowerContext(Target("avx512")))
    assert all(fmt.is_plain for fmt in (*first.inputs, *first.outputs))
    assert choice.inputs[0].order == choice.outputs[0].order == (0, 2, 3, 1)
    assert choice.inputs[1] == taps_first(4)
    np.testing.assert_array_equal(taps_first(4).pack(arrays[1]), arrays[1].transpose(2, 3, 1, 0))


def test_depthwise_convolutions_behind_others_stay_channels_last() -> None:
    graph = Graph("net")
    x = graph.make_input(LogicalTensor(F32, (1, 4, 8, 8)), "x")
    w, v = (graph.make_constant(random_array("f32", s)) for s in ((4, 4, 1, 1), (4, 1, 3, 3)))
    y = graph.make("direct_convolution", [x, w]).outputs[0]
    y = graph.make("relu", [y]).outputs[0]
    op = graph.make("depthwise_convolution", [y, v], {"groups": 4})
    (choice,) = query_format(op, LowerContext(Target("avx512")))
    assert choice.inputs[0].order == (0, 2, 3, 1)
