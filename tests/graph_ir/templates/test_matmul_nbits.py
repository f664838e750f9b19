"""Packed weights on every ISA: in registers and in panels, all blockings, whole and ragged sizes, two threads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import F32, S8
from graphc.base.target import Target
from graphc.codegen.host import host_supports
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.schedule import parse_schedule
from graphc.graph_ir.ops.matmul_nbits import packed_words
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.schedule.context import LowerContext
from graphc.tensor_ir.printer import print_module
from graphc.tools.fuzz.guarded import guarded, guarded_copy
from support.lowered import check_interpreted, context

ISAS = [isa for isa in ("avx512", "avx2", "generic") if host_supports(isa)]


def product(
    m: int, n: int, k: int, bits: int, group: int, of_bytes: bool, one_zero: bool = True
) -> tuple[Graph, list[Array]]:
    """Small integers and scales that are powers of two: every sum is exact, in any order."""
    random, graph, groups = np.random.default_rng(m * n * k), Graph("packed"), k // group
    x = random.integers(-8, 9, (m, k)).astype(np.int8 if of_bytes else np.float32)
    arrays = [x]
    operands = [graph.make_input(LogicalTensor(S8 if of_bytes else F32, (m, k)), "x")]
    numbers = random.integers(0, 1 << bits, (n, k))
    scale = 2.0 ** random.integers(-2, 3, (n, groups))
    zero = random.integers(0, 1 << bits, (1, 1) if one_zero else (n, groups))
    operands += [
        graph.make_constant(packed_words(numbers, bits), "w"),
        graph.make_constant(scale.astype(np.float32), "scale"),
        graph.make_constant(zero.astype(np.float32), "zero"),
    ]
    if of_bytes:
        operands.append(graph.make_input(LogicalTensor(F32, (m, groups)), "x_scale"))
        arrays.append((2.0 ** random.integers(-2, 3, (m, groups))).astype(np.float32))
    y = graph.make("matmul_nbits", operands, {"bits": bits, "group": group}, "y").outputs[0]
    bias = graph.make_constant(np.arange(n, dtype=np.float32), "bias")
    graph.make_output(graph.make("relu", graph.make("add", [y, bias]).outputs).outputs[0])
    return graph, arrays


SIZES = [
    (1, 64, 64, 4, 32, False, True), (1, 37, 96, 4, 32, True, False), (3, 100, 64, 8, 16, False, False),
    (9, 50, 128, 4, 64, True, True), (2, 16, 512, 8, 512, False, True), (21, 77, 640, 4, 32, False, False),
    (5, 33, 1024, 8, 1024, False, False), (19, 70, 128, 4, 32, True, False), (13, 20, 64, 8, 16, True, True),
]  # fmt: skip


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("sizes", SIZES, ids=lambda s: "x".join(map(str, s[:5])))
def test_exact_between_guard_pages(sizes: tuple[Any, ...], isa: str) -> None:
    graph, arrays = product(*sizes)
    (wanted,) = graph.evaluate(arrays)
    for threads in (1, 2):
        model = compile_model(graph, target=isa, threads=threads, cache=False)
        held = {x.name: guarded_copy(a) for x, a in zip(model.inputs, arrays, strict=True)}
        out = guarded(wanted.shape, wanted.dtype)
        model.bind(held, [out])()
        np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("text", [
    "unpack=registers mr=1", "unpack=registers mr=3", "unpack=panel mr=4 kc=32", "unpack=panel kc=64 mc=5 ng=2",
    "unpack=panel nv=1 mr=12 kc=128", "nv=2 unpack=registers",
])  # fmt: skip
def test_schedules_that_were_asked_for(text: str) -> None:
    graph, arrays = product(6, 70, 128, 4, 32, False, False)
    (wanted,) = graph.evaluate(arrays)
    model = compile_model(graph, threads=2, cache=False, schedules={"y": text})
    np.testing.assert_array_equal(model(*arrays), wanted)


def test_interpreted() -> None:
    for rows in (2, 5):
        graph, _ = product(rows, 17, 32, 4, 16, False, False)
        check_interpreted(graph, context())


@pytest.mark.parametrize(
    ("rows", "l2_bytes", "lines"), [(1, 1 << 20, 0), (1, 1 << 10, 4), (3, 1 << 10, 0)]
)
def test_words_that_l2_cannot_hold_are_fetched_ahead(rows: int, l2_bytes: int, lines: int) -> None:
    """As many lines per word as its vectors have; what is read several times is in L2 by then."""
    graph, _ = product(rows, 128, 64, 4, 32, False)
    target = replace(Target("avx512"), l2_bytes=l2_bytes)
    asked = {"y": parse_schedule("unpack=registers mr=1 nv=4")}
    lowered = check_interpreted(graph, LowerContext(target, asked=asked))
    hints = print_module(lowered.module).count("prefetch(")
    assert hints == 4 * lines, "4 words of a column in each round"


@pytest.mark.parametrize(
    ("rows", "of_bytes", "wanted"),
    [(1, True, "registers"), (4, True, "registers"), (64, True, "bytes"), (1, False, "registers"),
     (4, False, "registers"), (64, False, "panel")],
)  # fmt: skip
def test_where_weights_are_unpacked(rows: int, of_bytes: bool, wanted: str) -> None:
    graph, _ = product(rows, 512, 1024, 4, 32, of_bytes)
    ctx = LowerContext(Target("avx512", features="+avx512vnni"))
    pipeline.run(graph, ctx)
    (schedule,) = [
        op.schedule for op in graph.ops if op.schedule and op.schedule.algorithm == "nbits"
    ]
    assert schedule.word("unpack") == wanted
