"""Packed weights on every ISA: in registers and in panels, all blockings, whole and ragged sizes, two threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32, S8
from graphc.base.options import CompileOptions
from graphc.base.packed_words import LOW_BITS, packed_words
from graphc.codegen.host import host_supports
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.matmul_nbits import MatmulNBits
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.rewriting.kernel_group import group_of
from graphc.graph_ir.schedule.context import LowerContext
from graphc.graph_ir.schedule.matmul_nbits import few_schedules
from graphc.targets.isa import Target
from support.packed_matmul import check_between_guard_pages, packed_matmul

AVX2 = Target("avx2", "x86-64-v3", "+avx2,+fma")
"""Without dot products of four bytes, and of no core family: choices are the same on every machine."""

ISAS = [isa for isa in ("avx512", "avx2", "generic") if host_supports(isa)]


SIZES = [
    (1, 64, 64, 4, 32, False, True), (1, 37, 96, 4, 32, True, False), (3, 100, 64, 8, 16, False, False),
    (9, 50, 128, 4, 64, True, True), (2, 16, 512, 8, 512, False, True), (21, 77, 640, 4, 32, False, False),
    (5, 33, 1024, 8, 1024, False, False), (19, 70, 128, 4, 32, True, False), (13, 20, 64, 8, 16, True, True),
    (6, 24, 60, 8, 20, True, True),
]  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("sizes", SIZES, ids=lambda s: "x".join(map(str, s[:5])))
def test_exact_between_guard_pages(sizes: tuple[Any, ...], isa: str) -> None:
    graph, arrays = packed_matmul(*sizes)
    (wanted,) = graph.evaluate(arrays)
    for threads in (1, 2):
        model = compile_model(graph, target=isa, threads=threads, cache=False)
        check_between_guard_pages(model, arrays, wanted)


@pytest.mark.parametrize("of_bytes", [False, True])
def test_bits_of_dynamic_rows_do_not_depend_on_threads(of_bytes: bool) -> None:
    """The cost model once took other instructions for 3 rows of floats on two threads than on one."""
    graph, arrays = packed_matmul(9, 256, 320, 4, 32, of_bytes, rows=size(Symbol("M", 1, 1024)))
    floats = arrays[-1 if of_bytes else 0]
    floats[:] = np.random.default_rng(0).normal(size=floats.shape)
    models = [compile_model(graph, threads=threads, cache=False) for threads in (1, 2, 3)]
    for m in range(1, 10):
        wanted, *others = (model(*(x[:m] for x in arrays)) for model in models)
        for found in others:
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "of_bytes, most, shared", [(False, 4, [[1, 3], [2, 4]]), (True, 8, [[1, 2, 3, 4, 6]])], ids=["floats", "bytes"]
)  # fmt: skip
def test_few_rows_that_loop_over_equal_tiles_share_code(
    of_bytes: bool, most: int, shared: list[list[int]]
) -> None:
    """Whatever their number, also none."""
    sizes = 9, 1024, 1024, 4, 32, of_bytes
    static, arrays = packed_matmul(*sizes)
    (wanted,) = static.evaluate(arrays)
    graph, _ = packed_matmul(*sizes, rows=size(Symbol("M", 0, 12)))
    ctx = LowerContext(AVX2, CompileOptions(1))
    work = graph.copy()
    pipeline.run(work, ctx)
    (op,) = (x for x in work.ops if x.op_name in ("fused", "matmul_nbits"))
    group = group_of(op)
    (matmul,) = (x for x in group.ops if isinstance(x, MatmulNBits))
    found = [rows for rows, _ in few_schedules(matmul, group, ctx)]
    assert found[: len(shared)] == shared
    assert sorted(sum(found, [])) == [*range(1, most + 1)]
    model = compile_model(graph, target="avx2", threads=1, cache=False)
    for m in range(10):
        np.testing.assert_array_equal(model(*(x[:m] for x in arrays)), wanted[:m])


@pytest.mark.exhaustive
@pytest.mark.parametrize("text", [
    "unpack=registers mr=1", "unpack=registers mr=3", "unpack=panel mr=4 kc=32", "unpack=panel kc=64 mc=5 ng=2",
    "unpack=panel nv=1 mr=12 kc=128", "nv=2 unpack=registers",
])  # fmt: skip
def test_schedules_that_were_requested(text: str) -> None:
    graph, arrays = packed_matmul(6, 70, 128, 4, 32, False, False)
    (wanted,) = graph.evaluate(arrays)
    model = compile_model(graph, threads=2, cache=False, schedules={"y": text})
    np.testing.assert_array_equal(model(*arrays), wanted)


@pytest.mark.parametrize(
    ("rows", "of_bytes", "has_dots", "wanted"),
    [(1, True, True, "registers dot4"), (4, True, True, "registers dot4"), (64, True, True, "bytes dot4"),
     (1, False, True, "registers dot4"), (4, False, True, "registers dot4"), (64, False, True, "registers dot4"),
     (1, True, False, "registers dot2"), (64, True, False, "bytes dot2"),
     (1, False, False, "registers dot2"), (4, False, False, "registers fma"), (64, False, False, "panel fma")],
)  # fmt: skip
def test_where_weights_are_unpacked_and_what_multiplies(
    rows: int, of_bytes: bool, has_dots: bool, wanted: str
) -> None:
    graph, _ = packed_matmul(rows, 512, 1024, 4, 32, of_bytes)
    ctx = LowerContext(Target("avx512", features="+avx512vnni" if has_dots else ""))
    pipeline.run(graph, ctx)
    (schedule,) = [
        op.schedule for op in graph.ops if op.schedule and op.schedule.algorithm == "nbits"
    ]
    assert f"{schedule.word('unpack')} {schedule.word('use')}" == wanted


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
def test_sums_of_the_largest_levels_and_bytes_do_not_saturate(bits: int, isa: str) -> None:
    n, k, group, largest = 20, 64, 32, (1 << bits) - 1
    levels = np.full((n, k), largest)
    levels[:, ::7] = np.arange(n)[:, None] % (largest + 1)
    low, names = LOW_BITS[bits], ["high", "x_scale"] if bits > LOW_BITS[bits] else ["x_scale"]
    arrays = [packed_words(levels & (1 << low) - 1, low), np.ones((n, k // group), np.float32)]
    arrays.append(np.full((1, 1), 1 << bits - 1, np.float32))
    if "high" in names:
        arrays.append(packed_words(levels >> low, bits - low))
    for m in (1, 3, 9):
        graph, x = Graph("largest"), np.full((m, k), -128, np.int8)
        x[m // 2] = 127
        operands = [
            graph.make_input(LogicalTensor(S8, (m, k)), "x"), *map(graph.make_constant, arrays),
            graph.make_input(LogicalTensor(F32, (m, k // group)), "x_scale"),
        ]  # fmt: skip
        attrs = {"bits": bits, "group": group, "parts": ",".join(names)}
        graph.make_output(graph.make("matmul_nbits", operands, attrs, "y").outputs[0])
        model = compile_model(graph, target=isa, threads=1, cache=False)
        found = model(x, np.ones((m, k // group), np.float32))
        wanted = x.astype(np.int64) @ (levels - (1 << bits - 1)).T
        np.testing.assert_array_equal(found, wanted)
