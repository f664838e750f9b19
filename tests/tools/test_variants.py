"""The decision space of an op: each layout, the blockings ranked highest in it, and the compiler's own choice."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import F32, U8
from graphc.base.options import CompileOptions
from graphc.codegen.host import host_supports, target_for
from graphc.graph_ir.ir.graph import Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.matmul import MatmulCore
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.schedule.context import LowerContext
from graphc.targets.isa import Target
from graphc.targets.microkernels import f32_tiles
from graphc.tools import variants
from graphc.tools.variant_program import try_variants
from graphc.tools.variants import MAX_SCHEDULES, Variant, model_variants

AVX2 = Target("avx2", "x86-64-v3", "+avx2,+fma")
"""Without dot products of four bytes, as some CPUs have them at this level."""


def matmul_graph(m: int, n: int, k: int) -> Graph:
    graph = Graph("g")
    a, b = (
        graph.make_input(LogicalTensor(F32, dims), x) for x, dims in (("a", (m, k)), ("b", (k, n)))
    )
    graph.make_output(graph.make("matmul_core", (a, b), {}, "matmul").outputs[0])
    return graph


def own(found: list[Variant]) -> list[Variant]:
    """Return the variants of the model's op, without the matmuls of boundary sizes."""
    return [variant for variant in found if variant.op == "matmul_core matmul"]


@pytest.mark.parametrize("isa", ["avx2", "avx512"])
def test_every_layout_with_its_best_blockings(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "_boundary_matmuls", lambda ctx: iter(()))
    ctx = LowerContext(Target(isa), CompileOptions(2))
    found = own(model_variants(matmul_graph(100, 96, 600), ctx))
    counts = Counter(variant.layout for variant in found)
    assert len(counts) == 2 + len(f32_tiles(ctx.target))
    assert counts.pop("MK16m16k,KN16n16k->MN16m16n") == 1, "its layouts decide its schedule"
    assert max(counts.values()) >= MAX_SCHEDULES and min(counts.values()) > 5
    assert len({(v.layout, v.schedule) for v in found}) == len(found)
    for layout in counts:
        cycles = [v.predicted or 0.0 for v in found if v.layout == layout][:MAX_SCHEDULES]
        assert cycles == sorted(cycles) and cycles[0] > 0


@pytest.mark.parametrize("sizes", [(32, 256, 512), (7, 16, 5), (256, 96, 2000)])
def test_the_compilers_choice_is_marked(
    sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(variants, "_boundary_matmuls", lambda ctx: iter(()))
    ctx = LowerContext(Target("avx512"), CompileOptions(2))
    graph = matmul_graph(*sizes)
    (chosen,) = [v for v in own(model_variants(graph, ctx)) if v.chosen]
    pipeline.run(graph, ctx)
    (op,) = [op for op in graph.ops if isinstance(op, MatmulCore)]
    assert chosen.schedule == op.schedule
    assert chosen.layout == f"MK,{op.inputs[1].details.format.named('KN')}->MN"


@pytest.mark.parametrize("activations", ["exact", "q8"])
def test_packed_weights_are_tried_with_every_step_that_unpacks_them(
    activations: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(variants, "_boundary_matmuls", lambda ctx: iter(()))
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, (12, 64)), "x")
    w = graph.make_constant(np.random.default_rng(0).random((64, 48), np.float32), "w")
    graph.make_output(graph.make("matmul_core", (x, w), {}, "matmul").outputs[0])
    options = CompileOptions(1, precision="int4", activations=activations)
    ctx = LowerContext(AVX2, options)
    found = [v for v in model_variants(graph, ctx) if v.problem and "u4" in v.problem]
    ways = {(v.schedule.word("unpack"), v.schedule.word("use")) for v in found if v.schedule}
    exact = {("registers", "fma"), ("panel", "fma")}
    assert ways == (
        exact if activations == "exact" else {(x, "dot2") for x in ("registers", "bytes")}
    )
    assert sum(v.chosen for v in found) == 1
    assert all(trial.difference.ok for trial in try_variants(found, ctx))


