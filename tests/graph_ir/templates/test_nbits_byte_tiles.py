"""Packed weights by rows of bytes in two-dimensional registers, and the same program in vectors."""

from __future__ import annotations

from dataclasses import replace

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
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.schedule.context import LowerContext
from graphc.runtime import tile_permission
from graphc.runtime.executor import CompiledModel
from graphc.runtime.native import runs_tiles
from graphc.targets.machines import SAPPHIRE_RAPIDS
from support.gguf_files import blocks
from support.packed_matmul import check_between_guard_pages, packed_matmul

needs_tiles = pytest.mark.skipif(not (host_supports("amx") and runs_tiles()), reason="needs AMX")

SIZES = [
    (9, 50, 128, 4, 64, True), (16, 64, 64, 4, 32, True), (17, 16, 192, 4, 32, False), (31, 70, 320, 2, 16, False),
    (1, 33, 512, 4, 128, True), (20, 48, 512, 4, 512, False),
]  # fmt: skip


@needs_tiles
@pytest.mark.parametrize("sizes", SIZES, ids=lambda s: "x".join(map(str, s[:5])))
def test_exact_between_guard_pages(
    sizes: tuple[int, int, int, int, int, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups that share a register, fill one and take several; vectors compute the same where tiles are refused."""
    m, n, k, bits, group, one_zero = sizes
    graph, arrays = packed_matmul(m, n, k, bits, group, True, one_zero)
    (wanted,) = graph.evaluate(arrays)
    schedules = {"y": "unpack=bytes use=tile4 nv=2"}
    in_tiles = compile_model(graph, target="amx", threads=2, cache=False, schedules=schedules)
    monkeypatch.setattr(tile_permission, "_answers", [False])
    for model in (in_tiles, CompiledModel(in_tiles.artifact, 1)):
        check_between_guard_pages(model, arrays, wanted)


@needs_tiles
@pytest.mark.parametrize("kind", ["q4_k", "q5_0", "q6_k", "q8_0", "iq4_nl"])
def test_a_row_has_the_same_bits_among_any_number_of_rows(kind: str) -> None:
    graph = Graph("layer")
    x = graph.make_input(LogicalTensor(F32, (size(Symbol("T", 1, 64)), 512)), "x")
    made = blocks(kind, 70, 512, np.random.default_rng(1))
    graph.make_output(
        linear(OpBuilder(graph, "layer", "layer"), x, Weight("w", (70, 512), made.kind, made.raw))
    )
    model = compile_model(graph, target="amx", cache=False, threads=1, activations="q8")
    rows = np.random.default_rng(0).standard_normal((32, 512)).astype(np.float32)
    alone = np.concatenate([model(row[None]) for row in rows])
    for m in (4, 5, 15, 16) if kind == "q6_k" else (4, 5, 15, 16, 17, 32):
        np.testing.assert_array_equal(model(rows[:m]), alone[:m])


@pytest.mark.parametrize(
    ("rows", "wanted"), [(8, "registers dot4"), (9, "bytes tile4"), (17, "bytes tile4"), (64, "panel tile2")]
)  # fmt: skip
def test_the_faster_of_bytes_and_bf16(rows: int, wanted: str) -> None:
    graph, _ = packed_matmul(rows, 512, 1024, 4, 32, True)
    target = replace(
        target_for("amx"), l1_bytes=48 << 10, l2_bytes=2 << 20, machine=SAPPHIRE_RAPIDS
    )
    pipeline.run(graph, LowerContext(target, CompileOptions()))
    (schedule,) = [
        op.schedule for op in graph.ops if op.schedule and op.schedule.algorithm == "nbits"
    ]
    assert f"{schedule.word('unpack')} {schedule.word('use')}" == wanted


@pytest.mark.parametrize(
    ("k", "bits", "group"), [(96, 4, 32), (128, 8, 32)], ids=["half a register", "levels above s8"]
)
def test_refused(k: int, bits: int, group: int) -> None:
    graph, _ = packed_matmul(16, 32, k, bits, group, True)
    with pytest.raises(
        UserError, match="must be as in unpack=registers use=dot4 or unpack=bytes use=dot4"
    ):
        compile_model(graph, target="amx", cache=False, schedules={"y": "unpack=bytes use=tile4"})
