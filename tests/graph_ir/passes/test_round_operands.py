"""round_operands: matmuls of an f32 model with 16-bit operands, against the same sums of rounded operands."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphc.base.dims import Size, Symbol, size
from graphc.base.dtypes import F32, by_name
from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile as compile_model
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.round_operands import round_operands
from graphc.graph_ir.rewriting.decisions import log_of, start_log
from graphc.graph_ir.schedule.context import LowerContext
from graphc.targets.isa import Target
from graphc.targets.machines import SAPPHIRE_RAPIDS, ZEN5, Machine
from support.networks import arrays_of, attention

RANDOM = np.random.default_rng(0)


def layers() -> Graph:
    """A convolution, a matmul of its result, and a matmul that is too small."""
    graph = Graph("layers")
    x = graph.make_input(LogicalTensor(F32, (1, 16, 10, 10)), "x")
    kernel = graph.make_constant(RANDOM.standard_normal((24, 16, 1, 1)).astype(np.float32), "k")
    y = graph.make("convolution", [x, kernel], {}, "conv").outputs[0]
    flat = graph.make("reshape", [y], {"shape": (24, 100)}).outputs[0]
    w = graph.make_constant(RANDOM.standard_normal((100, 40)).astype(np.float32), "w")
    y = graph.make("matmul_core", [flat, w], {}, "fc").outputs[0]
    small = graph.make_constant(RANDOM.standard_normal((40, 1)).astype(np.float32), "small")
    graph.make_output(graph.make("matmul_core", [y, small], {}, "last").outputs[0], "y")
    return graph


DOTS = Target("avx512", features="+avx512bf16")


@pytest.mark.parametrize(
    ("machine", "m", "taken"),
    [(ZEN5, 128, True), (SAPPHIRE_RAPIDS, 128, False), (SAPPHIRE_RAPIDS, 1, True)],
    ids=["two dots a cycle", "a dot every other cycle", "bound by memory"],
)
def test_what_would_be_slower_stays_f32(machine: Machine, m: int, taken: bool) -> None:
    """The rate of `vdpbf16ps` decides where multiply-adds bind, the bytes of the weights where memory does."""
    for sizes in ((m, 768, 2048), (m, 2048, 768)):
        graph = Graph("matmul")
        x = graph.make_input(LogicalTensor(F32, (sizes[0], sizes[2])), "x")
        w = graph.make_constant(np.ones((sizes[2], sizes[1]), np.float32), "w")
        graph.make_output(graph.make("matmul_core", [x, w], {}, "fc").outputs[0], "y")
        target = replace(DOTS, machine=machine)
        assert (
            round_operands(graph, LowerContext(target, CompileOptions(precision="bf16"))) == taken
        )
        kept = CompileOptions(precision="bf16", disabled=frozenset({"keep-f32"}))
        assert taken or round_operands(graph, LowerContext(target, kept))


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("machine", [ZEN5, SAPPHIRE_RAPIDS])
def test_depthwise_convolutions_stay_f32(machine: Machine, dtype: str) -> None:
    """They multiply in f32, so that operands of 16 bits are only widened again."""
    graph = Graph("depthwise")
    x = graph.make_input(LogicalTensor(F32, (1, 32, 112, 112)), "x")
    w = graph.make_constant(np.ones((32, 1, 3, 3), np.float32), "w")
    y = graph.make("convolution", [x, w], {"groups": 32, "before": (1, 1), "after": (1, 1)}, "y")
    graph.make_output(y.outputs[0], "y")
    target = replace(DOTS, machine=machine)
    assert not round_operands(graph, LowerContext(target, CompileOptions(precision=dtype)))


def rounded(array: Array, dtype: str) -> Array:
    return array.astype(by_name(dtype).numpy).astype(np.float64)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_operands_are_rounded_and_sums_are_not(dtype: str) -> None:
    graph = layers()
    x = RANDOM.standard_normal((1, 16, 10, 10)).astype(np.float32)
    k, w, small = (op.attr("value") for op in graph.ops if op.op_name == "constant")
    image = (rounded(k, dtype)[:, :, 0, 0] @ rounded(x, dtype).reshape(16, 100)).astype(np.float32)
    wanted = (rounded(image, dtype) @ rounded(w, dtype)).astype(np.float32) @ small
    for target in ("native", "generic"):
        found = compile_model(
            graph, precision=dtype, target=target, threads=1, disabled={"keep-f32"}
        )(x)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-3 * np.abs(wanted).max())
    assert np.abs(compile_model(graph)(x) - found).max() > 1e-4 * np.abs(wanted).max()


def test_what_is_taken_is_recorded() -> None:
    graph = layers()
    start_log(graph)
    ctx = LowerContext(DOTS, CompileOptions(precision="bf16"))
    assert round_operands(graph, ctx)
    texts = [str(d) for d in log_of(graph).decisions]
    assert texts == [
        "precision conv -> conv.convolution: bf16: operands are rounded to bf16, sums stay f32",
        "precision fc -> fc.matmul_core: bf16: operands are rounded to bf16, sums stay f32",
        "precision last -> last: stays f32: too small to gain",
    ]
    assert not round_operands(layers(), LowerContext(Target("generic")))


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_attention_stays_one_kernel(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphc.graph_ir.rewriting.contractions.FEWEST_MULTIPLY_ADDS", 0)
    graph = attention()
    arrays = arrays_of(graph)
    options = CompileOptions(precision=dtype, disabled=frozenset({"keep-f32"}))
    done = compile_stages(graph, options=options)
    assert any("_attention_" in call.kernel for call in done.lowered.calls)
    found = compile_model(graph, precision=dtype, cache=False, disabled={"keep-f32"})(*arrays)
    np.testing.assert_allclose(found, graph.evaluate(arrays)[0], rtol=0, atol=0.01)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_convolutions_of_dynamic_batch(dtype: str) -> None:
    def model(batch: Size) -> Graph:
        graph = Graph("open")
        x = graph.make_input(LogicalTensor(F32, (batch, 16, 10, 10)), "x")
        y = graph.make("convolution", [x, graph.make_constant(kernel, "k")], {}, "conv")
        graph.make_output(y.outputs[0], "y")
        return graph

    kernel = RANDOM.standard_normal((24, 16, 3, 3)).astype(np.float32)
    images = RANDOM.standard_normal((3, 16, 10, 10)).astype(np.float32)
    (wanted,) = model(3).evaluate([images])
    graph = model(size(Symbol("N", 1, 64)))
    for target in ("native", "avx2"):
        found = compile_model(
            graph, precision=dtype, target=target, threads=1, disabled={"keep-f32"}
        )(images)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=5e-3 * np.abs(wanted).max())