def test_a_convolution_is_tried_in_every_form_and_layout() -> None:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, (1, 20, 5, 5)), "x")
    w = graph.make_constant(np.ones((18, 20, 2, 3), np.float32), "w")
    graph.make_output(graph.make("convolution", (x, w), {"before": (1, 1)}, "conv").outputs[0])
    ctx = LowerContext(Target("avx512"), CompileOptions(1))
    found = {(v.op.split()[0], v.layout) for v in model_variants(graph, ctx)}
    direct = {layout for name, layout in found if name == "direct_convolution"}
    assert direct == {f"NHWC,OHWI{n}o->NHWC" for n in (16, 32, 48)}
    assert {"convolution", "pad", "im2col", "matmul_core"} <= {name for name, _ in found}
    (chosen,) = {v.layout for v in model_variants(graph, ctx) if v.op.startswith("d") and v.chosen}
    assert chosen in direct


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", [isa for isa in ("avx512", "avx2") if host_supports(isa)])
def test_convolutions_are_right_in_every_layout_and_blocking(
    isa: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(variants, "_boundary_matmuls", lambda ctx: iter(()))
    monkeypatch.setattr(variants, "MAX_SCHEDULES", 2)
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, (1, 3, 7, 7)), "x")
    for number, (outputs, kernel) in enumerate(((17, 3), (20, 1))):
        shape = (outputs, x.details.plain_dims[1], kernel, kernel)
        w = graph.make_constant(np.ones(shape, np.float32), f"w{number}")
        attrs = {"before": (kernel // 2,) * 2, "after": (kernel // 2,) * 2}
        x = graph.make("convolution", (x, w), attrs, f"conv{number}").outputs[0]
    graph.make_output(x)
    ctx = LowerContext(target_for(isa), CompileOptions(1))
    tried = [v for v in model_variants(graph, ctx) if v.op.startswith("direct_convolution")]
    assert {layout.split("->")[1] for layout in (v.layout for v in tried)} == {"NHWC", "NCHW"}
    assert all(trial.difference.ok for trial in try_variants(tried, ctx))


def quantized_layers() -> Graph:
    """A 3 x 3 convolution of bytes, and a depthwise one of its result."""
    rng, graph = np.random.default_rng(0), Graph("g")

    def make(name: str, *inputs: GraphTensor, **attrs: Any) -> GraphTensor:
        return graph.make(name, inputs, attrs).outputs[0]

    def constant(value: Any) -> GraphTensor:
        return graph.make_constant(value)

    scale, zero = constant(np.float32(0.5)), constant(np.uint8(0))
    x = make("dequantize", graph.make_input(LogicalTensor(U8, (1, 16, 8, 8)), "x"), scale, zero)
    for number, groups in enumerate((1, 16)):
        weights = rng.integers(-3, 4, (16, 16 // groups, 3, 3), np.int8)
        w = make("dequantize", graph.make_constant(weights, f"w{number}"), scale)
        bias = constant(rng.integers(-99, 100, (16, 1, 1), np.int32))
        window = {"before": (1, 1), "after": (1, 1), "groups": groups}
        sums = make("convolution", x, w, **window)
        total = make("add", sums, make("dequantize", bias, constant(np.float32(0.25))))
        y = make("quantize", total, constant(np.float32(3.7)), zero, dtype=U8)
        x = make("dequantize", y, scale, zero)
    graph.make_output(y, "y")
    return graph


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", [isa for isa in ("avx512", "avx2") if host_supports(isa)])
def test_kernels_of_bytes_are_exact_in_every_form(
    isa: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights are measured in their compute dtype, not as the floats of the quantized model, with
    their requantization."""
    monkeypatch.setattr(variants, "_boundary_matmuls", lambda ctx: iter(()))
    monkeypatch.setattr(variants, "MAX_SCHEDULES", 1)
    ctx = LowerContext(target_for(isa), CompileOptions(1))
    found = model_variants(quantized_layers(), ctx)
    tried = [v for v in found if v.op.split()[0] in ("winograd_convolution", "fused")]
    tried += [v for v in found if v.op.startswith(("direct", "depthwise"))]
    forms = {v.schedule.settings.get("form", "") for v in tried if v.schedule is not None}
    assert {"f2", "f4"} <= forms and all(v.exact for v in tried)
    assert {str(x.dtype) for v in tried for x in v.inputs[:1]} == {"uint8"}
    whole = [v.problem for v in tried if v.op.startswith("fused")]
    assert len(whole) >= 2 and any(problem.startswith("dwconv") for problem in whole)
    assert all(trial.difference.ok for trial in try_variants(tried, ctx))
