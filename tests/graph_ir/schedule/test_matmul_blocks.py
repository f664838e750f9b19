"""Matmuls and convolutions whose operands and results lie in blocks: offered, costed, right, and run on request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import BF16, F32, by_name
from graphc.base.errors import UserError
from graphc.base.options import CompileOptions
from graphc.graph_ir.ir.format import parse_format
from graphc.graph_ir.ir.graph import Graph, Op
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.schedule import parse_schedule
from graphc.graph_ir.passes.propagate_layouts import LAYOUT_DECISIONS, propagate_layouts
from graphc.graph_ir.schedule.context import LowerContext
from graphc.graph_ir.schedule.query_format import query_format
from graphc.graph_ir.schedule.spaces import space_of
from support.check_op import make_op, random_array
from support.lowered import check_interpreted, context, integers

Dims = tuple[int, ...]


def asking(isa: str = "native", threads: int = 1) -> LowerContext:
    found = context(isa, threads=threads) if isa != "native" else context(threads=threads)
    return replace(found, options=replace(found.options, layout="blocked"))


def matmul_graph(
    m: int, n: int, k: int, batch: Dims = (), relu: bool = False, **attrs: bool
) -> Graph:
    graph = Graph("matmul")
    a = (k, m) if attrs.get("transpose_a") else (m, k)
    b = (n, k) if attrs.get("transpose_b") else (k, n)
    inputs = [
        graph.make_input(LogicalTensor(F32, (*batch, *d)), x) for d, x in ((a, "a"), (b, "b"))
    ]
    y = graph.make("matmul_core", inputs, attrs, "fc").outputs[0]
    if relu:
        row = graph.make_constant(integers((n,), 5), "row")
        y = graph.make("relu", graph.make("add", (y, row)).outputs).outputs[0]
    graph.make_output(y, "y")
    return graph


def convolution(x: Dims, w: Dims, **attrs: Any) -> Graph:
    graph = Graph("convolution")
    image = graph.make_input(LogicalTensor(F32, x), "x")
    weights = graph.make_constant(integers(w, 3), "w")
    y = graph.make("direct_convolution", (image, weights), attrs, "conv").outputs[0]
    graph.make_output(graph.make("add", (y, y)).outputs[0], "y")
    return graph


def layouts(graph: Graph, ctx: LowerContext, name: str) -> str:
    work = graph.copy()
    propagate_layouts(work, ctx)
    (op,) = [op for op in work.ops if op.name == name]
    return " ".join(str(x.details.format) for x in (*op.inputs, *op.outputs))


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ["avx512", "generic"])
@pytest.mark.parametrize(
    "graph",
    [
        matmul_graph(32, 48, 64),
        matmul_graph(33, 50, 70, relu=True),
        matmul_graph(7, 17, 5, (2,), transpose_a=True, relu=True),
        matmul_graph(40, 20, 33, transpose_b=True),
    ],
    ids=["whole", "ragged", "batch", "transposed"],
)
def test_matmuls(isa: str, graph: Graph) -> None:
    ctx = asking(isa)
    found = layouts(graph, ctx, "fc")
    assert [parse_format(x).blocks[-2:] for x in found.split()] == [(16, 16)] * 3
    check_interpreted(graph, ctx)


def test_sums_wait_for_the_rest_of_k_where_the_result_cannot_hold_them() -> None:
    graph = Graph("narrow")
    x, w = (
        graph.make_input(LogicalTensor(F32, d), n) for d, n in (((20, 40), "x"), ((40, 20), "w"))
    )
    y = graph.make("matmul_core", (x, w), {}, "fc").outputs
    graph.make_output(graph.make("cast", y, {"dtype": BF16}).outputs[0], "y")
    check_interpreted(graph, asking("avx512"))


def test_the_layouts_are_those_of_the_document() -> None:
    assert layouts(matmul_graph(32, 48, 64), asking(), "fc") == "MK16m16k KN16n16k MN16m16n"
    image = convolution((1, 32, 5, 5), (32, 32, 3, 3))
    assert layouts(image, asking("avx512"), "conv") == "NCHW16c OIHW16i16o NCHW16c"
    narrow = convolution((1, 24, 5, 5), (32, 24, 3, 3))
    assert layouts(narrow, asking("avx2"), "conv") == "NCHW8c OIHW8i8o NCHW8c"


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ["avx512", "avx2"])
@pytest.mark.parametrize(
    ("x", "w", "attrs"),
    [
        ((1, 16, 9, 8), (17, 16, 3, 3), {"before": (1, 1), "after": (1, 1)}),
        ((2, 32, 5, 6), (20, 32, 3, 3), {"before": (1, 0), "after": (0, 2)}),
        ((1, 48, 5, 6), (20, 48, 1, 1), {}),
        ((1, 32, 9, 9), (8, 32, 3, 2), {"dilations": (2, 2), "strides": (1, 2), "before": (1, 3)}),
        ((2, 16, 17), (20, 16, 3), {"strides": (2,), "before": (2,)}),
    ],
)
def test_convolutions(isa: str, x: Dims, w: Dims, attrs: Any) -> None:
    graph, ctx = convolution(x, w, **attrs), asking(isa)
    assert layouts(graph, ctx, "conv").split()[2].endswith(("16c", "8c"))
    check_interpreted(graph, ctx)


def test_sums_wait_for_the_next_block_of_k_in_the_result() -> None:
    graph = matmul_graph(20, 20, 70, relu=True)
    check_interpreted(graph, replace(asking(), requested={"fc": parse_schedule("kc=32 mc=16")}))


def test_blocks_end_between_those_in_memory() -> None:
    ctx = replace(asking(), requested={"fc": parse_schedule("kc=20")})
    lowered = check_interpreted(matmul_graph(20, 20, 70), ctx)
    assert any("split k 32 16" in call.note for call in lowered.calls)


def test_nobody_takes_them_who_did_not_ask() -> None:
    graph, ctx = matmul_graph(32, 48, 64), context()
    assert layouts(graph, ctx, "fc") == "AB AB MN"
    propagate_layouts(graph, ctx)
    (decision,) = LAYOUT_DECISIONS.of(graph)
    assert [c.on_request for c in decision.candidates].count(True) == 1
    moved = 4 * 2 * (32 * 64 + 48 * 64 + 32 * 48)
    assert decision.costs[-1] >= decision.costs[decision.chosen] + moved


def test_one_op_may_ask_by_its_name() -> None:
    ctx = replace(context(), requested={"fc": parse_schedule("b=blocked")})
    assert layouts(matmul_graph(32, 48, 64), ctx, "fc") == "MK16m16k KN16n16k MN16m16n"
    ctx = replace(context("avx512"), requested={"conv": parse_schedule("band=blocks")})
    graph = convolution((1, 32, 5, 5), (32, 32, 3, 3))
    assert layouts(graph, ctx, "conv") == "NCHW16c OIHW16i16o NCHW16c"
    check_interpreted(graph, ctx)


@pytest.mark.parametrize(
    "op",
    [
        make_op(
            "direct_convolution", [random_array("f32", s) for s in ((1, 3, 9, 9), (8, 3, 3, 3))]
        ),
        make_op(
            "direct_convolution",
            [random_array("f32", s) for s in ((1, 32, 9, 9), (2, 16, 16, 3, 3))],
            {"groups": 2},
        ),
        make_op("matmul_core", [np.ones(s, by_name("s32").numpy) for s in ((4, 3), (3, 5))]),
    ],
    ids=["channels in no whole block", "groups", "not tuned"],
)
def test_what_has_no_blocks_is_not_offered_any(op: Op) -> None:
    assert not any(choice.on_request for choice in query_format(op, asking()))


def test_every_candidate_is_predicted_and_fits_its_layouts() -> None:
    graph = matmul_graph(100, 48, 640)
    propagate_layouts(graph, asking())
    space = space_of(next(op for op in graph.ops if op.name == "fc"), asking())
    assert space is not None and space.candidates
    for schedule in space.candidates:
        assert space.check(schedule) == schedule and (space.cycles(schedule) or 0) > 0


def test_blocks_of_more_vectors_than_half_the_registers_have_a_row_at_least() -> None:
    graph = Graph("wide")
    x, w = (graph.make_input(LogicalTensor(by_name("f64"), (20, 20)), name) for name in "xw")
    graph.make_output(graph.make("matmul_core", (x, w), {}, "fc").outputs[0], "y")
    assert layouts(graph, asking("generic"), "fc").endswith("MN16m16n")
    check_interpreted(graph, asking("generic"))


def test_an_unknown_layout_is_refused() -> None:
    with pytest.raises(UserError, match="layout must be one of auto, blocked, got 'x'"):
        CompileOptions(layout="x")
