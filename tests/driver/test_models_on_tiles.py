"""Models whose matmuls run in tile registers, and what they do where the system refuses those."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import graphc
from graphc import Graph
from graphc.base.dtypes import BF16, F32, S8, S32, U8, DType
from graphc.base.options import CompileOptions
from graphc.codegen.aot import assembly
from graphc.codegen.host import host_supports
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.text.parser import parse_graph
from graphc.graph_ir.text.printer import print_graph
from graphc.runtime import tile_permission
from graphc.runtime.executor import CompiledModel
from graphc.runtime.native import runs_tiles
from graphc.targets.isa import Target
from graphc.targets.machines import SAPPHIRE_RAPIDS

needs_tiles = pytest.mark.skipif(not (host_supports("amx") and runs_tiles()), reason="needs AMX")
TILES = {"matmul": "use=tile4"}


def layer(m: int, n: int, k: int, dtype: DType = U8) -> tuple[Graph, np.ndarray]:
    """A matmul of bytes with constant weights, and its input."""
    rng = np.random.default_rng(m * n * k)
    graph = Graph("layer")
    x = graph.make_input(LogicalTensor(dtype, (m, k)), "x")
    w = graph.make_constant(rng.integers(-128, 128, (k, n)).astype(np.int8))
    graph.make_output(graph.make("matmul_core", (x, w), {"dtype": S32}, "matmul").outputs[0])
    low, high = (0, 256) if dtype == U8 else (-128, 128)
    return graph, rng.integers(low, high, (m, k)).astype(dtype.numpy)


SIZES = [
    (32, 32, 64),
    (1, 1, 1),
    (17, 33, 65),
    (49, 40, 100),
    (64, 16, 36),
    (15, 70, 13),
    (100, 31, 256),
]


@pytest.mark.parametrize("rows", [3, 16])
def test_no_rows_are_read_before_a_matrix(rows: int, tmp_path: Path) -> None:
    """A matrix of fewer rows than a tile may lie at the beginning of the constants."""
    graph = Graph("few")
    weights = graph.make_constant(np.arange(rows * 6, dtype=np.int8).reshape(rows, 6))
    x = graph.make_input(LogicalTensor(U8, (6, 1)), "x")
    half, scale = (graph.make_constant(np.float32(value)) for value in (0.5, 0.125))
    zeros = [graph.make_constant(zero) for zero in (np.int8(-25), np.uint8(193))]
    a = graph.make("dequantize", (weights, half, zeros[0])).outputs[0]
    b = graph.make("dequantize", (x, scale, zeros[1])).outputs[0]
    graph.make_output(graph.make("matmul_core", (a, b)).outputs[0])
    options = CompileOptions(layout="blocked", dump_dir=tmp_path)
    target = Target("amx", "x86-64-v4", "+avx512vnni,+avx512bf16,+amx-tile,+amx-int8,+amx-bf16")
    compile_stages(graph, target, options)
    (lowered,) = tmp_path.glob("*_lower.txt")
    tiles = re.findall(r" m=(\d+), .* tile_rows=(\d+)", lowered.read_text())
    assert tiles and all(int(height) <= rows for _, height in tiles)


@needs_tiles
@pytest.mark.parametrize("dtype", [U8, S8], ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_sums_of_bytes_are_exact(sizes: tuple[int, int, int], dtype: DType) -> None:
    """Also in vectors, which the same artifact has for processes that may not use tiles."""
    graph, x = layer(*sizes, dtype)
    (expected,) = graph.evaluate([x])
    model = graphc.compile(graph, target="amx", schedules=TILES)
    assert model.artifact.vector_code
    np.testing.assert_array_equal(model(x), expected)


WINDOWS = [
    # channels, outputs, image, kernel, stride, padding
    (64, 40, (14, 9), 1, 1, 0),
    (64, 64, (14, 14), 3, 1, 1),
    (32, 96, (9, 23), 3, 2, 1),
    (160, 40, (7, 7), 1, 2, 0),
    (20, 33, (13, 7), 3, 1, 1),
    # each line of pixels is a register
    (64, 40, (10, 12), 3, 1, 1),
    (32, 33, (21, 32), 3, 2, 1),
    # fewer channels than an instruction takes: groups end in zeros
    (3, 40, (33, 38), 7, 2, 3),
    (1, 64, (30, 33), 5, 1, 2),
    (5, 31, (17, 19), 3, 2, 1),
]


@needs_tiles
@pytest.mark.parametrize("dtype", [U8, BF16], ids=str)
@pytest.mark.parametrize("sizes", WINDOWS, ids=str)
def test_sums_of_convolutions_are_exact(
    sizes: tuple[int, int, tuple[int, int], int, int, int], dtype: DType
) -> None:
    channels, outputs, image, kernel, stride, padding = sizes
    rng = np.random.default_rng(channels)
    graph = Graph("layer")
    x = graph.make_input(LogicalTensor(dtype, (2, channels, *image)), "x")
    taps, pads = (outputs, channels, kernel, kernel), (padding, padding)
    # integers that a bf16 holds, with sums that an f32 holds
    weights, most = (np.int8, 256) if dtype == U8 else (BF16.numpy, 64)
    w = graph.make_constant(rng.integers(-128, 128, taps).astype(weights))
    result = S32 if dtype == U8 else F32
    attrs = {"strides": (stride, stride), "before": pads, "after": pads, "dtype": result}
    graph.make_output(graph.make("convolution", (x, w), attrs, "taps").outputs[0])
    given = rng.integers(0, most, (2, channels, *image)).astype(dtype.numpy)
    use = "tile4" if dtype == U8 else "tile2"
    model = graphc.compile(graph, target="amx", schedules={"taps": f"use={use}"})
    assert model.artifact.vector_code
    np.testing.assert_array_equal(model(given), graph.evaluate([given])[0])


def test_images_of_convolutions_in_bf16_stay_as_they_are() -> None:
    """An image is transposed before and after all convolutions, and no weights are packed at run time."""
    rng = np.random.default_rng(0)
    graph = Graph("bottleneck")
    y = graph.make_input(LogicalTensor(F32, (1, 64, 28, 28)), "x")
    for number, kernel in enumerate((1, 3, 1, 1, 3)):
        w = graph.make_constant(rng.standard_normal((64, 64, kernel, kernel), np.float32))
        pads = {"before": (kernel // 2,) * 2, "after": (kernel // 2,) * 2}
        y = graph.make("convolution", (y, w), pads, f"taps{number}").outputs[0]
        y = graph.make("relu", (y,)).outputs[0]
    graph.make_output(graph.make("reduce_sum", (y,), {"axes": (2, 3)}).outputs[0])
    target = Target("amx", "x86-64-v4", "+avx512vnni,+avx512bf16,+amx-tile,+amx-int8,+amx-bf16")
    target = replace(target, machine=SAPPHIRE_RAPIDS, l2_bytes=2 << 20)
    compiled = compile_stages(graph, target, CompileOptions(precision="bf16"))
    moved = [call.note for call in compiled.lowered.calls if "[transpose" in call.note]
    taps = [call.note for call in compiled.lowered.calls if "tensorize" in call.note]
    assert len(moved) <= 2 and len(taps) == 5
    assert all("tile2" in note and "b_panel" not in note for note in taps)


def test_f16_is_multiplied_on_tiles_that_take_it() -> None:
    """The code for a CPU with them, and that without tiles for processes that may not use them."""
    graph = Graph("layer")
    x = graph.make_input(LogicalTensor(F32, (64, 96)), "x")
    w = graph.make_constant(np.random.default_rng(0).standard_normal((96, 64), np.float32))
    graph.make_output(graph.make("matmul_core", (x, w)).outputs[0])
    for target, multiply in (("amx", "vfmadd"), ("amx+amx-fp16", "tdpfp16ps")):
        compiled = compile_stages(graph, target, CompileOptions(1, precision="f16"))
        assert multiply in assembly(compiled.llvm_ir, compiled.target)
        assert compiled.artifact.metadata.uses_tiles == (multiply == "tdpfp16ps")


ATTENTION = [(12, 128, 128, 64), (1, 193, 197, 64), (12, 50, 96, 96)]


@needs_tiles
@pytest.mark.parametrize("sizes", ATTENTION, ids=str)
def test_attention_in_bf16(sizes: tuple[int, int, int, int]) -> None:
    """Both matmuls round their operands and sum in f32; rows, columns and steps that fill no whole register."""
    batch, rows, columns, width = sizes
    rng, shapes = (
        np.random.default_rng(rows),
        ((batch, rows, width), *[(batch, columns, width)] * 2),
    )
    graph = Graph("attention")
    q, k, v = (
        graph.make_input(LogicalTensor(F32, shape), name)
        for shape, name in zip(shapes, "qkv", strict=True)
    )
    scores = graph.make("matmul_core", [q, k], {"transpose_b": True}, "scores").outputs[0]
    weights = graph.make("softmax", [scores], {"axis": -1}, "weights").outputs[0]
    graph.make_output(graph.make("matmul_core", [weights, v], name="mix").outputs[0])
    given = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    model = graphc.compile(graph, target="amx", precision="bf16")
    assert "use=tile2" in model.artifact.graph
    a, b, c = (x.astype(BF16.numpy).astype(np.float64) for x in given)
    exact = a @ b.swapaxes(1, 2)
    parts = np.exp(exact - exact.max(-1, keepdims=True))
    rounded = parts.astype(BF16.numpy).astype(np.float64)
    expected = rounded @ c / parts.sum(-1, keepdims=True)
    # A part next to the middle of two bf16 may be rounded to either.
    np.testing.assert_allclose(model(*given), expected, atol=2e-3)


@needs_tiles
def test_the_switch_changes_no_bit_of_integers() -> None:
    graph, x = layer(40, 50, 200)
    on = graphc.compile(graph, target="amx", schedules=TILES)
    off = graphc.compile(graph, target="amx", disabled=["amx"])
    assert on.artifact.metadata.isa == "amx" and off.artifact.metadata.isa == "avx512"
    np.testing.assert_array_equal(on(x), off(x))


@needs_tiles
def test_a_refusal_is_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One line in the log, and the same result in vectors."""
    monkeypatch.setattr(tile_permission, "request_tiles", lambda: 28)
    monkeypatch.setattr(tile_permission, "_answers", [])
    graph, x = layer(17, 33, 65)
    with caplog.at_level(logging.WARNING, "graphc.runtime"):
        models = [
            graphc.compile(graph, target="amx", schedules=TILES, cache=False) for _ in range(2)
        ]
    for model in models:
        np.testing.assert_array_equal(model(x), graph.evaluate([x])[0])
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "refuses tile registers" in caplog.text


