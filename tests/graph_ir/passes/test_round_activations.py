"""round_activations: bytes and scales bit by bit as NumPy has them, once for all matmuls that share a row."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32
from graphc.base.errors import UserError
from graphc.base.options import CompileOptions
from graphc.codegen.host import host_supports, target_for
from graphc.driver.compiler import compile as compile_model
from graphc.frontend.decoder.linear import linear
from graphc.frontend.decoder.weights import Weight
from graphc.frontend.op_builder import OpBuilder
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.compose import Composer
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.rewriting.rounded_rows import rounded_rows
from graphc.graph_ir.schedule.context import LowerContext
from graphc.graph_ir.schedule.nbits_instructions import MAX_ON_BYTE_TILES
from graphc.targets.isa import Target
from support.gguf_files import TYPES, blocks

ISAS = [isa for isa in ("amx", "avx512", "avx2", "generic") if host_supports(isa)]
K, ROWS = 512, 40

BF16 = 2.0**-7 * 1.01
"""Bound of the error of sums of two rounded factors, relative to the sum of their magnitudes."""


def rounded(x: Array, group: int = 32) -> tuple[Array, Array]:
    """The bytes, s8 [m, k], and the scales f32 [m, k / group], step by step in f32."""
    apart = x.reshape(len(x), -1, group)
    scale = np.abs(apart).max(axis=2) * np.float32(1 / 127)
    scale = np.maximum(scale, np.float32(1e-30))
    whole = np.clip(np.rint(apart / scale[..., None]), -128, 127)
    return whole.astype(np.int8).reshape(x.shape), scale


def activations(m: int) -> Array:
    """Groups of very different sizes, a group of zeros, and halves between two bytes."""
    random = np.random.default_rng(m)
    x = random.standard_normal((m, K)) * np.exp(random.uniform(-20, 20, (m, K)))
    x[:, :32] = 0
    x[:, 32:64] = np.r_[127, np.arange(31) - 14.5]
    return x.astype(np.float32)


def layers(
    kind: str, *, several: int = 1, rows: int = ROWS, scale: float | None = None
) -> tuple[Graph, list[Array]]:
    """Linear layers of the same rows, whose number is dynamic, and their weights, of one `scale` if it is given."""
    graph, weights = Graph("layers"), list[Array]()
    x = graph.make_input(LogicalTensor(F32, (size(Symbol("T", 1, rows)), K)), "x")
    for number in range(several):
        made = blocks(kind, 37, K, np.random.default_rng(number), 1.0)
        if scale is not None:
            made.raw.reshape(-1, made.kind.size)[:, :2] = np.array([scale], "<f2").view(np.uint8)
        weight = Weight(f"w{number}", (37, K), made.kind, made.raw)
        graph.make_output(linear(OpBuilder(graph, f"layer{number}", "layers"), x, weight))
        weights.append(made.values.astype(np.float64))
    return graph, weights


def test_bytes_and_scales_are_those_of_numpy() -> None:
    graph = Graph("rounded")
    x = graph.make_input(LogicalTensor(F32, (5, K)), "x")
    for one in rounded_rows(Composer(graph, x.producer_owner), x, 32):
        graph.make_output(one)
    given = activations(5)
    found = compile_model(graph, cache=False, threads=1)(given)
    for one, wanted in zip(found, rounded(given), strict=True):
        np.testing.assert_array_equal(one, wanted)


def test_rows_are_rounded_once_for_all_matmuls_that_share_them() -> None:
    graph, _ = layers("q4_0", several=3)
    pipeline.run(graph, LowerContext(Target("avx2"), CompileOptions(activations="q8")))
    text = [
        op.op_name
        for top in graph.ops
        for op in (top.attr("graph").ops if top.op_name == "fused" else [top])
    ]
    assert text.count("matmul_nbits") == 3 and text.count("round_saturate") == 1


def test_refused() -> None:
    with pytest.raises(UserError, match="activations must be one of exact, q8, got 'q4'"):
        CompileOptions(activations="q4")


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", TYPES)
def test_rounded_rows_times_weights_of_every_type(kind: str, isa: str) -> None:
    graph, (weights,) = layers(kind)
    model = compile_model(graph, target=isa, cache=False, threads=1, activations="q8")
    for m in (1, 2, 5, 8, 15, 16, 17, 33, ROWS):
        x = activations(m)
        whole, scale = rounded(x)
        rows = whole.astype(np.float64) * np.repeat(scale.astype(np.float64), 32, axis=1)
        largest = np.abs(rows) @ np.abs(weights).T
        in_bytes = MAX_ON_BYTE_TILES // (2 if TYPES[kind].group < 32 else 1)
        tolerance = BF16 if isa == "amx" and m > in_bytes else 2e-6
        assert (np.abs(model(x) - rows @ weights.T) <= tolerance * largest).all(), m


@pytest.mark.skipif("amx" not in ISAS, reason="no two-dimensional registers")
@pytest.mark.parametrize("kind", ["q4_0", "q5_0", "q8_0", "iq4_nl"])
def test_many_rows_are_bf16_in_two_dimensional_registers(kind: str) -> None:
    """Bytes and levels are exact in bf16, and so are sums of integers, from the row on that bytes are slower."""
    graph, (weights,) = layers(kind, rows=512, scale=1.0)
    model = compile_model(graph, target="amx", cache=False, threads=2, activations="q8")
    for m in (9, 16, 31, 32, 33, 80):
        x = np.random.default_rng(m).integers(-20, 21, (m, K)).astype(np.float32)
        x[:, ::32] = 127
        np.testing.assert_array_equal(model(x), x @ weights.astype(np.float32).T)
    pipeline.run(graph, LowerContext(target_for("amx"), CompileOptions(activations="q8")))
    (schedule,) = [
        op.schedule for op in graph.ops if op.schedule and op.schedule.algorithm == "nbits"
    ]
    assert schedule.word("use") == "tile2"