@needs_tiles
@pytest.mark.parametrize(("k", "n"), [(96, 80), (100, 200)])
def test_any_number_of_rows(k: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One code for all, in tiles and in vectors; rows of an input are copied where enough columns share the copy."""
    alone, _ = layer(1, n, k)
    text = (
        print_graph(alone, full=True)
        .replace(f"u8[1,{k}]", f"u8[B,{k}]")
        .replace(f"s32[1,{n}]", f"s32[B,{n}]")
    )
    graph = parse_graph(text)
    model = graphc.compile(graph, target="amx", schedules=TILES)
    monkeypatch.setattr(tile_permission, "_answers", [False])
    in_vectors = CompiledModel(model.artifact, 1)
    for rows in (1, 2, 15, 16, 17, 33, 100):
        x = np.random.default_rng(rows).integers(0, 256, (rows, k)).astype(np.uint8)
        expected = np.concatenate([alone.evaluate([row[None]])[0] for row in x])
        np.testing.assert_array_equal(model(x), expected)
        np.testing.assert_array_equal(in_vectors(x), expected)


_PROGRAM = """
import os, sys, threading
import numpy as np
import graphc

ready, go = threading.Event(), threading.Event()
x, expected = np.load(sys.argv[2]), np.load(sys.argv[3])
vectors = graphc.load(sys.argv[4], threads=2)
found = [np.array_equal(vectors(x), expected)]  # workers start before the process has the permission
def run():
    ready.set()
    go.wait()
    found.append(np.array_equal(model(x), expected))
thread = threading.Thread(target=run)  # starts before the process has the permission
thread.start()
ready.wait()
model = graphc.load(sys.argv[1], threads=2)
go.set()
thread.join()
found.append(np.array_equal(model(x), expected))
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(model(x), expected) else 1)
found.append(os.waitpid(child, 0)[1] == 0)
print(found)
"""


@needs_tiles
def test_a_saved_model_runs_in_another_process_and_its_threads_and_children(tmp_path: Path) -> None:
    """Also in the workers of a pool that a model in vectors started."""
    graph, x = layer(256, 96, 512)
    on_tiles = graphc.compile(graph, target="amx", threads=2, schedules=TILES)
    in_vectors = graphc.compile(graph, target="avx512", threads=2)
    assert on_tiles.artifact.support_code == in_vectors.artifact.support_code != b""
    on_tiles.artifact.save(tmp_path / "layer.gcm")
    in_vectors.artifact.save(tmp_path / "vectors.gcm")
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", graph.evaluate([x])[0])
    files = [str(tmp_path / name) for name in ("layer.gcm", "x.npy", "y.npy", "vectors.gcm")]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _PROGRAM, *files],
        capture_output=True,
        text=True,
        env=os.environ,
    )
    assert done.stdout.strip() == str([True] * 4), done.stderr


@needs_tiles
def test_threads_share_the_rows() -> None:
    graph, x = layer(256, 96, 512)
    model = graphc.compile(graph, target="amx", threads=2, schedules=TILES)
    alone = CompiledModel(model.artifact, 1)
    results: list[np.ndarray] = []
    workers = [threading.Thread(target=lambda: results.append(model(x))) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for result in (*results, alone(x)):
        np.testing.assert_array_equal(result, graph.evaluate([x])[0])
